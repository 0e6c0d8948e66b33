"""The cases of the benchmark step: the model in two variants, the element-wise pattern alone, and both untuned."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cpulab.measure.process import HUNG_AFTER_S, each, model_subject, observed, sample
from cpulab.measure.starts import observed_starts, sample_starts
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cpulab.config import Preset, Sampling
    from cpulab.step import Bench

# The tutorial's own protocol: so many calls, then so many timed at one go, once.
PROTOCOL_WARMUP, PROTOCOL_ITERATIONS = 10, 50

# Calls of one arm in a process of its own, for its peak memory.
MEMORY_CALLS = 3


def one_after_another(
    bench: Bench,
    subject: Mapping[str, Any],
    *,
    freezing: bool,
    protocol: bool,
    variables: Mapping[str, str],
    timeout_s: float,
) -> Observed:
    """Observe the peak memory of each arm in a process of its own and, with ``protocol``, what the tutorial's says."""

    def timed(arms: Sequence[str], warmup: int, iterations: int) -> dict[str, Any]:
        return bench.worker(
            "cpulab.measure.protocol_worker",
            {"subject": subject, "arms": arms, "freezing": freezing, "warmup": warmup, "iterations": iterations},
            variables={**variables, "HF_HUB_OFFLINE": "1"},
            timeout_s=timeout_s,
        )

    found = Observed()
    if protocol:
        bench.reporter.stage(
            f"the tutorial's protocol: {PROTOCOL_WARMUP} calls, then {PROTOCOL_ITERATIONS} timed, once"
        )
        both = timed(["eager", "inductor"], PROTOCOL_WARMUP, PROTOCOL_ITERATIONS)
        found.observations["protocol"] = both["rows"]
    for arm in ("eager", "inductor"):
        bench.reporter.stage(f"peak memory of {arm} in a process of its own")
        alone = timed([arm], 1, MEMORY_CALLS)
        found.measurements.append(each([alone], "peak_memory", "byte", measured=f"peak_memory_{arm}"))
    return found


def _pattern_subject(bench: Bench) -> dict[str, Any]:
    return {"kind": "program", "program": "fused_pattern", "seed": bench.seed}


def _benchmark(
    bench: Bench, sampling: Sampling, subject: Mapping[str, Any], *, freezing: bool, protocol: bool
) -> Observed:
    cache = bench.new_cache()
    found = observed(*sample(bench, sampling, subject, freezing=freezing, variables=cache))
    more = one_after_another(
        bench,
        subject,
        freezing=freezing,
        protocol=protocol,
        variables=cache,
        timeout_s=sampling.budget_s + HUNG_AFTER_S,
    )
    found.observations |= more.observations
    found.measurements += more.measurements
    return found


def _model(bench: Bench, *, attention: str, freezing: bool) -> Observed:
    # The tutorial times the variant that it published.
    subject = model_subject(bench, attention)
    return _benchmark(bench, bench.preset.benchmark, subject, freezing=freezing, protocol=freezing)


def _pattern(bench: Bench) -> Observed:
    return _benchmark(bench, bench.preset.pattern, _pattern_subject(bench), freezing=False, protocol=True)


def _model_tuning(bench: Bench) -> Observed:
    processes, reason = sample_starts(bench, bench.preset.tuning, model_subject(bench, "sdpa"))
    return observed_starts(processes, reason, bench.environment.threads)


def _pattern_tuning(bench: Bench) -> Observed:
    processes, reason = sample_starts(bench, bench.preset.pattern_tuning, _pattern_subject(bench))
    return observed_starts(processes, reason, bench.environment.threads)


def _takes(sampling: str, more: int = 0) -> Callable[[Preset], float]:
    """Return how long a case takes that samples by this part of a preset, with ``more`` processes after the sampled."""

    def expected_s(preset: Preset) -> float:
        one: Sampling = getattr(preset, sampling)
        return one.budget_s * (1 + more / one.min_processes)

    return expected_s


# One process for the peak memory of each arm, and one for the tutorial's protocol.
CASES = {
    "mobilebert_as_published": Case(
        "as_published", _takes("benchmark", more=3), partial(_model, attention="eager", freezing=True)
    ),
    "mobilebert_default": Case(
        "default", _takes("benchmark", more=2), partial(_model, attention="sdpa", freezing=False)
    ),
    "fused_pattern": Case("default", _takes("pattern", more=3), _pattern),
    "mobilebert_tuning": Case("default", _takes("tuning"), _model_tuning),
    "fused_pattern_tuning": Case("default", _takes("pattern_tuning"), _pattern_tuning),
}
