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
