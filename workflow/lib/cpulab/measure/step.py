"""The cases of the benchmark step: the model in two variants, and the element-wise pattern alone."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from cpulab.measure.sampling import stopped_by, time_allowed
from cpulab.records import Measurement, ProcessSamples
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.config import Preset, Sampling
    from cpulab.step import Bench

# "placebo" is eager again, interleaved with the others: what its ratio to eager differs from 1 is this machine's noise.
ARMS = ("eager", "inductor", "placebo")

# Beyond the budget, before a process counts as hung: an untuned or busy machine can compile for minutes.
HUNG_AFTER_S = 900.0


def sample(
    bench: Bench, sampling: Sampling, subject: Mapping[str, Any], *, freezing: bool
) -> tuple[list[dict[str, Any]], str]:
    """Measure fresh processes one after another until `stopped_by` says why no more; return their answers and that.

    The first process compiles into an empty cache, the others find what it left there.
    """
    processes: list[dict[str, Any]] = []
    start = time.monotonic()
    variables = {
        **bench.new_cache(),
        "HF_HUB_OFFLINE": "1",
    }
    while True:
        began = time.monotonic()
        bench.reporter.stage(
            f"process {len(processes) + 1} of {sampling.min_processes} to {sampling.max_processes}, "
            f"{'warm' if processes else 'cold'} cache, up to {sampling.rounds} rounds of {', '.join(ARMS)}"
        )
        allowed = time_allowed(sampling, len(processes), elapsed_s=began - start)
        rounds_before = sum(len(process["orders"]) for process in processes)
        processes.append(
            bench.worker(
                "cpulab.measure.worker",
                {
                    "subject": subject,
                    "freezing": freezing,
                    "warmup": sampling.warmup,
                    "rounds": sampling.rounds,
                    "first_round": rounds_before,
                    # Of CLOCK_MONOTONIC, which all processes of a machine share.
                    "deadline": began + allowed,
                },
                variables=variables,
                timeout_s=sampling.budget_s + HUNG_AFTER_S,
            )
        )
        now = time.monotonic()
        reason = stopped_by(
            sampling,
            _values(processes, "eager"),
            _values(processes, "inductor"),
            elapsed_s=now - start,
            last_process_s=now - began,
        )
        if reason is not None:
            return processes, reason


def _values(processes: Sequence[Mapping[str, Any]], arm: str) -> list[list[float]]:
    return [process["arms"][arm]["values"] for process in processes]


def observed(processes: Sequence[Mapping[str, Any]], reason: str) -> Observed:
    """Turn what the processes of one case answered into what its record holds."""
    measurements = [
        Measurement(arm, "s", [ProcessSamples(**process["arms"][arm]) for process in processes]) for arm in ARMS
    ]
    measurements += [
        Measurement(name, unit, [ProcessSamples(warmup=[], values=[process[name]]) for process in processes])
        for name, unit in (("first_call", "s"), ("peak_memory", "byte"))
    ]
    checks = [process["correctness"] for process in processes]
    # Each process compiles for itself, so that one wrong process is a wrong result: the least favourable check is kept.
    worst = max(checks, key=lambda check: (not check["compiled_is_right"], _error(check)))
    return Observed(
        observations={
            **processes[0]["facts"],
            "freezing": processes[0]["freezing"],
            "graph_breaks": max(process["graph_breaks"] for process in processes),
            **worst,
            "stopped_by": reason,
            "first_call_caches": ["cold", *["warm"] * (len(processes) - 1)],
            "inductor_cache": [process["inductor_cache"] for process in processes],
            "attestations": [
                {"process": number, **process["attestation"]} for number, process in enumerate(processes)
            ],
            "peak_memory_covers": "the whole process: every arm and the compiler",
            "round_orders": [
                {"process": number, "rounds": process["orders"]} for number, process in enumerate(processes)
            ],
        },
        measurements=measurements,
    )


def _error(check: Mapping[str, Any]) -> float:
    error = check["largest_error"]
    return float("inf") if error is None else float(error)


def _model(bench: Bench, *, attention: str, freezing: bool) -> Observed:
    size = bench.preset.model
    subject = {
        "kind": "model",
        "model": bench.model,
        "layers": size.layers,
        "batch": size.batch,
        "sequence_length": size.sequence_length,
        "attention": attention,
        "seed": bench.seed,
    }
    return observed(*sample(bench, bench.preset.benchmark, subject, freezing=freezing))


def _pattern(bench: Bench) -> Observed:
    subject = {"kind": "program", "program": "fused_pattern", "seed": bench.seed}
    return observed(*sample(bench, bench.preset.pattern, subject, freezing=False))


def _model_expected_s(preset: Preset) -> float:
    return preset.benchmark.budget_s


def _pattern_expected_s(preset: Preset) -> float:
    return preset.pattern.budget_s


CASES = {
    "mobilebert_as_published": Case(
        "as_published", _model_expected_s, partial(_model, attention="eager", freezing=True)
    ),
    "mobilebert_default": Case("default", _model_expected_s, partial(_model, attention="sdpa", freezing=False)),
    "fused_pattern": Case("default", _pattern_expected_s, _pattern),
}
