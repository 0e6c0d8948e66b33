"""Each wanted setting is compared with what a measured process found in force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.host.plan import Plan
from cpulab.host.settings import compare, effective_kmp, not_in_force

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "data" / "host"
LIBIOMP5 = Path("/lab/.venv-cpu/lib/libiomp5.so")
JEMALLOC = Path("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2")


def facts() -> dict[str, Any]:
    return dict(json.loads((DATA / "facts.json").read_text()))


def rows(found: dict[str, Any], effective: dict[str, str]) -> list[dict[str, Any]]:
    return compare(found, effective, Plan([0, 1], [0], []), LIBIOMP5, JEMALLOC)


def effective() -> dict[str, str]:
    return effective_kmp((DATA / "kmp_settings.txt").read_text())


def test_the_runtimes_effective_settings_are_read_and_not_the_users() -> None:
    assert effective()["KMP_AFFINITY"].endswith("granularity=thread,compact,1,0")
    assert effective_kmp("User settings:\n   KMP_BLOCKTIME=1\n") == {}


def test_a_recorded_tuned_process_has_every_setting_in_force() -> None:
    assert not_in_force(rows(facts(), effective())) == []


SABOTAGE: list[tuple[str, Callable[[dict[str, Any], dict[str, str]], object]]] = [
    ("LD_PRELOAD libiomp5", lambda found, _: found.update(openmp_runtime="/usr/lib/libgomp.so.1")),
    ("LD_PRELOAD jemalloc", lambda found, _: found.update(malloc="/usr/lib/libc.so.6")),
    ("KMP_SETTINGS", lambda _, kmp: kmp.clear()),
    ("KMP_BLOCKTIME", lambda found, _: found.update(kmp_blocktime=200)),
    ("KMP_AFFINITY", lambda _, kmp: kmp.update(KMP_AFFINITY="noverbose,none")),
    ("threads, one a core", lambda found, _: found["threads"][0].update(cpus="0-1")),
    ("threads, one a core", lambda found, _: [one.update(cpus="0") for one in found["threads"]]),
    ("numactl -C", lambda found, _: found["threads"][1].update(cpus="0-7")),
    ("numactl -m", lambda found, _: found["memory"].update(policy="default")),
    ("numactl -m", lambda found, _: found["memory"].update(pages={"0": 5, "1": 3})),
    ("OMP_NUM_THREADS", lambda found, _: found.update(torch_threads=1)),
    ("MALLOC_CONF dirty_decay_ms", lambda found, _: found["malloc_options"].update(dirty_decay_ms="10000")),
    ("MALLOC_CONF metadata_thp", lambda found, _: found["malloc_options"].update(metadata_thp=None)),
]


@pytest.mark.parametrize(("setting", "sabotage"), SABOTAGE)
def test_a_setting_that_is_not_in_force_is_named_with_its_reason(
    setting: str, sabotage: Callable[[dict[str, Any], dict[str, str]], object]
) -> None:
    found, kmp = facts(), effective()
    sabotage(found, kmp)
    judged = rows(found, kmp)
    assert setting in not_in_force(judged)
    assert all(row["reason"] for row in judged if not row["in_force"])
