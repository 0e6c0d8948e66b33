"""A measured process is started tuned, or untuned as a user would start it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cpulab.host.launch import Environment, load_environment, measured_variables, run_measured

TUNED = Environment(
    python="/bin/true",
    variables={"KMP_BLOCKTIME": "1", "OMP_NUM_THREADS": "2", "LD_PRELOAD": "/lib/libiomp5.so"},
    cpus=[0, 1],
    memory_nodes=[0],
    memory_refused=None,
    not_in_force=[],
    sha256="0" * 64,
    path=Path("environment.json"),
)


def test_an_untuned_process_has_neither_the_tuned_variables_nor_the_callers_own_settings() -> None:
    inherited = {"HOME": "/home/user", "OMP_NUM_THREADS": "97", "LD_PRELOAD": "/lib/other.so", "KMP_LIBRARY": "serial"}
    untuned = measured_variables(TUNED, inherited, tuned=False)

    assert untuned.keys() == {"HOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    assert measured_variables(TUNED, inherited) == untuned | TUNED.variables


@pytest.mark.torch
def test_an_untuned_process_runs_gnus_openmp_and_libcs_malloc_wherever_it_may(environment: Path) -> None:
    facts = attested(environment, tuned=False)

    assert Path(facts["openmp_runtime"]).name.startswith("libgomp")
    assert Path(facts["malloc"]).name.startswith("libc.so")
    everywhere = sorted(os.sched_getaffinity(0))
    assert {len(cpus(thread)) for thread in facts["threads"]} == {len(everywhere)}
    assert facts["memory"]["policy"] == "default"


@pytest.mark.torch
def test_the_same_process_tuned_runs_intels_openmp_and_jemalloc_and_pins_its_threads(environment: Path) -> None:
    facts = attested(environment, tuned=True)

    assert Path(facts["openmp_runtime"]).name == "libiomp5.so"
    assert Path(facts["malloc"]).name.startswith("libjemalloc")
    team = [cpus(thread) for thread in facts["threads"] if thread["in_team"]]
    assert sorted(team) == [[cpu] for cpu in load_environment(environment).cpus]


def attested(environment: Path, *, tuned: bool) -> dict[str, Any]:
    done = run_measured(
        load_environment(environment), ["python", "-m", "cpulab.host.attest"], timeout_s=120, tuned=tuned
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def cpus(thread: dict[str, Any]) -> list[int]:
    """Return the CPUs of a list such as 0-1,4."""
    spans = [[int(end) for end in part.split("-")] for part in thread["cpus"].split(",")]
    return [cpu for span in spans for cpu in range(span[0], span[-1] + 1)]
