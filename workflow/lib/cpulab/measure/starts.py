"""Whether the tuned environment is worth it: the same arms in processes that are started tuned and untuned, in turn."""

from __future__ import annotations

import time
from itertools import chain, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.measure.order import balanced_orders
from cpulab.measure.process import ask, built, each, kept, samples
from cpulab.measure.sampling import stopped_by, time_allowed
from cpulab.records import Measurement
from cpulab.statistics import ratio_between_processes
from cpulab.step import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.config import Sampling
    from cpulab.step import Bench

STARTS = ("tuned", "untuned")

# No placebo within the process: what a ratio of processes suffers from is what processes differ by.
ARMS = ("eager", "inductor")

# Processes of a block: two mirrored pairs, so that each start kind is its own placebo in every block.
BLOCK = 4


def sample_starts(bench: Bench, sampling: Sampling, subject: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Measure blocks of four fresh processes until `stopped_by` says why no more; return their answers and that.

    A block is tuned, untuned, untuned, tuned, and the next one its mirror image. Neighbours are a pair of the ratio, so
    that a steady drift cancels between the two pairs of a block; the two processes of one start kind in a block are
    each other's placebo. "Tuned again" as a third kind would take three processes for each pair of both, instead of
    two, and would miss that untuned processes, whose threads the kernel may move, differ by more among themselves: here
    the placebo's pairs have, on average over the two kinds, just the variance of the ratio's.

    ``sampling`` counts processes of each start kind. Each kind has a compiler cache of its own, since generated code
    may depend on the number of threads; its first process finds it empty, which costs compile time and no sample.

    Raises:
        ProcessFailed, SettingsNotInForce: as `cpulab.step.Bench.worker`.

    """
    processes: list[dict[str, Any]] = []
    caches = {start: bench.new_cache(start) for start in STARTS}
    starts = cycle(chain.from_iterable(balanced_orders(STARTS)))
    began = time.monotonic()
    while True:
        block_began = time.monotonic()
        for left, start in zip(range(BLOCK, 0, -1), islice(starts, BLOCK), strict=True):
            same = of_start(processes, start)
            bench.reporter.stage(
                f"{start} process {len(same) + 1} of {sampling.min_processes} to {sampling.max_processes}, "
                f"{'warm' if same else 'cold'} cache, up to {sampling.rounds} rounds of {', '.join(ARMS)}"
            )
            now = time.monotonic()
            due = max(left, len(STARTS) * sampling.min_processes - len(processes))
            answer = ask(
                bench,
                sampling,
                subject,
                arms=ARMS,
                freezing=False,
                before=same,
                deadline=now + time_allowed(sampling, due, elapsed_s=now - began),
                variables=caches[start],
                tuned=start == "tuned",
            )
            processes.append({"start": start, **answer})
        now = time.monotonic()
        reason = stopped_by(
            sampling,
            len(processes) // len(STARTS),
            lambda: max(_half_width(processes, arm) for arm in ARMS),
            elapsed_s=now - began,
            next_s=now - block_began,
        )
        if reason is not None:
            return processes, reason


def _half_width(processes: Sequence[Mapping[str, Any]], arm: str) -> float:
    tuned, untuned = (kept(of_start(processes, start), arm) for start in STARTS)
    return ratio_between_processes(untuned, tuned).half_width


def of_start(processes: Sequence[Mapping[str, Any]], start: str) -> list[Mapping[str, Any]]:
    """Return the processes of one start kind, in the order they ran."""
    return [process for process in processes if process["start"] == start]


def observed_starts(processes: Sequence[Mapping[str, Any]], reason: str, tuned_threads: int) -> Observed:
    """Turn what the processes of one case answered into what its record holds; ``tuned_threads``: planned."""
    found = Observed({**built(processes), "stopped_by": reason, "tuned_threads": tuned_threads})
    number = {id(process): place for place, process in enumerate(processes)}
    for start in STARTS:
        same = of_start(processes, start)
        found.measurements += [
            Measurement(f"{arm}_{start}", "s", [samples(process, arm) for process in same]) for arm in ARMS
        ]
        found.measurements.append(each(same, "first_call", "s", measured=f"first_call_{start}"))
        found.observations[f"first_call_{start}_caches"] = ["cold", *["warm"] * (len(same) - 1)]
    found.observations |= {
        "process_order": [
            {"process": place, "start": process["start"], "inductor_cache": process["inductor_cache"]}
            for place, process in enumerate(processes)
        ],
        "attestations": [
            {"process": number[id(process)], **process["attestation"]} for process in of_start(processes, "tuned")
        ],
        "untuned": [
            {"process": number[id(process)], **_in_force(process["attested"])}
            for process in of_start(processes, "untuned")
        ],
    }
    return found


def _in_force(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an untuned process found in force (`cpulab.host.attest.facts`), without the machine's folders."""
    team = [thread["cpus"] for thread in facts["threads"] if thread["in_team"]]
    return {
        "openmp_runtime": _name(facts["openmp_runtime"]),
        "malloc": _name(facts["malloc"]),
        "torch_threads": facts["torch_threads"],
        "cpus": ", ".join(dict.fromkeys(team)),
        "memory_policy": facts["memory"]["policy"],
        "seconds": facts["seconds"],
    }


def _name(path: str | None) -> str | None:
    return path and Path(path).name
