"""Each wanted setting is compared with what a measured process found in force."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.host.launch import Environment
from cpulab.host.settings import add_note, compare, effective_kmp, named, reasons
from cpulab.host.tuning import MALLOC_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data" / "host"
LIBIOMP5 = "/lab/.venv-cpu/lib/libiomp5.so"
ENVIRONMENT = Environment(
    python="/lab/.venv-cpu/bin/python",
    variables={"LD_PRELOAD": f"{LIBIOMP5}:/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"},
    cpus=[0, 1],
    memory_nodes=[0],
    sha256="0" * 64,
    path=Path("environment.json"),
)


def facts() -> dict[str, Any]:
    return dict(json.loads((DATA / "facts.json").read_text()))


def effective() -> dict[str, str]:
    return effective_kmp((DATA / "kmp_settings.txt").read_text())


def test_the_runtimes_effective_settings_are_read_and_not_the_users() -> None:
    assert effective()["KMP_AFFINITY"].endswith("granularity=thread,compact,1,0")
    assert effective_kmp("User settings:\n   KMP_BLOCKTIME=1\n") == {}


def test_a_recorded_tuned_process_has_every_setting_in_force() -> None:
    rows = compare(facts(), effective(), ENVIRONMENT)
    assert named(rows, "in_force") == [row["name"] for row in rows]
    assert {f"MALLOC_CONF {name}" for name in MALLOC_OPTIONS} < set(named(rows, "in_force"))


SABOTAGE: list[tuple[str, Callable[[dict[str, Any], dict[str, str]], object]]] = [
    ("LD_PRELOAD libiomp5", lambda found, _: found.update(openmp_runtime="/usr/lib/libgomp.so.1")),
    ("LD_PRELOAD libiomp5", lambda found, _: found.update(openmp_entry="/usr/lib/libgomp.so.1")),
    ("one OpenMP runtime", lambda found, _: found["threads"][1].update(runtime="/usr/lib/libgomp.so.1")),
    ("LD_PRELOAD jemalloc", lambda found, _: found.update(malloc="/usr/lib/libc.so.6")),
    ("KMP_SETTINGS", lambda _, kmp: kmp.clear()),
    ("KMP_BLOCKTIME", lambda found, _: found.update(kmp_blocktime=200)),
    ("KMP_AFFINITY", lambda _, kmp: kmp.update(KMP_AFFINITY="noverbose,none")),
    ("threads, one a core", lambda found, _: found["threads"][0].update(cpus="0-1")),
    ("threads, one a core", lambda found, _: [one.update(cpus="0") for one in found["threads"]]),
    ("numactl -C", lambda found, _: found["threads"][1].update(cpus="0-7")),
    ("numactl -m", lambda found, _: found["memory"].update(policy="default")),
    ("numactl -m", lambda found, _: found["memory"].update(policy="prefer:0")),
    ("numactl -m", lambda found, _: found["memory"].update(policy="bind:0-1")),
    ("numactl -m", lambda found, _: found["memory"].update(policy=None, reason="it cannot be read")),
    ("numactl -m", lambda found, _: found["memory"].update(pages={"0": 5, "1": 3})),
    ("OMP_NUM_THREADS", lambda found, _: found.update(torch_threads=1)),
    ("OMP_NUM_THREADS", lambda _, kmp: kmp.pop("OMP_NUM_THREADS")),
    ("MALLOC_CONF dirty_decay_ms", lambda found, _: found["malloc_options"].update(dirty_decay_ms="10000")),
    ("MALLOC_CONF metadata_thp", lambda found, _: found["malloc_options"].update(metadata_thp=None)),
]


@pytest.mark.parametrize(("setting", "sabotage"), SABOTAGE)
def test_a_setting_that_is_not_in_force_is_named_with_its_reason(
    setting: str, sabotage: Callable[[dict[str, Any], dict[str, str]], object]
) -> None:
    found, kmp = facts(), effective()
    sabotage(found, kmp)
    rows = compare(found, kmp, ENVIRONMENT)
    assert setting in named(rows, "not_in_force")
    assert all(row["reason"] for row in rows if row["state"] != "in_force")
    assert len(reasons(rows)) == len(named(rows, "not_in_force"))


@pytest.mark.parametrize("policy", ["bind:0", "bind=static:0", "bind=static|relative:0"])
def test_a_binding_with_any_flag_of_the_kernels_is_a_binding(policy: str) -> None:
    found = facts()
    found["memory"]["policy"] = policy
    assert "numactl -m" in named(compare(found, effective(), ENVIRONMENT), "in_force")


def test_what_the_kernel_refuses_is_impossible_with_its_remedy_and_no_failure() -> None:
    found = facts()
    found["memory"]["policy"] = "default"
    refused = {"reason": "the kernel refuses it", "remedy": "allow it"}
    rows = compare(found, effective(), replace(ENVIRONMENT, memory_refused=refused))
    assert named(rows, "impossible") == ["numactl -m"]
    assert reasons(rows) == []
    assert {row["remedy"] for row in rows} == {None, "allow it"}


def test_a_note_is_put_to_a_setting_that_is_in_force_and_takes_no_reason_from_another() -> None:
    rows = [{"name": "a", "state": "in_force", "reason": None}, {"name": "b", "state": "impossible", "reason": "why"}]
    for name in ("a", "b"):
        add_note(rows, name, "one node")
    assert [row["reason"] for row in rows] == ["one node", "why"]
