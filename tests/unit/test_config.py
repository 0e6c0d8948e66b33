"""A configuration that the schema refuses is named with its place."""

from __future__ import annotations

import pytest

from cpulab import config
from cpulab.errors import BadConfig, BadCores, UnknownPreset

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


@pytest.mark.parametrize("cores", [0, -2])
def test_no_cores_are_refused(cores: int) -> None:
    with pytest.raises(BadCores, match=str(cores)):
        config.check_cores(cores)
