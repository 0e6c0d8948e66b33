"""Measured processes as a step asks for them, one after another, and what several of them say together."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from cpulab.errors import UnfitCase
from cpulab.measure.sampling import stopped_by, time_allowed
from cpulab.records import Measurement, ProcessSamples
from cpulab.statistics import ratio_interval
from cpulab.step import Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.config import Sampling
    from cpulab.step import Bench

# "placebo" is eager again, interleaved with the others: what its ratio to eager differs from 1 is this machine's noise.
ARMS = ("eager", "inductor", "placebo")

# More arms than this are counted and not named while they are measured.
MANY_ARMS = 6

# Beyond the budget, before a process counts as hung: an untuned or busy machine can compile for minutes.
HUNG_AFTER_S = 900.0


def model_subject(bench: Bench, attention: str) -> dict[str, Any]:
    """Return the model of the preset's size as a subject (`cpulab.measure.subjects`)."""
    size = bench.preset.model
    return {
        "kind": "model",
        "model": bench.model,
        "layers": size.layers,
        "batch": size.batch,
        "sequence_length": size.sequence_length,
        "attention": attention,
        "seed": bench.seed,
    }


def ask(
    bench: Bench,
    sampling: Sampling,
    subject: Mapping[str, Any],
    *,
    arms: Sequence[str],
    freezing: bool,
    before: Sequence[Mapping[str, Any]],
    deadline: float,
    variables: Mapping[str, str],
    tuned: bool = True,
) -> dict[str, Any]:
    """Run one measured process and return its answer (`cpulab.measure.worker.measure`).

    ``before``: the answers of those whose cycle of balanced orders it goes on with. ``deadline``: of CLOCK_MONOTONIC,
    which all processes of a machine share.

    Raises:
        ProcessFailed, SettingsNotInForce: as `cpulab.step.Bench.worker`.
        UnfitCase: the subject cannot be timed.

    """
    answer = bench.worker(
        "cpulab.measure.worker",
        {
            "subject": subject,
            "arms": list(arms),
            "freezing": freezing,
            "warmup": sampling.warmup,
            "rounds": sampling.rounds,
            "first_round": sum(len(process["orders"]) for process in before),
            "deadline": deadline,
            "sentinel_s": min((process["sentinel_s"] for process in before), default=None),
        },
        variables={**variables, "HF_HUB_OFFLINE": "1"},
        timeout_s=sampling.budget_s + HUNG_AFTER_S,
        tuned=tuned,
    )
    if "unfit" in answer:
        raise UnfitCase(answer["unfit"])
    return answer


def sample(
    bench: Bench,
    sampling: Sampling,
    subject: Mapping[str, Any],
    *,
    freezing: bool,
    arms: Sequence[str] = ARMS,
    over: tuple[str, str] = ("eager", "inductor"),
    variables: Mapping[str, str] | None = None,
) -> tuple[list[dict[str, Any]], str]:
    """Measure fresh processes one after another until `stopped_by` says why no more; return their answers and that.

    The first process compiles into an empty cache, the others find what it left there. ``over``: the arms whose ratio
    is to have a narrow interval. ``variables``: those of `Bench.new_cache`, where others use the same cache.
    """
    processes: list[dict[str, Any]] = []
    start = time.monotonic()
    cache = variables or bench.new_cache()
    while True:
        began = time.monotonic()
        bench.reporter.stage(
            f"process {len(processes) + 1} of {sampling.min_processes} to {sampling.max_processes}, "
            f"{'warm' if processes else 'cold'} cache, up to {sampling.rounds} rounds of "
            f"{', '.join(arms) if len(arms) <= MANY_ARMS else f'{len(arms)} arms'}"
        )
        due = sampling.min_processes - len(processes)
        processes.append(
            ask(
                bench,
                sampling,
                subject,
                arms=arms,
                freezing=freezing,
                before=processes,
                deadline=began + time_allowed(sampling, due, elapsed_s=began - start),
                variables=cache,
            )
        )
        now = time.monotonic()
        reason = stopped_by(
            sampling,
            len(processes),
            lambda: ratio_interval(kept(processes, over[0]), kept(processes, over[1])).half_width,
            elapsed_s=now - start,
            next_s=now - began,
        )
        if reason is not None:
            return processes, reason


def samples(process: Mapping[str, Any], arm: str) -> ProcessSamples:
    """Return what a process sampled of an arm."""
    return ProcessSamples(**process["arms"][arm])


def kept(processes: Sequence[Mapping[str, Any]], arm: str) -> list[list[float]]:
    """Return the samples of an arm that count, process by process."""
    return [samples(process, arm).kept for process in processes]


def each(processes: Sequence[Mapping[str, Any]], name: str, unit: str, *, measured: str | None = None) -> Measurement:
    """Return as a measurement (called ``measured``, else ``name``) the one value that every process has."""
    return Measurement(measured or name, unit, [ProcessSamples([], [process[name]]) for process in processes])


def observed(processes: Sequence[Mapping[str, Any]], reason: str, arms: Sequence[str] = ARMS) -> Observed:
    """Turn what the processes of one case answered into what its record holds."""
    found = Observed(
        observations={
            **built(processes),
            "stopped_by": reason,
            "attestations": [{"process": number, **process["attestation"]} for number, process in enumerate(processes)],
        },
        measurements=[Measurement(arm, "s", [samples(process, arm) for process in processes]) for arm in arms],
    )
    if "inductor" in arms:
        found.measurements.append(each(processes, "first_call", "s"))
        found.observations |= {
            "first_call_caches": ["cold", *["warm"] * (len(processes) - 1)],
            "inductor_cache": [process["inductor_cache"] for process in processes],
        }
    return found


def built(processes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was built, how the compiled result compares and how the rounds went, as observations of a record.

    Each process compiles for itself, so that one wrong process is a wrong result: the least favourable check is kept.
    """
    checks = [process["correctness"] for process in processes if "correctness" in process]
    worst: Mapping[str, Any] = max(
        checks, key=lambda check: (not check["compiled_is_right"], _error(check)), default={}
    )
    rounds = [len(process["orders"]) for process in processes]
    return {
        **processes[0]["facts"],
        "freezing": processes[0]["freezing"],
        "graph_breaks": max(process["graph_breaks"] for process in processes),
        **worst,
        "round_orders": [{"process": number, "rounds": process["orders"]} for number, process in enumerate(processes)],
        "warmups": [
            {"process": number, "rounds": process["warmup_rounds"], "steady": process["steady"]}
            for number, process in enumerate(processes)
        ],
        "watch": [
            {"process": number, **stretch} for number, process in enumerate(processes) for stretch in process["watch"]
        ],
        "rounds_taken": sum(rounds),
        "rounds_disturbed": sum(
            stretch["rounds"] for process in processes for stretch in process["watch"] if stretch["disturbed"]
        ),
        "rounds_again": sum(
            max(0, taken - process["planned_rounds"]) for taken, process in zip(rounds, processes, strict=True)
        ),
        "calls_per_sample": [process["calls_per_sample"] for process in processes],
        "harness_s_per_sample": max(process["harness_s_per_sample"] for process in processes),
    }


def _error(check: Mapping[str, Any]) -> float:
    error = check["largest_error"]
    return float("inf") if error is None else float(error)
