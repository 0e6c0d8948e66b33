"""The cases of the benchmark step: the model in two variants, the element-wise pattern alone, and both untuned."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from cpulab.measure.process import ask, built, values
from cpulab.measure.sampling import stopped_by, time_allowed
from cpulab.measure.starts import observed_starts, sample_starts
from cpulab.records import Measurement, ProcessSamples
from cpulab.statistics import ratio_interval
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpulab.config import Preset, Sampling
    from cpulab.step import Bench

# "placebo" is eager again, interleaved with the others: what its ratio to eager differs from 1 is this machine's noise.
ARMS = ("eager", "inductor", "placebo")


def sample(
    bench: Bench, sampling: Sampling, subject: Mapping[str, Any], *, freezing: bool
) -> tuple[list[dict[str, Any]], str]:
    """Measure fresh processes one after another until `stopped_by` says why no more; return their answers and that.

    The first process compiles into an empty cache, the others find what it left there.
    """
    processes: list[dict[str, Any]] = []
    start = time.monotonic()
    variables = bench.new_cache()
    while True:
        began = time.monotonic()
        bench.reporter.stage(
            f"process {len(processes) + 1} of {sampling.min_processes} to {sampling.max_processes}, "
            f"{'warm' if processes else 'cold'} cache, up to {sampling.rounds} rounds of {', '.join(ARMS)}"
        )
        due = sampling.min_processes - len(processes)
        processes.append(
            ask(
                bench,
                sampling,
                subject,
                arms=ARMS,
                freezing=freezing,
                before=processes,
                deadline=began + time_allowed(sampling, due, elapsed_s=began - start),
                variables=variables,
            )
        )
        now = time.monotonic()
        reason = stopped_by(
            sampling,
            len(processes),
            lambda: ratio_interval(values(processes, "eager"), values(processes, "inductor")).half_width,
            elapsed_s=now - start,
            next_s=now - began,
        )
        if reason is not None:
            return processes, reason


def observed(processes: Sequence[Mapping[str, Any]], reason: str) -> Observed:
    """Turn what the processes of one case answered into what its record holds."""
    measurements = [
        Measurement(arm, "s", [ProcessSamples(**process["arms"][arm]) for process in processes]) for arm in ARMS
    ]
    measurements += [
        Measurement(name, unit, [ProcessSamples(warmup=[], values=[process[name]]) for process in processes])
        for name, unit in (("first_call", "s"), ("peak_memory", "byte"))
    ]
    return Observed(
        observations={
            **built(processes),
            "stopped_by": reason,
            "first_call_caches": ["cold", *["warm"] * (len(processes) - 1)],
            "inductor_cache": [process["inductor_cache"] for process in processes],
            "attestations": [{"process": number, **process["attestation"]} for number, process in enumerate(processes)],
        },
        measurements=measurements,
    )


def _model_subject(bench: Bench, attention: str) -> dict[str, Any]:
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


def _pattern_subject(bench: Bench) -> dict[str, Any]:
    return {"kind": "program", "program": "fused_pattern", "seed": bench.seed}


def _model(bench: Bench, *, attention: str, freezing: bool) -> Observed:
    return observed(*sample(bench, bench.preset.benchmark, _model_subject(bench, attention), freezing=freezing))


def _pattern(bench: Bench) -> Observed:
    return observed(*sample(bench, bench.preset.pattern, _pattern_subject(bench), freezing=False))


def _model_tuning(bench: Bench) -> Observed:
    processes, reason = sample_starts(bench, bench.preset.tuning, _model_subject(bench, "sdpa"))
    return observed_starts(processes, reason, bench.environment.threads)


def _pattern_tuning(bench: Bench) -> Observed:
    processes, reason = sample_starts(bench, bench.preset.pattern_tuning, _pattern_subject(bench))
    return observed_starts(processes, reason, bench.environment.threads)


def _takes(sampling: str) -> Callable[[Preset], float]:
    """Return how long a case takes that samples by this part of a preset."""
    return lambda preset: float(getattr(preset, sampling).budget_s)


CASES = {
    "mobilebert_as_published": Case(
        "as_published", _takes("benchmark"), partial(_model, attention="eager", freezing=True)
    ),
    "mobilebert_default": Case("default", _takes("benchmark"), partial(_model, attention="sdpa", freezing=False)),
    "fused_pattern": Case("default", _takes("pattern"), _pattern),
    "mobilebert_tuning": Case("default", _takes("tuning"), _model_tuning),
    "fused_pattern_tuning": Case("default", _takes("pattern_tuning"), _pattern_tuning),
}
