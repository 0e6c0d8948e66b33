"""A configuration that the schema refuses is named with its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from cpulab import config
from cpulab.errors import BadConfig, BadCores, NoCase, NoCaseFile, SameCase, UnknownPreset

if TYPE_CHECKING:
    from pathlib import Path

GOOD = {"preset": "smoke", "model": "some/model", "seed": 0}


def test_each_preset_that_ships_fits_its_schema() -> None:
    assert {config.load_preset(name).name for name in config.known_presets()} == {"tutorial", "quick", "smoke"}


def test_the_tutorial_preset_has_the_published_sizes() -> None:
    size = config.load_preset("tutorial").model
    assert (size.layers, size.batch, size.sequence_length) == (None, 128, 128)


def test_an_unknown_preset_lists_those_there_are() -> None:
    with pytest.raises(UnknownPreset, match=r"'nope'.*quick, smoke, tutorial"):
        config.check({**GOOD, "preset": "nope"})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"presets": "smoke"}, "presets"),
        ({"seed": "one"}, "seed: 'one'"),
        ({"seed": -1}, "seed: -1"),
        ({"preset": 3}, "preset: 3"),
        ({"preset": "../secret"}, "preset"),
        ({"model": ""}, "model"),
    ],
)
def test_a_wrong_key_or_value_is_named(change: dict[str, object], named: str) -> None:
    with pytest.raises(BadConfig) as error:
        config.check({**GOOD, **change})
    assert named in str(error.value)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(BadConfig, match="'seed' is a required property"):
        config.check({"preset": "smoke", "model": "some/model"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with two files of cases."""
    for name in ("a/one.py", "b/one.py"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text("def one(): ...\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_case_is_found_by_its_path_from_here_or_its_absolute_one(folder: Path) -> None:
    config.check({**GOOD, "cases": ["a/one.py:one", f"{folder}/a/one.py:Model.forward"]})
    assert config.case_target("a/one.py:one") == {"file": str(folder / "a" / "one.py"), "function": "one"}


@pytest.mark.parametrize(
    ("cases", "refused"),
    [
        (["a/two.py:one"], NoCaseFile),
        (["a/one.py"], NoCase),
        (["a/one.py:"], NoCase),
        (["a/one.py:not a name"], NoCase),
        ([":one"], NoCase),
        (["a:one"], NoCaseFile),
        (["a/one.py:one", "a/one.py:one"], SameCase),
        (["a/one.py:one", "./a/one.py:one"], SameCase),
        (["a/one.py:one", "b/one.py:one"], SameCase),
        (["a/one.py:two", "a/one.py:Two"], SameCase),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_case_that_cannot_be_found_or_told_from_another_is_refused(cases: list[str], refused: type) -> None:
    with pytest.raises(refused) as error:
        config.check({**GOOD, "cases": cases})
    assert repr(cases[-1]) in str(error.value)


@pytest.mark.usefixtures("folder")
def test_cases_are_a_list_of_texts() -> None:
    for cases in ("a/one.py:one", [1], {"a/one.py": "one"}):
        with pytest.raises(BadConfig, match="cases"):
            config.check({**GOOD, "cases": cases})


@pytest.mark.parametrize(
    ("case", "slug"),
    [
        ("x/sign_of_zero.py:sign_of_zero", "sign_of_zero"),
        ("x/right-programs.py:Softmax", "right_programs_softmax"),
        ("x/m.py:Model.forward", "m_model_forward"),
        ("x/\u00e4.py:f", "f"),
    ],
)
def test_a_record_is_called_by_the_file_and_the_function(case: str, slug: str) -> None:
    assert config.case_slug(case) == slug


def test_a_case_without_a_plain_letter_has_a_name_all_the_same() -> None:
    slug = config.case_slug("x/\u00e4.py:\u00f6")
    assert re.fullmatch(r"case_[0-9a-f]{8}", slug)
    assert slug != config.case_slug("x/\u00e4.py:\u00fc")


@pytest.mark.parametrize("cores", [0, -2])
def test_no_cores_are_refused(cores: int) -> None:
    with pytest.raises(BadCores, match=str(cores)):
        config.check_cores(cores)
