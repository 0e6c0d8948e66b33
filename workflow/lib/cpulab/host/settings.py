"""Compares what the tuning asks for with what the measured process found in force."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cpulab.host.topology import format_list, parse_list
from cpulab.host.tuning import MALLOC_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cpulab.host.plan import Plan


def effective_kmp(stderr: str) -> dict[str, str]:
    """Parse the effective settings that libiomp5 prints under KMP_SETTINGS=1; empty when it printed none."""
    _, _, effective = stderr.partition("Effective settings:")
    return dict(re.findall(r"^\s*(\w+)='(.*)'$", effective, flags=re.MULTILINE))


def compare(
    facts: Mapping[str, Any], effective: Mapping[str, str], plan: Plan, libiomp5: Path, jemalloc: Path
) -> list[dict[str, Any]]:
    """Return one row a setting: ``{name, wanted, found, in_force, reason}``; ``reason`` says why it is not, or is None.

    ``facts`` is what `cpulab.host.attest.attest` printed, ``effective`` what the OpenMP runtime said of itself.
    """
    rows: list[dict[str, Any]] = []

    def row(name: str, wanted: str, found: str | None, holds: bool, reason: str) -> None:
        rows.append({"name": name, "wanted": wanted, "found": found, "in_force": holds,
                     "reason": None if holds else reason})  # fmt: skip

    runtime = facts["openmp_runtime"]
    is_intel = runtime == str(libiomp5.resolve())
    row("LD_PRELOAD libiomp5", libiomp5.name, runtime and runtime.rsplit("/", 1)[-1], is_intel,
        "another OpenMP runtime runs the parallel regions")  # fmt: skip
    row("LD_PRELOAD jemalloc", jemalloc.name, facts["malloc"] and facts["malloc"].rsplit("/", 1)[-1],
        facts["malloc"] == str(jemalloc.resolve()), "another library provides malloc")  # fmt: skip

    silent = "the OpenMP runtime printed no settings"
    row("KMP_SETTINGS", "1", "1" if effective else None, bool(effective), silent)
    blocktime = facts["kmp_blocktime"]
    row("KMP_BLOCKTIME", "1", None if blocktime is None else str(blocktime), blocktime == 1,
        "the runtime at work has another block time, or none")  # fmt: skip
    affinity = effective.get("KMP_AFFINITY")
    # The runtime rewrites the value: granularity=fine is granularity=thread where there is no finer level.
    kept = re.search(r"granularity=(fine|thread),compact,1,0$", affinity or "")
    row("KMP_AFFINITY", "granularity=fine,compact,1,0", affinity, bool(kept),
        silent if affinity is None else "it took another value")  # fmt: skip

    team = [parse_list(thread["cpus"]) for thread in facts["threads"] if thread["in_team"]]
    pinned = sorted(cpus[0] for cpus in team if len(cpus) == 1)
    row("threads, one a core", format_list(plan.cpus), " ".join(map(format_list, team)), pinned == plan.cpus,
        "the threads of a parallel region are not pinned one to each planned CPU")  # fmt: skip
    used = {cpu for thread in facts["threads"] for cpu in parse_list(thread["cpus"])}
    row("numactl -C", format_list(plan.cpus), format_list(sorted(used)), used <= set(plan.cpus),
        "a thread may run on a CPU outside the plan")  # fmt: skip
    memory = facts["memory"]
    wanted_policy = f"bind:{format_list(plan.memory_nodes)}"
    pages = sorted(int(node) for node in memory["pages"])
    bound = (memory["policy"] or "").startswith(wanted_policy) and set(pages) <= set(plan.memory_nodes)
    elsewhere = f"the policy is another one (refused by the kernel?), or pages lie on nodes {pages}"
    row("numactl -m", wanted_policy, memory["policy"], bound, memory["reason"] or elsewhere)
    row("OMP_NUM_THREADS", str(len(plan.cpus)), str(facts["torch_threads"]), facts["torch_threads"] == len(plan.cpus),
        "torch uses another number of threads")  # fmt: skip
    for name, (asked, reported) in MALLOC_OPTIONS.items():
        found = facts["malloc_options"].get(name)
        row(f"MALLOC_CONF {name}", asked, found, found in {asked, reported},
            "jemalloc does not have it" if found is None else "jemalloc has another value")  # fmt: skip
    return rows


def not_in_force(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the settings that are not in force."""
    return [row["name"] for row in rows if not row["in_force"]]
