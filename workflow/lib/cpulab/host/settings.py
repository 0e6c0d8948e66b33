"""Compares what the tuning asks for with what a measured process found in force."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cpulab.host.topology import format_list, parse_list
from cpulab.host.tuning import MALLOC_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.host.launch import Environment

# impossible: this machine refuses it, whatever is asked; the row says what would lift that.
State = Literal["in_force", "impossible", "not_in_force"]


def effective_kmp(output: str) -> dict[str, str]:
    """Parse the effective settings that libiomp5 prints under KMP_SETTINGS=1; empty when it printed none."""
    _, _, effective = output.partition("Effective settings:")
    return dict(re.findall(r"^\s*(\w+)='(.*)'$", effective, flags=re.MULTILINE))


def compare(facts: Mapping[str, Any], effective: Mapping[str, str], environment: Environment) -> list[dict[str, Any]]:
    """Return one row a setting of ``environment``: ``{name, wanted, found, state, reason, remedy}``.

    ``facts`` is what `cpulab.host.attest.facts` found, ``effective`` what the OpenMP runtime said of itself. ``reason``
    says why a setting is not in force, or what is to be known of one that is; ``remedy`` what lifts an impossible one.
    """
    libiomp5, jemalloc = (str(Path(name).resolve()) for name in environment.variables["LD_PRELOAD"].split(":"))
    cpus = format_list(environment.cpus)
    nodes = format_list(environment.memory_nodes)
    silent = "the OpenMP runtime printed no settings"
    rows: list[dict[str, Any]] = []

    def row(name: str, wanted: str, found: str | None, holds: bool, reason: str) -> None:
        rows.append({"name": name, "wanted": wanted, "found": found, "state": "in_force" if holds else "not_in_force",
                     "reason": None if holds else reason, "remedy": None})  # fmt: skip

    runtimes = {facts["openmp_runtime"], facts["openmp_entry"]} - {None}
    row("LD_PRELOAD libiomp5", _name(libiomp5), _names(runtimes), runtimes == {libiomp5},
        "torch calls another OpenMP runtime")  # fmt: skip
    at_work = runtimes | {thread["runtime"] for thread in facts["threads"] if thread["runtime"]}
    row("one OpenMP runtime", _name(libiomp5), _names(at_work), at_work == {libiomp5},
        "threads of another OpenMP runtime are in the process")  # fmt: skip
    row("LD_PRELOAD jemalloc", _name(jemalloc), facts["malloc"] and _name(facts["malloc"]),
        facts["malloc"] == jemalloc, "another library provides malloc")  # fmt: skip

    row("KMP_SETTINGS", "1", "1" if effective else None, bool(effective), silent)
    blocktime = facts["kmp_blocktime"]
    row("KMP_BLOCKTIME", "1", None if blocktime is None else str(blocktime), blocktime == 1,
        "the runtime at work has another block time, or none")  # fmt: skip
    affinity = effective.get("KMP_AFFINITY")
    # The runtime rewrites the value: granularity=fine is granularity=thread where there is no finer level.
    kept = re.search(r"granularity=(fine|thread),compact,1,0$", affinity or "")
    row("KMP_AFFINITY", "granularity=fine,compact,1,0", affinity, bool(kept),
        silent if affinity is None else "it took another value")  # fmt: skip
    threads = str(environment.threads)
    found = effective.get("OMP_NUM_THREADS")
    row("OMP_NUM_THREADS", threads, found or str(facts["torch_threads"]),
        found == threads == str(facts["torch_threads"]),
        f"torch uses {facts['torch_threads']} threads, and the runtime took {found or 'no number'}")  # fmt: skip

    team = [parse_list(thread["cpus"]) for thread in facts["threads"] if thread["in_team"]]
    pinned = sorted(each[0] for each in team if len(each) == 1)
    row("threads, one a core", cpus, " ".join(map(format_list, team)), pinned == environment.cpus,
        "the threads of a parallel region are not pinned one to each planned CPU")  # fmt: skip
    used = {cpu for thread in facts["threads"] for cpu in parse_list(thread["cpus"])}
    row("numactl -C", cpus, format_list(sorted(used)), used <= set(environment.cpus),
        "a thread may run on a CPU outside the plan")  # fmt: skip

    memory = facts["memory"]
    pages = sorted(int(node) for node in memory["pages"])
    # Mode, flags such as =static, nodes (mempolicy_to_str in the kernel's mm/mempolicy.c).
    is_bound = re.fullmatch(rf"bind(=[\w|]+)?:{nodes}", memory["policy"] or "") is not None
    otherwise = f"the memory policy is another one, or touched pages lie on nodes {format_list(pages)}"
    row("numactl -m", f"bind:{nodes}", memory["policy"], is_bound and set(pages) <= set(environment.memory_nodes),
        memory["reason"] or otherwise)  # fmt: skip
    if environment.memory_refused is not None:
        rows[-1] |= {"state": "impossible", **environment.memory_refused}

    for name, (asked, reported) in MALLOC_OPTIONS.items():
        option = facts["malloc_options"].get(name)
        row(f"MALLOC_CONF {name}", asked, option, option in {asked, reported},
            "jemalloc does not have it" if option is None else "jemalloc has another value")  # fmt: skip
    return rows


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _names(paths: set[str]) -> str | None:
    return ", ".join(sorted(map(_name, paths))) or None


def add_note(rows: Sequence[dict[str, Any]], name: str, note: str) -> None:
    """Say of the setting ``name`` what is to be known of it though it is in force."""
    for row in rows:
        if row["name"] == name and row["state"] == "in_force":
            row["reason"] = note


def named(rows: Sequence[Mapping[str, Any]], state: State) -> list[str]:
    """Return the names of the settings that are in ``state``."""
    return [row["name"] for row in rows if row["state"] == state]


def reasons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return, of each setting that is not in force though this machine could do it, what was found and why."""
    return [
        f"{row['name']} (wanted {row['wanted']}, found {row['found']}: {row['reason']})"
        for row in rows
        if row["state"] == "not_in_force"
    ]
