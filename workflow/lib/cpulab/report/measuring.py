"""What a benchmark measured, for a reader: arms, ratios, how the samples were taken, which rounds were disturbed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from cpulab.report import figures
from cpulab.report.quantities import interval, quantity, significant
from cpulab.report.views import RECORD_NAME, Shown, label, series
from cpulab.statistics import (
    centre,
    detectable,
    is_bimodal,
    outliers,
    placebo_between_processes,
    ratio_between_processes,
    ratio_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from markupsafe import Markup

    from cpulab.records import Measurement, ProcessSamples
    from cpulab.statistics import Interval, Processes

ARMS = ("eager", "inductor", "placebo")
# A smallest effect of this size or more is as good as unknown: two processes hardly tell how they differ.
UNKNOWN = 1.0
STARTS = ("untuned", "tuned")
STOPPED = {
    "interval": "the interval was as narrow as asked",
    "processes": "as many processes as allowed were measured",
    "budget": "the time budget was spent",
}
UNTUNED = {
    "openmp_runtime": "OpenMP runtime, untuned",
    "malloc": "malloc, untuned",
    "torch_threads": "Threads, untuned",
    "cpus": "CPUs of each thread, untuned",
    "memory_policy": "Memory policy, untuned",
}
# What is watched during a stretch of rounds: the record's name, the table's, and the unit.
WATCHED = (
    ("sentinel_s", "Sentinel", "s"),
    ("waited", "Waited for a CPU", "%"),
    ("steal", "Taken by the hypervisor", "%"),
    ("others", "Taken by other processes", "%"),
    ("involuntary", "Involuntary switches", "count"),
    ("running", "Threads ready to run", "count"),
    ("frequency_hz", "Frequency", "Hz"),
)


@dataclass(frozen=True)
class ArmRow:
    """An arm as the table has it: its time, how many of its samples count, and what is odd about these.

    ``protocol``: the time of one call by the tutorial's own protocol; ``outliers`` and ``modes``: in words; both of
    these, like ``peak_memory``, are empty where they are not known.
    """

    arm: figures.Arm
    protocol: str
    processes: int
    taken: int
    kept: int
    range: str
    outliers: str
    modes: str
    peak_memory: str


@dataclass(frozen=True)
class Stretch:
    """Rounds of one process that were watched together; processes and rounds are numbered from 1, as for a reader."""

    number: int
    process: int
    rounds: str
    because: str
    cells: list[str]


@dataclass(frozen=True)
class Watch:
    """What was seen of the machine between rounds: the disturbed stretches, and what the others had in the middle."""

    columns: list[str] = field(default_factory=list)
    disturbed: list[Stretch] = field(default_factory=list)
    usual: list[str] = field(default_factory=list)
    stretches: int = 0


@dataclass(frozen=True)
class Sampling:
    """How a benchmark's samples were taken: the arms, facts by name, all rounds in order of time, and the watch."""

    arms: list[ArmRow]
    facts: list[tuple[str, Any]]
    timeline: Markup | None
    watch: Watch


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: the ratio with its interval, that of the placebo, and the figure of all samples.

    ``said``: (what says it, which ratio, what that means) of the published ratio and its like.
    """

    shown: Shown
    sampling: Sampling
    ratio: figures.Ratio | None
    placebo: figures.Ratio | None
    said: list[tuple[str, str, str]]
    figure: Markup | None
    others: list[tuple[str, str, str]]

    @property
    def ratios(self) -> list[figures.Ratio]:
        """Those that there are."""
        return [one for one in (self.ratio, self.placebo) if one is not None]


@dataclass(frozen=True)
class Worth:
    """What the tuned environment is worth to one arm: its times without and with it, their ratio and its placebo.

    ``detectable``: the smallest effect that such a run finds, as a share; None where that is not known.
    """

    name: str
    untuned: figures.Arm
    tuned: figures.Arm
    ratio: figures.Ratio
    placebo: figures.Ratio | None
    detectable: float | None


@dataclass(frozen=True)
class Tuning:
    """A benchmark of processes started untuned and tuned: the arms, and what was in force in the untuned ones."""

    shown: Shown
    sampling: Sampling
    arms: list[Worth]
    untuned: list[tuple[str, list[Any]]]
    others: list[tuple[str, str, str]]

    @property
    def ratios(self) -> list[figures.Ratio]:
        """Those of the arms, then their placebos."""
        return [one.ratio for one in self.arms] + [one.placebo for one in self.arms if one.placebo is not None]


# The samples of a process by arm.
Process = dict[str, "ProcessSamples"]


def benchmark(shown: Shown, published: float | None) -> Benchmark:
    """Return a benchmark's arms and ratios; ``published``: the tutorial's ratio eager / inductor."""
    taken = _taken(shown, ARMS)
    arms = [arm(measurement) for measurement in taken.values()]
    figure = figures.samples(_identity(shown), f"Every sample of {shown.name}", arms, "s") if arms else None
    ratio = placebo = None
    if "eager" in taken and "inductor" in taken:
        ratio = ratio_of("eager / inductor", taken["eager"].kept, taken["inductor"].kept, published)
    if "eager" in taken and "placebo" in taken:
        placebo = ratio_of("placebo", taken["eager"].kept, taken["placebo"].kept, colour=2)
    said = _said(shown, ratio, placebo, taken) if ratio else []
    processes = _processes(taken)
    return Benchmark(shown, _sampling(shown, taken, processes), ratio, placebo, said, figure, _others(shown, taken))


def tuning(shown: Shown) -> Tuning:
    """Return what the tuned environment is worth to each arm of a benchmark of both start kinds."""
    names = [f"{name}_{start}" for name in ("eager", "inductor") for start in STARTS]
    taken = _taken(shown, names)
    arms = []
    for colour, name in enumerate(("eager", "inductor")):
        untuned, tuned = (taken.get(f"{name}_{start}") for start in STARTS)
        if untuned and tuned:
            ratio = ratio_of(name, untuned.kept, tuned.kept, colour=colour, statistic=ratio_between_processes)
            try:
                noise = placebo_between_processes(untuned.kept, tuned.kept)
                placebo = figures.Ratio(f"placebo of {name}", *noise, colour=2)
            except ValueError:  # one pair, or half a block
                placebo = None
            arms.append(
                Worth(name, arm(untuned), arm(tuned), ratio, placebo, _detectable(untuned, tuned, paired=False))
            )
    rows = shown.seen.get("untuned") or []
    in_force = [(words, list(dict.fromkeys(row[column] for row in rows))) for column, words in UNTUNED.items()]
    order = [str(row["start"]) for row in shown.seen.get("process_order") or []]
    sampling = _sampling(shown, taken, _started(taken, order))
    return Tuning(shown, sampling, arms, in_force, _others(shown, taken))


def published_ratio(name: str, claims: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the ratio that the tutorial publishes of the benchmark ``name``, from the claim that rests on it alone."""
    for claim in claims:
        value = claim["published"]["value"]
        rests = [one for one in claim["evidence"] if RECORD_NAME.fullmatch(one)]
        if claim["published"]["unit"] == "ratio" and rests == [name] and isinstance(value, (int, float)):
            return float(value)
    return None


def ratio_figure(benchmarks: Iterable[Benchmark | Tuning], titles: Mapping[str, str]) -> Markup | None:
    """Draw the ratios of every benchmark, and their placebos', on one axis."""
    shown = [(titles[one.shown.name], one.ratios) for one in benchmarks if one.ratios]
    return figures.ratios("ratios", "Ratios of times", shown, "same speed") if shown else None


def arm(measurement: Measurement) -> figures.Arm:
    """Return an arm with its centre from the samples that count; all of them are drawn."""
    samples = [process.values for process in measurement.processes]
    disturbed = [process.disturbed for process in measurement.processes]
    kept = measurement.kept
    try:
        middle = centre(kept)
    except ValueError:  # one process: a middle, but no interval
        middle_of_one = statistics.median(chain.from_iterable(kept))
        return figures.Arm(measurement.name, samples, middle_of_one, None, None, disturbed)
    return figures.Arm(measurement.name, samples, middle.estimate, middle.low, middle.high, disturbed)


def ratio_of(
    name: str,
    numerator: Processes,
    denominator: Processes,
    published: float | None = None,
    *,
    colour: int = 1,
    statistic: Callable[..., Interval] = ratio_interval,
) -> figures.Ratio:
    """Return the ratio of two arms from the samples that count, process by process; of one without an interval."""
    try:
        ratio = statistic(numerator, denominator)
    except ValueError:
        value = statistics.median(chain.from_iterable(numerator)) / statistics.median(chain.from_iterable(denominator))
        return figures.Ratio(name, value, None, None, published, colour)
    return figures.Ratio(name, *ratio, published, colour)


def _taken(shown: Shown, names: Iterable[str]) -> dict[str, Measurement]:
    found = {name: shown.record.measurement(name) if shown.record else None for name in names}
    return {name: one for name, one in found.items() if one and any(process.values for process in one.processes)}


def _identity(shown: Shown) -> str:
    return shown.name.replace("/", "-")


def _processes(taken: Mapping[str, Measurement]) -> list[Process]:
    """Return the processes of arms that all processes have."""
    number = max((len(one.processes) for one in taken.values()), default=0)
    return [
        {name: one.processes[place] for name, one in taken.items() if place < len(one.processes)}
        for place in range(number)
    ]


def _started(taken: Mapping[str, Measurement], order: Sequence[str]) -> list[Process]:
    """Return the processes in the order they ran, each with the arms of its start kind."""
    turns = {start: iter(_processes({n: m for n, m in taken.items() if n.endswith(f"_{start}")})) for start in STARTS}
    return [process for start in order if (process := next(turns.get(start, iter(())), None)) is not None]


def _said(
    shown: Shown, ratio: figures.Ratio, placebo: figures.Ratio | None, taken: Mapping[str, Measurement]
) -> list[tuple[str, str, str]]:
    """Return what to hold against the ratio: the tutorial's way of measuring, the published one, and the noise."""
    rows = [("Measured here", interval(ratio.value, ratio.low, ratio.high, "ratio"), "with its 95 % interval")]
    calls = _protocol(shown)
    if {"eager", "inductor"} <= calls.keys():
        told = calls["eager"][0] / calls["inductor"][0]
        warmup, timed = calls["eager"][1:]
        rows.append(
            (
                "The tutorial\N{RIGHT SINGLE QUOTATION MARK}s own protocol, run once here",
                significant(told),
                f"{warmup} and {timed} calls, arms one after the other: {_beside(told, ratio)}",
            )
        )
    if ratio.published is not None:
        rows.append(("Published", significant(ratio.published), _beside(ratio.published, ratio)))
    if placebo is not None:
        rows.append(
            (
                "Placebo, eager over itself",
                interval(placebo.value, placebo.low, placebo.high, "ratio"),
                "the noise of this machine on this day",
            )
        )
    smallest = _detectable(taken["eager"], taken["inductor"])
    if smallest is not None:
        rows.append(
            (
                "Smallest effect that such a run finds",
                quantity(100 * smallest, "%", 2),
                "in 8 of 10 runs, with processes as different as these",
            )
        )
    return rows


def _beside(value: float, ratio: figures.Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return "one figure, without an interval"
    if ratio.low <= value <= ratio.high:
        return "within our interval"
    return f"{'above' if value > ratio.high else 'below'} our interval"


def _protocol(shown: Shown) -> dict[str, tuple[float, int, int]]:
    """Return the seconds of one call by the tutorial's own protocol, and its warm-up and timed calls, arm by arm."""
    return {
        row["arm"]: (row["seconds"] / row["iterations"], row["warmup"], row["iterations"])
        for row in shown.seen.get("protocol") or []
    }


def _detectable(numerator: Measurement, denominator: Measurement, *, paired: bool = True) -> float | None:
    try:
        found = detectable(numerator.kept, denominator.kept, paired=paired)
    except ValueError:
        return None
    return found if found < UNKNOWN else None


def _sampling(shown: Shown, taken: Mapping[str, Measurement], processes: Sequence[Process]) -> Sampling:
    calls = _protocol(shown)
    rows = [_arm_row(shown, one, calls) for one in taken.values()]
    facts: list[tuple[str, Any]] = [
        ("Processes", len(processes) or None),
        ("Warm-up rounds until steady", _warmups(shown)),
        ("Rounds", _rounds(shown, processes)),
        ("Calls in one sample", list(dict.fromkeys(shown.seen.get("calls_per_sample") or []))),
        ("Sampling stopped because", STOPPED.get(str(shown.seen.get("stopped_by")), shown.seen.get("stopped_by"))),
        ("Cost of the harness", _harness(shown, rows)),
    ]
    watched = [row for row in shown.seen.get("watch") or [] if row["rounds"] and row["process"] < len(processes)]
    watch = _watch(watched)
    # Before there was a watch, rounds in order of time had nothing to show that the samples do not.
    timeline = _timeline(shown, processes, watched) if watched else None
    return Sampling(rows, facts, timeline, watch)


def _arm_row(shown: Shown, one: Measurement, calls: Mapping[str, tuple[float, int, int]]) -> ArmRow:
    kept = one.kept
    values = [value for process in one.processes for value in process.values]
    memory = shown.record.measurement(f"peak_memory_{one.name}") if shown.record else None
    peaks = [value for process in memory.processes for value in process.values] if memory else []
    return ArmRow(
        arm(one),
        quantity(calls[one.name][0], one.unit) if one.name in calls else "",
        len(one.processes),
        len(values),
        sum(map(len, kept)),
        f"{quantity(min(values), one.unit)} to {quantity(max(values), one.unit)}",
        _outliers(kept),
        _modes(kept),
        quantity(max(peaks), "byte") if peaks else "",
    )


def _outliers(kept: Sequence[Sequence[float]]) -> str:
    return str(sum(len(outliers(process)) for process in kept if process))


def _modes(kept: Sequence[Sequence[float]]) -> str:
    """Return in which processes the samples have more than one mode, in words."""
    several = [number for number, process in enumerate(kept, 1) if is_bimodal(process)]
    return f"several in {_numbered(several)}" if several else "one"


def _numbered(numbers: Sequence[int]) -> str:
    """Return these processes in words: process 2; processes 1 and 2."""
    return f"process{'es' if len(numbers) > 1 else ''} {series(numbers)}"


def _warmups(shown: Shown) -> str | None:
    """Return how many rounds each process took to become steady, and which never did."""
    rows = shown.seen.get("warmups") or []
    if not rows:
        return None
    never = [row["process"] + 1 for row in rows if not row["steady"]]
    told = ", ".join(str(row["rounds"]) for row in rows)
    return told if not never else f"{told}; {_numbered(never)} did not become steady"


def _rounds(shown: Shown, processes: Sequence[Process]) -> str | None:
    seen = shown.seen
    if seen.get("rounds_taken") is None:
        return None
    told = [f"{seen['rounds_taken']} taken"]
    if seen.get("rounds_disturbed") is not None:
        told.append(f"{seen['rounds_disturbed'] or 'none'} marked as disturbed")
    if seen.get("rounds_again"):
        told.append(f"{seen['rounds_again']} taken again in their place")
    counted = [
        number
        for number, process in enumerate(processes, 1)
        if any(one.disturbed and len(one.kept) == len(one.values) for one in process.values())
    ]
    if counted:
        told.append(f"too few were left in {_numbered(counted)}, so that all rounds count there")
    return ", ".join(told)


def _harness(shown: Shown, rows: Sequence[ArmRow]) -> str | None:
    cost = shown.seen.get("harness_s_per_sample")
    if cost is None or not rows:
        return None
    fastest = min((row.arm for row in rows), key=lambda one: one.centre)
    name = fastest.name.replace("_", " ")
    calls = min(shown.seen.get("calls_per_sample") or [1])
    share = quantity(100 * cost / (calls * fastest.centre), "%", 2)
    return f"{quantity(cost, 's', 2)} a sample with the sentinel, {share} of a sample of the fastest arm, {name}"


def _watch(rows: Sequence[Mapping[str, Any]]) -> Watch:
    told = [column for column in WATCHED if any(row.get(column[0]) is not None for row in rows)]
    disturbed = [
        Stretch(
            number,
            row["process"] + 1,
            _span(row["first_round"], row["rounds"]),
            row["because"],
            [_watched(row.get(name), unit) for name, _, unit in told],
        )
        for number, row in enumerate((row for row in rows if row["disturbed"]), 1)
    ]
    usual = []
    for name, _, unit in told:
        values = [row[name] for row in rows if not row["disturbed"] and row.get(name) is not None]
        usual.append(_watched(statistics.median(values) if values else None, unit))
    return Watch([title for _, title, _ in told], disturbed, usual, len(rows))


def _watched(value: float | None, unit: str) -> str:
    if value is None:
        return "—"
    if unit == "count":
        return f"{value:g}"
    return quantity(100 * value, "%", 2) if unit == "%" else quantity(value, unit)


def _span(first: int, rounds: int) -> str:
    return str(first + 1) if rounds == 1 else f"{first + 1} to {first + rounds}"


def _timeline(shown: Shown, processes: Sequence[Process], watched: Sequence[Mapping[str, Any]]) -> Markup:
    """Draw all rounds in the order they were taken: a lane an arm and one of the sentinel."""
    rounds = [max((len(one.values) for one in process.values()), default=0) for process in processes]
    starts = [sum(rounds[:place]) for place in range(len(rounds))]
    names = sorted({name for process in processes for name in process}, key=lambda name: (_colour(name), name))
    lanes = [
        figures.Lane(
            name.replace("_", " "),
            _colour(name),
            [
                figures.Span(start + number, 1, value, number in process[name].disturbed)
                for start, process in zip(starts, processes, strict=True)
                if name in process
                for number, value in enumerate(process[name].values)
            ],
        )
        for name in names
    ]
    sentinel = [
        figures.Span(starts[row["process"]] + row["first_round"], row["rounds"], row["sentinel_s"], row["disturbed"])
        for row in watched
        if row.get("sentinel_s") is not None
    ]
    if sentinel:
        lanes.append(figures.Lane("sentinel", None, sentinel))
    marks = [(starts[row["process"]] + row["first_round"], row["rounds"]) for row in watched if row["disturbed"]]
    title = f"Every round of {shown.name}"
    return figures.timeline(f"{_identity(shown)}-rounds", title, lanes, rounds, _joined(marks))


def _colour(name: str) -> int:
    """Return the number of an arm's colour, whatever the start kind."""
    return ARMS.index(name.split("_", maxsplit=1)[0])


def _joined(marks: Sequence[tuple[int, int]]) -> list[figures.Mark]:
    """Return one mark for disturbed stretches (first round, rounds) that follow one another; stretches are numbered."""
    joined: list[tuple[int, int, int, int]] = []  # first round, end, first number, last number
    for number, (first, rounds) in enumerate(marks, 1):
        if joined and joined[-1][1] == first:
            before = joined.pop()
            joined.append((before[0], first + rounds, before[2], number))
        else:
            joined.append((first, first + rounds, number, number))
    return [
        figures.Mark(first, end - first, str(one) if one == last else f"{one}\N{EN DASH}{last}")
        for first, end, one, last in joined
    ]


def _others(shown: Shown, arms: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return what was measured besides the arms: its name, its median and its range, for a reader."""
    told = {*arms, *(f"peak_memory_{name}" for name in arms)}
    return [
        (label(name), *_range(values, one.unit))
        for one in (shown.record.measurements if shown.record else [])
        if one.name not in told
        for name, values in _groups(one, shown.seen).items()
        if values
    ]


def _groups(measurement: Measurement, seen: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the values of a measurement by what they are of: first calls with a cold cache apart from warm ones."""
    caches = seen.get(f"{measurement.name}_caches") or []
    if len(caches) != len(measurement.processes):
        return {measurement.name: [value for process in measurement.processes for value in process.values]}
    groups: dict[str, list[float]] = {}
    for cache, process in zip(caches, measurement.processes, strict=True):
        groups.setdefault(f"{measurement.name}, {cache} cache", []).extend(process.values)
    return groups


def _range(values: Sequence[float], unit: str) -> tuple[str, str]:
    """Return the median of values and their range, for a reader."""
    median = quantity(statistics.median(values), unit)
    if len(values) == 1:
        return median, "1 value"
    return median, f"{quantity(min(values), unit)} to {quantity(max(values), unit)}, {len(values)} values"
