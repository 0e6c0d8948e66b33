"""The rule graph, its targets and its errors, as a user meets them on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def snakemake(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments], cwd=PROJECT, check=False, capture_output=True, text=True
    )


def planned(*arguments: str) -> set[str]:
    """Return the rules that a dry run from nothing would run."""
    done = snakemake("--dry-run", "--forceall", "--quiet=rules", *arguments)
    assert done.returncode == 0, done.stderr
    table = (done.stdout + done.stderr).split("Job stats:")[1]
    return {line.split()[0] for line in table.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()}


STEPS = {"environment", "model", "debug_case", "minify", "benchmark_case", "profile_case", "roofline_case"}


def test_the_report_is_what_a_bare_call_makes() -> None:
    assert planned() - {"all", "total"} == STEPS | {"judge", "report"}


@pytest.mark.parametrize(
    ("target", "needed"),
    [
        ("environment", {"environment"}),
        ("debug", {"environment", "debug", "debug_case"}),
        ("minify", {"environment", "debug_case", "minify"}),
        ("benchmark", {"environment", "model", "benchmark", "benchmark_case"}),
        ("profile", {"environment", "model", "profile", "profile_case"}),
        ("roofline", {"environment", "model", "roofline", "roofline_case"}),
        ("judge", STEPS | {"judge"}),
        ("report", STEPS | {"judge", "report"}),
    ],
)
def test_each_target_needs_just_its_own_steps(target: str, needed: set[str]) -> None:
    assert planned(target) - {"total"} == needed


def test_a_users_case_is_explained_and_is_judged_and_reported_with_the_rest(tmp_path: Path) -> None:
    case = tmp_path / "mine.py"
    case.write_text("def f(x): ...\n")
    chosen = ("--config", f"cases=[{case}:f]")
    assert planned("explain", *chosen) - {"total"} == {"environment", "explain", "explain_case"}
    assert planned("report", *chosen) - {"total"} == STEPS | {"explain_case", "judge", "report"}
    assert "explain_case" not in planned("report")
    done = snakemake("--dry-run", "--forceall", "report", *chosen)
    blocks = done.stdout.split("\n\n")
    (explained,) = (block for block in blocks if "rule explain_case:" in block)
    assert str(case) in explained.partition("output:")[0]  # so that editing it runs it again
    for rule in ("judge", "report"):
        (block,) = (block for block in blocks if f"rule {rule}:" in block)
        assert "results/explain/mine_f.json" in block.partition("output:")[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "preset=nope"], "There is no preset 'nope'. Choose one of: quick, smoke, tutorial."),
        (["--config", "presets=quick"], "'presets' was unexpected"),
        (["--config", "seed=one"], "wrong at seed: 'one' is not of type 'integer'"),
        (["--config", "cases=[no/such.py:f]"], "The file of the case 'no/such.py:f' is not there. Give its path from"),
        (["--config", "cases=[config/README.md]"], "The case 'config/README.md' names no function in a file. Write it"),
        (["--config", "cases=[Makefile:a,Makefile:a]"], "The cases 'Makefile:a' and 'Makefile:a' would leave the same"),
        (["--config", "cases=Makefile:a"], "wrong at cases: 'Makefile:a' is not of type 'array'"),
        (["--cores", "0"], "0 is not a number of cores to measure on. Give --cores a number from 1 up, or all."),
    ],
)
def test_a_wrong_configuration_is_said_in_two_sentences_before_anything_runs(arguments: list[str], said: str) -> None:
    done = snakemake("report", "--dry-run", *arguments)
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_rule_graph_is_drawn_without_naming_cores() -> None:
    done = snakemake("report", "--rulegraph")
    assert done.returncode == 0, done.stderr
    assert "digraph" in done.stdout


def test_one_job_at_a_time_has_the_machine() -> None:
    done = snakemake("--dry-run", "--forceall", "--cores", "7", "report")
    assert done.returncode == 0, done.stderr
    measured = [block for block in done.stdout.split("\n\n") if "_case:" in block or "rule minify" in block]
    assert measured
    assert all("threads: 7" in block for block in measured)
