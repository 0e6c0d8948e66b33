"""Each setting is taken away from a real measured process in turn, and that process's attestation names it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cpulab.config import load_preset
from cpulab.errors import SettingsNotInForce
from cpulab.host.launch import Environment, age_not_in_force, load_environment, run_measured
from cpulab.host.settings import compare, effective_kmp, named
from cpulab.measure.process import ask
from cpulab.progress import Reporter
from cpulab.records import dump_data, load_data
from cpulab.step import Bench

pytestmark = pytest.mark.torch

ATTEST = ["-m", "cpulab.host.attest"]

# What a library that was linked with another OpenMP runtime does: RTLD_DEEPBIND keeps its calls to that one.
SECOND_RUNTIME = """
import ctypes, os, runpy, sys, torch
ctypes.CDLL(sys.argv[1], mode=os.RTLD_LOCAL | os.RTLD_DEEPBIND).region()
runpy.run_module("cpulab.host.attest", run_name="__main__")
"""
REGION = """
#include <omp.h>
extern "C" int region() {
    int threads = 0;
    omp_set_num_threads(2);
    #pragma omp parallel reduction(+ : threads)
    threads += 1;
    return threads;
}
"""


@pytest.fixture(scope="module")
def tuned(environment: Path) -> Environment:
    return load_environment(environment)


def attested(tuned: Environment, command: list[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what a process found that ``command`` started under the launcher, and its comparison with the wanted."""
    completed = run_measured(tuned, command, timeout_s=120)
    assert completed.returncode == 0, completed.stderr
    facts = json.loads(completed.stdout.strip().splitlines()[-1])
    return facts, compare(facts, effective_kmp(completed.stderr + completed.stdout), tuned)


def preload(tuned: Environment, *names: str) -> str:
    """Return LD_PRELOAD with the named ones of the tuned libraries, and torch's own copy of GNU's runtime."""
    libiomp5, jemalloc = tuned.variables["LD_PRELOAD"].split(":")
    libgomp = next(Path(tuned.python).parents[1].glob("lib/python*/site-packages/torch/lib/libgomp*"))
    known = {"libiomp5": libiomp5, "jemalloc": jemalloc, "libgomp": str(libgomp)}
    return f"LD_PRELOAD={':'.join(known[name] for name in names)}"


def test_a_tuned_process_attests_every_setting_or_that_it_is_impossible_here(tuned: Environment) -> None:
    facts, rows = attested(tuned, ["python", *ATTEST])
    assert named(rows, "not_in_force") == []
    assert set(named(rows, "impossible")) <= {"numactl -m"}
    assert facts["seconds"] < 3


# Setting, how it is taken away, what its row then says: found, and why that is not what was wanted.
SABOTAGE = [
    ("KMP_BLOCKTIME", ["env", "-u", "KMP_BLOCKTIME"], "200", "another block time"),
    ("KMP_BLOCKTIME", ["env", "-u", "KMP_BLOCKTIME", "KMP_BLOCKTIM=1"], "200", "another block time"),
    ("KMP_SETTINGS", ["env", "-u", "KMP_SETTINGS"], None, "printed no settings"),
    ("KMP_AFFINITY", ["env", "-u", "KMP_AFFINITY"], "none", "took another value"),
    ("KMP_AFFINITY", ["env", "KMP_AFFINITY=granularity=fine,scatter"], "scatter", "took another value"),
    ("threads, one a core", ["env", "KMP_AFFINITY=none"], "", "not pinned one to each planned CPU"),
    ("OMP_NUM_THREADS", ["env", "-u", "OMP_NUM_THREADS"], "", "no number"),
    ("OMP_NUM_THREADS", ["env", "OMP_NUM_THREADS=7"], "7", "the runtime took 7"),
    ("LD_PRELOAD libiomp5", ["env", "preload jemalloc"], "libgomp", "calls another OpenMP runtime"),
    ("LD_PRELOAD libiomp5", ["env", "preload libgomp libiomp5 jemalloc"], "libgomp", "calls another OpenMP runtime"),
    ("LD_PRELOAD jemalloc", ["env", "preload libiomp5"], "libc.so.6", "another library provides malloc"),
    ("MALLOC_CONF oversize_threshold", ["env", "MALLOC_CONF typo oversize_threshold"], "8388608", "another value"),
    ("MALLOC_CONF background_thread", ["env", "MALLOC_CONF typo background_thread"], "false", "another value"),
    ("MALLOC_CONF metadata_thp", ["env", "MALLOC_CONF typo metadata_thp"], "disabled", "another value"),
    ("MALLOC_CONF dirty_decay_ms", ["env", "MALLOC_CONF typo dirty_decay_ms"], "10000", "another value"),
    ("MALLOC_CONF muzzy_decay_ms", ["env", "MALLOC_CONF typo muzzy_decay_ms"], "0", "another value"),
    ("MALLOC_CONF dirty_decay_ms", ["env", "-u", "MALLOC_CONF"], "10000", "another value"),
    ("numactl -m", ["numactl", "--localalloc"], "local", "the memory policy is another one"),
    ("numactl -m", ["numactl", "--interleave=0"], "interleave", "the memory policy is another one"),
]


def sabotaged(tuned: Environment, how: list[str]) -> list[str]:
    """Return the words of a sabotage with the values of this machine in them."""
    words = []
    for word in how:
        kind, _, rest = word.partition(" ")
        if kind == "preload":
            words.append(preload(tuned, *rest.split()))
        elif rest.startswith("typo"):
            option = rest.removeprefix("typo ")
            words.append(f"MALLOC_CONF={tuned.variables['MALLOC_CONF'].replace(option, f'{option}x')}")
        else:
            words.append(word)
    return words


@pytest.mark.parametrize(("setting", "how", "found", "reason"), SABOTAGE)
def test_a_setting_that_is_taken_away_is_named_with_what_was_found_and_why(
    tuned: Environment, setting: str, how: list[str], found: str | None, reason: str
) -> None:
    if setting == "numactl -m" and tuned.memory_refused is not None:
        assert setting in named(attested(tuned, ["python", *ATTEST])[1], "impossible")
        return
    _, rows = attested(tuned, [*sabotaged(tuned, how), tuned.python, *ATTEST])
    row = next(row for row in rows if row["name"] == setting)
    assert row["state"] == "not_in_force"
    assert reason in row["reason"]
    assert row["found"] is None if found is None else found in row["found"]


def test_a_process_that_is_pinned_to_another_cpu_than_planned_is_found_out(tuned: Environment) -> None:
    everywhere = sorted(os.sched_getaffinity(0))
    narrow = Environment(**{**vars(tuned), "cpus": everywhere[:1]})
    one = ["taskset", "-c", str(everywhere[0]), tuned.python, *ATTEST]
    rows = attested(tuned, one)[1] if len(everywhere) > 1 else attested(narrow, one)[1]
    wrong = named(rows, "not_in_force")
    assert ("threads, one a core" in wrong) == (len(everywhere) > 1)


def test_a_second_openmp_runtime_at_work_is_found_by_the_stacks_of_its_threads(
    tuned: Environment, tmp_path: Path
) -> None:
    source, library = tmp_path / "region.cpp", tmp_path / "region.so"
    source.write_text(REGION)
    subprocess.run(["g++", "-fopenmp", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    facts, rows = attested(tuned, [tuned.python, "-c", SECOND_RUNTIME, str(library)])
    assert named(rows, "not_in_force")[0] == "one OpenMP runtime"
    row = next(row for row in rows if row["name"] == "one OpenMP runtime")
    assert "libgomp" in row["found"]
    assert "libiomp5" in row["found"]
    # Mapped alone it is no second one at work: torch's wheel always maps its own.
    quiet = attested(tuned, ["python", *ATTEST])[0]
    assert any("libgomp" in path for path in quiet["openmp_mapped"])
    assert {thread["runtime"] for thread in facts["threads"]} > {thread["runtime"] for thread in quiet["threads"]}


def missing(environment: Path, output: Path) -> None:
    """Write the environment record with one setting that its probe did not find in force."""
    record = load_data(environment, "environment")
    row = {"name": "KMP_BLOCKTIME", "wanted": "1", "found": "200", "state": "not_in_force", "reason": "why"}
    record["settings"][0] = {**row, "remedy": None}
    dump_data(output, "environment", record)


def test_an_environment_with_a_setting_missing_is_probed_again_by_the_next_run(
    environment: Path, tmp_path: Path
) -> None:
    assert age_not_in_force(environment) == age_not_in_force(tmp_path / "none.json") == []
    assert environment.stat().st_mtime > 0
    missing(environment, tmp_path / "environment.json")
    assert age_not_in_force(tmp_path / "environment.json") == ["KMP_BLOCKTIME (wanted 1, found 200: why)"]
    assert (tmp_path / "environment.json").stat().st_mtime == 0


def test_nothing_is_launched_under_an_environment_whose_probe_found_a_setting_missing(
    environment: Path, tmp_path: Path
) -> None:
    missing(environment, tmp_path / "environment.json")
    done = run_measured(load_environment(tmp_path / "environment.json"), ["python", "-c", "print('ran')"], timeout_s=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Not in force inside a measured process: KMP_BLOCKTIME (wanted 1, found 200: why)" in done.stderr


def test_a_measured_process_that_lost_a_setting_fails_its_step_and_names_it(tuned: Environment, tmp_path: Path) -> None:
    with Reporter("benchmark fused_pattern", 10, tmp_path / "logs" / "one.log") as reporter:
        bench = Bench(
            step="benchmark", case="fused_pattern", variant="default", preset=load_preset("smoke"), model="", seed=0,
            environment=tuned, results=tmp_path, reporter=reporter,
        )  # fmt: skip
        bench.scratch.mkdir(parents=True)
        with pytest.raises(SettingsNotInForce, match=r"MALLOC_CONF dirty_decay_ms .wanted -1, found 10000"):
            ask(
                bench, bench.preset.pattern, {"kind": "program", "program": "fused_pattern", "seed": 0},
                arms=["eager", "inductor"], freezing=False, before=[], deadline=0.0,
                variables={**bench.new_cache(), "MALLOC_CONF": "dirty:-1"},
            )  # fmt: skip
