"""The strategies that a version of the minifier has."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cpulab.minify import strategies

DATA = Path(__file__).parents[1] / "data" / "minify"
OF_THE_TUTORIAL = {"Truncate suffix", "Delta Debugging", "Eliminate dead code", "Remove unused inputs"}


def test_are_all_that_its_source_registers() -> None:
    assert strategies.registered((DATA / "fx_minifier_minifier.txt").read_text()) == [
        "Truncate suffix", "Remove outputs", "Remove unused inputs",
        "Eliminate dead code", "Delta Debugging", "Consolidate Inputs",
    ]  # fmt: skip


def test_are_found_in_a_source_that_is_indented() -> None:
    assert strategies.registered("    @register_strategy('One')\n    def one(): ...\n") == ["One"]


@pytest.mark.torch
def test_of_the_installed_version_hold_those_of_the_tutorial(environment: Path, tmp_path: Path) -> None:
    answer = tmp_path / "answer.json"
    asked = [sys.executable, "-m", "cpulab", "launch", str(environment), "--"]
    subprocess.run([*asked, "python", "-m", "cpulab.minify.worker", "-", str(answer)], check=True, timeout=120)
    assert set(json.loads(answer.read_text())["strategies"]) >= OF_THE_TUTORIAL
