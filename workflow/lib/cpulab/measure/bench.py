"""A user's own function under the same treatment as the tutorial's: what `cpulab bench` runs and says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cpulab.config import Sampling
from cpulab.errors import SettingsNotInForce
from cpulab.measure.process import built, kept, sample
from cpulab.statistics import centre, detectable, is_bimodal, is_resolved, noise_floor, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpulab.statistics import Interval
    from cpulab.step import Bench

# For a function of some 10 ms the rounds of a process cost a third of what starting it costs, which is about where an
# hour of measuring buys the narrowest interval: T. Kalibera and R. Jones, "Rigorous Benchmarking in Reasonable Time",
# ISMM 2013; with the variances recorded in tests/data/measure/machines.
SAMPLING = Sampling(budget_s=180, min_processes=6, max_processes=20, warmup=5, rounds=120, half_width=0.02)

# Two arms are the same when the whole interval of their ratio lies within this share of 1.
SAME = 0.03


def measure(bench: Bench, sampling: Sampling, target: Mapping[str, str]) -> dict[str, Any]:
    """Measure ``target`` ({file, function}) in eager mode and compiled, and return what `cpulab bench --json` prints.

    Ratios are eager over inductor, times are seconds a call.

    Raises:
        UnfitCase: it cannot be loaded, called or timed.
        ProcessFailed, SettingsNotInForce: as `cpulab.step.Bench.worker`.

    """
    if bench.environment.not_in_force:
        raise SettingsNotInForce(bench.environment.not_in_force)
    subject = {"kind": "case", **target, "seed": bench.seed}
    processes, reason = sample(bench, sampling, subject, freezing=False)
    eager, inductor, placebo = (kept(processes, arm) for arm in ("eager", "inductor", "placebo"))
    ratio, noise = ratio_interval(eager, inductor), ratio_interval(placebo, eager)
    seen = built(processes)
    # Where eager does not even repeat its own result, the compiled one's says nothing.
    is_right = seen["compiled_is_right"] if all(process["facts"]["repeats"] for process in processes) else None
    return {
        "verdict": "inconclusive" if is_right is False else verdict(ratio, noise),
        **_named(ratio),
        "eager_s": centre(eager).estimate,
        "inductor_s": centre(inductor).estimate,
        "placebo": _named(noise),
        "detectable": max(detectable(eager, inductor), noise_floor(noise)),
        "processes": len(processes),
        "samples": seen["rounds_taken"],
        "disturbed": seen["rounds_disturbed"],
        "stopped_by": reason,
        "compiled_is_right": is_right,
        "first_call_s": {"cold": processes[0]["first_call"], "warm": [one["first_call"] for one in processes[1:]]},
        "because": max(seen["watch"], key=lambda stretch: stretch["disturbed"] * stretch["rounds"])["because"],
        "harness_s_per_sample": seen["harness_s_per_sample"],
        "steady": all(process["steady"] for process in processes),
        "bimodal": [arm for arm in ("eager", "inductor") if any(map(is_bimodal, kept(processes, arm)))],
    }


def verdict(ratio: Interval, placebo: Interval) -> str:
    """Return "faster" or "slower" (what compiled is than eager), "same" or "inconclusive".

    A difference counts when it is told from 1 by its interval and is beyond the noise floor; sameness when the whole
    interval is within `SAME` of 1.
    """
    if is_resolved(ratio, placebo):
        return "faster" if ratio.estimate > 1 else "slower"
    return "same" if ratio.low >= 1 / (1 + SAME) and ratio.high <= 1 + SAME else "inconclusive"


def _named(interval: Interval) -> dict[str, float | None]:
    """Return an interval as JSON: null where nothing bounds it."""
    high = interval.high if math.isfinite(interval.high) else None
    return {"ratio": interval.estimate, "low": interval.low, "high": high}


STOPPED_BY = {
    "interval": "the interval is as narrow as asked for",
    "processes": "the largest number of processes",
    "budget": "the budget",
}


def text(answer: Mapping[str, Any]) -> str:
    """Return the object of `cpulab bench --json` for a reader."""
    noise = answer["placebo"]
    warm = answer["first_call_s"]["warm"]
    again = f", then {min(warm):.2f} to {max(warm):.2f} s" if warm else ""
    rows = [
        ("verdict", VERDICTS[answer["verdict"]]),
        ("ratio", f"{_interval(answer)} eager over inductor"),
        ("eager", _time(answer["eager_s"])),
        ("inductor", _time(answer["inductor_s"])),
        ("placebo", f"{_interval(noise)} eager over itself"),
        ("detectable", f"{100 * answer['detectable']:.2g} %: a smaller difference may well be missed"),
        ("first call", f"{answer['first_call_s']['cold']:.2f} s with a cold cache{again}"),
        ("measured", f"{answer['processes']} processes, {answer['samples']} rounds"),
        ("stopped by", STOPPED_BY[answer["stopped_by"]]),
        (
            "disturbed",
            f"{answer['disturbed']} rounds; for example {answer['because']}" if answer["disturbed"] else "none",
        ),
    ]
    lines = [answer["case"], "", *(f"  {name:11} {value}" for name, value in rows), ""]
    notes = []
    if answer["compiled_is_right"] is False:
        notes.append("The compiled result is wrong, so its speed says nothing: ask cpulab explain.")
    if answer["compiled_is_right"] is None:
        notes.append("Eager does not give the same result twice, so the compiled one was not checked.")
    if not answer["steady"]:
        notes.append("At least one process was still getting faster or slower after its warm-up.")
    notes += [f"The times of {arm} have more than one mode in at least one process." for arm in answer["bimodal"]]
    return "\n".join([*lines, *(f"  - {note}" for note in notes)]).rstrip()


VERDICTS = {
    "faster": "faster: compiled takes less time",
    "slower": "slower: compiled takes more time",
    "same": f"same: any difference is under {100 * SAME:.0f} %",
    "inconclusive": "inconclusive",
}


def _interval(one: Mapping[str, Any]) -> str:
    high = "any" if one["high"] is None else f"{one['high']:.3f}"
    return f"{one['ratio']:.3f} (95 % interval {one['low']:.3f} to {high}),"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"
