"""What is wrong and what is rounding, told apart by the real PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpulab.host.launch import load_environment, run_measured

pytestmark = pytest.mark.torch

CASES = Path(__file__).parents[1] / "data" / "cases"

WRONG = [
    "a sum without its tail", "one element of an exponential", "a constant off in the fifth digit",
    "a cancelled difference that is wrong", "NaN where there is none", "an integer off by one",
    "a floor at a whole number", "a comparison at equality", "an argmax of ties", "a low precision result doubled",
    "another dtype", "another shape",
]  # fmt: skip
RIGHT = [
    "a softmax in float64", "a matrix product of blocks", "a gelu in float64", "a layer norm by hand", "other strides",
    "a zero of the other sign",
]  # fmt: skip


@pytest.fixture(scope="module")
def told(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    completed = run_measured(
        load_environment(environment),
        ["python", str(CASES / "compare_facts.py"), str(CASES / "correct.py")],
        cwd=tmp_path_factory.mktemp("facts"),
        timeout_s=120,
    )
    assert completed.returncode == 0, completed.stderr
    found: dict[str, Any] = json.loads(completed.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_is_not_excused(told: dict[str, Any], what: str) -> None:
    assert told["answers"][what]["wrong"], told["answers"][what]


@pytest.mark.parametrize("what", RIGHT)
def test_another_way_to_the_same_result_is_no_fault(told: dict[str, Any], what: str) -> None:
    assert not told["answers"][what]["wrong"], told["answers"][what]


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("NaN where there is none", ["nan_mask", "values"]),
        ("another dtype", ["dtype"]),
        ("another shape", ["shape"]),
        ("other strides", ["strides"]),
        ("a zero of the other sign", ["sign_of_zero"]),
    ],
)
def test_each_kind_of_difference_has_its_name(told: dict[str, Any], what: str, names: list[str]) -> None:
    assert told["answers"][what]["names"] == names


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("unfit", [False, True, False, True, True, True]),
        ("unfit int64", [False, True, False]),
        ("paths", ["['a'][0]", "['a'][1][0]", "['b']"]),
        ("expanded strides", [1, 0]),
        ("equal zeros", [True, True, True]),
        ("same seed", True),
        ("shared memory", False),
        ("strides of inputs", [[40, 2], [1, 0], [6, 1]]),
    ],
)
def test_what_comparing_stands_on(told: dict[str, Any], fact: str, value: object) -> None:
    assert told["facts"][fact] == value
