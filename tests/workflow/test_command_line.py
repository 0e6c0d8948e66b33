"""The command line's exit statuses and words: 0 done, 1 a finding against the input or machine, 2 wrong usage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import hearing_ctrl_c

PROJECT = Path(__file__).parents[2]


def cpulab(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cpulab", *arguments],
        cwd=PROJECT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["debug"], ["environment", "--cores", "many"]])
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    assert cpulab(*arguments).returncode == 2


def test_no_compiler_is_said_with_the_package_to_install(tmp_path: Path) -> None:
    done = cpulab("environment", "--cores", "1", "--results", str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 1
    assert "There is no C++ compiler on this machine" in done.stderr
    assert "apt-get install g++" in done.stderr
    assert not (tmp_path / "environment.json").exists()


def test_no_cores_are_refused(tmp_path: Path) -> None:
    done = cpulab("environment", "--cores", "0", "--results", str(tmp_path))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["debug", "no_such_case"], "has no case 'no_such_case'"),
        (["debug", "program_scalar", "--preset", "nope"], "There is no preset 'nope'"),
    ],
)
def test_a_step_says_what_it_does_not_know(arguments: list[str], said: str, environment: Path, tmp_path: Path) -> None:
    done = cpulab(*arguments, "--environment", str(environment), "--results", str(tmp_path))
    assert done.returncode == 1
    assert said in done.stderr


FUNCTIONS = """
import torch

def inputs():
    return [torch.ones(512, 512)]

def double(x):
    return x * 2 + 1

def changes_its_input(x):
    return x.add_(1)

def raises(x):
    raise ValueError("no")

def draws(x):
    return torch.rand_like(x) + x
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    return file


@pytest.mark.torch
@pytest.mark.parametrize(
    ("case", "options", "said"),
    [
        ("changes_its_input", [], "changes its inputs, so that no call is like the one before"),
        ("raises", [], "eager raises ValueError: no"),
        ("missing", [], "defines no 'missing'"),
        ("double", ["--budget", "0"], "A budget of 0.0 s is no time to measure in"),
        ("double", ["--budget", "nan"], "A budget of nan s is no time to measure in"),
    ],
)
def test_what_cannot_be_benched_is_said_in_two_sentences(
    case: str, options: list[str], said: str, functions: Path, environment: Path
) -> None:
    results = str(functions.parent)
    done = cpulab("bench", f"{functions}:{case}", "--environment", str(environment), "--results", results, *options)
    assert done.returncode == 1
    error = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert said in error
    assert error.count(". ") == 1
    assert done.stdout == ""


def test_a_file_that_is_not_there_cannot_be_benched(tmp_path: Path) -> None:
    done = cpulab("bench", f"{tmp_path}/none.py:f", "--results", str(tmp_path))
    assert done.returncode == 1
    assert "is not there" in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize(("function", "is_right"), [("double", True), ("draws", None)])
def test_a_function_is_benched_within_its_budget_and_says_so_as_data(
    function: str, is_right: bool | None, functions: Path, environment: Path, tmp_path: Path
) -> None:
    done = cpulab(
        "bench", f"{functions}:{function}", "--json", "--budget", "5",
        "--environment", str(environment), "--results", str(tmp_path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["verdict"] in {"faster", "slower", "same", "inconclusive"}
    assert answer["low"] <= answer["ratio"] <= answer["high"]
    assert answer["placebo"]["low"] <= answer["placebo"]["ratio"] <= answer["placebo"]["high"]
    assert 0 < answer["inductor_s"] < 0.5
    assert answer["ratio"] == pytest.approx(answer["eager_s"] / answer["inductor_s"], rel=0.3)
    assert answer["detectable"] > 0
    assert answer["processes"] == 6
    assert answer["samples"] >= 12
    assert 0 <= answer["disturbed"] <= answer["samples"]
    assert answer["stopped_by"] in {"interval", "budget"}
    assert answer["compiled_is_right"] is is_right


def test_an_environment_record_edited_by_hand_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text(json.dumps({"python": "/bin/true"}))
    done = cpulab("launch", str(tmp_path / "environment.json"), "--", "true")
    assert done.returncode == 1
    assert "cannot be trusted" in done.stderr


@pytest.mark.torch
def test_a_launched_command_gets_the_tuned_variables_and_none_of_the_callers(environment: Path) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    foreign = {"OMP_NUM_THREADS": "97", "TORCH_LOGS": "all", "KMP_LIBRARY": "serial", "PYTHONPATH": "/nowhere"}
    done = cpulab("launch", str(environment), "--", "python", "-c", program, **foreign)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    wanted = json.loads(environment.read_text())["variables"]
    assert {name: seen.get(name) for name in wanted} == wanted
    assert "TORCH_LOGS" not in seen
    assert "KMP_LIBRARY" not in seen
    assert seen["PYTHONPATH"] == str(PROJECT / "workflow" / "lib")


@pytest.mark.torch
def test_a_command_launched_untuned_gets_none_of_the_tuned_variables_and_no_binding(environment: Path) -> None:
    program = "import json, os; print(json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0))]))"
    done = cpulab("launch", "--untuned", str(environment), "--", "python", "-c", program, OMP_NUM_THREADS="97")
    assert done.returncode == 0, done.stderr
    seen, cpus = json.loads(done.stdout)
    assert not set(json.loads(environment.read_text())["variables"]) & set(seen)
    assert cpus == sorted(os.sched_getaffinity(0))


@pytest.mark.torch
def test_a_launched_command_is_bound_as_planned(environment: Path) -> None:
    program = "import os; print(sorted(os.sched_getaffinity(0)))"
    done = cpulab("launch", str(environment), "--", "python", "-c", program)
    assert json.loads(done.stdout) == json.loads(environment.read_text())["plan"]["cpus"]


@pytest.mark.torch
def test_a_model_that_cannot_be_loaded_stops_with_its_name_and_leaves_no_record(
    environment: Path, tmp_path: Path
) -> None:
    done = cpulab(
        "model", "weights", "--model", "./no-such-folder", "--preset", "smoke",
        "--environment", str(environment), "--results", str(tmp_path), HF_HUB_OFFLINE="1",
    )  # fmt: skip
    assert done.returncode == 1
    assert "The model './no-such-folder' cannot be loaded" in done.stderr
    assert not (tmp_path / "model" / "weights.json").exists()


@pytest.mark.torch
@pytest.mark.parametrize(("step", "case"), [("benchmark", "fused_pattern"), ("debug", "program_vectorized")])
def test_an_interrupted_step_ends_its_processes_at_once_and_leaves_no_record(
    step: str, case: str, environment: Path, tmp_path: Path
) -> None:
    running = subprocess.Popen(
        hearing_ctrl_c(
            [sys.executable, "-m", "cpulab", step, case, "--preset", "smoke",
             "--environment", str(environment), "--results", str(tmp_path)]
        ),
        cwd=PROJECT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not measured(tmp_path):
        time.sleep(0.1)
    assert measured(tmp_path), "no measured process started"
    time.sleep(1)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=8)
    assert running.returncode == 130
    assert "Interrupted" in said
    assert measured(tmp_path) == []
    assert list((tmp_path / step).glob("*.json")) == []


def measured(results: Path) -> list[int]:
    """Return the processes that were given a file below ``results``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.startswith(f"{results}/") for word in words):
            found.append(int(folder.name))
    return found


@pytest.mark.torch
def test_the_doctor_says_ready_in_words_and_as_data(environment: Path) -> None:
    said, data = cpulab("doctor"), cpulab("doctor", "--json")
    assert (said.returncode, data.returncode) == (0, 0), said.stdout
    assert said.stdout.rstrip().endswith("Ready.")
    found = json.loads(data.stdout)
    assert found["ready"] is True
    assert {row["name"] for row in found["settings"]} >= {"KMP_BLOCKTIME", "LD_PRELOAD jemalloc", "numactl -m"}
