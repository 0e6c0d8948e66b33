"""Every error that a user can meet is two sentences: what is wrong, what to do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from cpulab import errors
from cpulab.errors import InputError, LabError, MachineError


def concrete() -> list[type[LabError]]:
    found: list[type[LabError]] = []
    for _, one in inspect.getmembers(errors, inspect.isclass):
        if issubclass(one, LabError) and one not in {LabError, InputError, MachineError}:
            found.append(one)
    return found


def made(kind: type[LabError]) -> LabError:
    """Make an error of ``kind``, with a word for each of its arguments."""
    arguments: list[object] = []
    for name, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        text = str(parameter.annotation)
        if "Iterable" in text or "Sequence" in text:
            arguments.append([f"a-{name}"])
        elif text == "Path":
            arguments.append(Path(f"a-{name}"))
        else:
            arguments.append(f"a-{name}")
    return kind(*arguments)


@pytest.mark.parametrize("kind", concrete())
def test_an_error_is_two_sentences_and_holds_every_value_it_was_given(kind: type[LabError]) -> None:
    text = str(made(kind))
    assert len(re.findall(r"[.?!](?= [A-Z`]|$)", text)) == 2, text
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        assert f"a-{name}" in text


def test_every_error_is_either_the_inputs_or_the_machines() -> None:
    assert [one for one in concrete() if not issubclass(one, InputError | MachineError)] == []
