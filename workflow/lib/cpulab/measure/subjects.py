"""What is measured: a network or one of the small functions, with its inputs. Runs in the measured process."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Subject:
    """A function and its arguments; ``facts`` are observations about what was really built.

    ``arms``: what else can be measured beside eager and Inductor, by name.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    positional: Sequence[Any] = ()
    arms: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def call(self) -> Any:
        """Call the function in eager mode."""
        return self.function(*self.positional, **self.arguments)


def build(asked: Mapping[str, Any]) -> Subject:
    """Build the subject that ``asked["kind"]`` names, of those in ``_BUILDERS``; the other keys are its builder's."""
    return _BUILDERS[asked["kind"]](asked)


def _model(asked: Mapping[str, Any]) -> Subject:
    from cpulab import models

    network, weights = models.build(
        asked["model"], layers=asked["layers"], attention=asked["attention"], seed=asked["seed"]
    )
    tokens = models.inputs(network, batch=asked["batch"], sequence_length=asked["sequence_length"], seed=asked["seed"])
    batch, sequence_length = tokens["input_ids"].shape
    facts = {"batch": batch, "sequence_length": sequence_length, "weights": weights, **models.describe(network)}
    return Subject(network, tokens, facts)


def _program(asked: Mapping[str, Any]) -> Subject:
    from cpulab.cases import PROGRAMS

    program = PROGRAMS[asked["program"]]
    inputs = program.inputs(asked["seed"])
    names = list(inspect.signature(program.function).parameters)
    rows, columns = inputs[0].shape
    return Subject(program.function, dict(zip(names, inputs, strict=True)), {"rows": rows, "columns": columns})


def _roofline(asked: Mapping[str, Any]) -> Subject:
    from cpulab.roofline import subjects

    return {"machine": subjects.machine, "pattern": subjects.pattern, "linear": subjects.linear}[asked["kind"]](asked)


_BUILDERS = {
    "model": _model, "program": _program, "machine": _roofline, "pattern": _roofline, "linear": _roofline,
}  # fmt: skip
