"""From verdicts and records to what the page shows: the outcome, findings and their evidence, ratios, op tables."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cpulab.report import figures
from cpulab.report.quantities import interval, quantity
from cpulab.statistics import centre, placebo_between_processes, ratio_between_processes, ratio_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from cpulab.records import Artifact, Measurement, Record
    from cpulab.statistics import Interval

LOG_LINES = 30
ARMS = ("eager", "inductor", "placebo")
UNTUNED = {
    "openmp_runtime": "OpenMP runtime, untuned",
    "malloc": "malloc, untuned",
    "torch_threads": "Threads, untuned",
    "cpus": "CPUs of each thread, untuned",
    "memory_policy": "Memory policy, untuned",
}
RECORD_NAME = re.compile(r"[a-z0-9_]+/[a-z0-9_]+")


@dataclass(frozen=True)
class State:
    """A state of a verdict as it is shown: its word, its symbol (never colour alone) and what it means."""

    key: str
    word: str
    symbol: str
    meaning: str


STATES = {
    state.key: state
    for state in (
        State("reproduced", "reproduced", "✓", "the finding holds here"),
        State("partly", "partly", "≈", "right direction, other size or detail"),
        State("not_reproduced", "not reproduced", "✗", "the finding does not hold here"),
        State("inconclusive", "inconclusive", "?", "not measured, or not resolved from the noise"),
        State("not_applicable", "not applicable", "\N{EN DASH}", "this machine or version has no such thing"),
        State("blocked", "blocked", "!", "the step that would show it failed or did not run"),
    )
}


@dataclass(frozen=True)
class Shown:
    """A case as the page shows it: its record, if there is one, and what it observed (nothing where it failed)."""

    name: str
    record: Record | None
    log_tail: str

    @property
    def anchor(self) -> str:
        """The id of its row in the table of records."""
        return "record-" + self.name.replace("/", "-")

    @property
    def seen(self) -> Mapping[str, Any]:
        """Its observations; empty where there is no record or the step failed."""
        return self.record.observations if self.record else {}

    @property
    def complete(self) -> bool:
        """Whether the step came to its end."""
        return self.record is not None and self.record.error is None

    def artifacts(self, *kinds: str) -> list[Artifact]:
        """Return its kept files of these kinds."""
        return [one for one in self.record.artifacts if one.kind in kinds] if self.record else []


@dataclass(frozen=True)
class Link:
    """A piece of evidence: where it stands relative to the results folder (None: not there), and its name."""

    name: str
    target: str | None


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its arms, the ratio with its interval, that of the placebo, and the figure of all samples."""

    shown: Shown
    arms: list[figures.Arm]
    ratio: figures.Ratio | None
    placebo: figures.Ratio | None
    figure: Markup | None
    others: list[tuple[str, str, str]]

    @property
    def ratios(self) -> list[figures.Ratio]:
        """Those that there are."""
        return [one for one in (self.ratio, self.placebo) if one is not None]


@dataclass(frozen=True)
class Worth:
    """What the tuned environment is worth to one arm: its times without and with it, their ratio and its placebo."""

    name: str
    untuned: figures.Arm
    tuned: figures.Arm
    ratio: figures.Ratio
    placebo: figures.Ratio | None


@dataclass(frozen=True)
class Tuning:
    """A benchmark of processes started untuned and tuned: the arms, and what was in force in the untuned ones."""

    shown: Shown
    arms: list[Worth]
    untuned: list[tuple[str, list[Any]]]
    others: list[tuple[str, str, str]]

    @property
    def ratios(self) -> list[figures.Ratio]:
        """Those of the arms, then their placebos."""
        return [one.ratio for one in self.arms] + [one.placebo for one in self.arms if one.placebo is not None]


@dataclass(frozen=True)
class Line:
    """A line of C++ and what stands behind it: the FX node, the IR operation, the ATen operator; ``mark``: words."""

    number: int
    text: str
    fx: str | None
    ir: str | None
    aten: str | None
    mark: str | None

    @property
    def linked(self) -> bool:
        """Whether anything is known to stand behind it."""
        return any((self.fx, self.ir, self.aten))


@dataclass(frozen=True)
class LadderRow:
    """One case on the ladder: its rung for each backend, None where that backend was not run."""

    shown: Shown
    rungs: list[Mapping[str, Any] | None]


@dataclass(frozen=True)
class Ladder:
    """The ladder of all cases: a rung a backend that shows what it runs, the rows, and the cases without one."""

    backends: list[Mapping[str, Any]]
    rows: list[LadderRow]
    gaps: list[Shown]


@dataclass(frozen=True)
class Count:
    """Calls of one operation: as published, here in the published variant, and in today's default."""

    name: str
    published: int
    here: int | None
    today: int | None

    @property
    def difference(self) -> str:
        """Here less published, with its sign; empty where nothing was counted."""
        return "" if self.here is None else f"{self.here - self.published:+d}" if self.here != self.published else "0"


def cases(records: Mapping[str, Record], verdicts: Mapping[str, Any], results: Path) -> dict[str, Shown]:
    """Return every case there is a record of, and every one that a claim names as its evidence."""
    named = [
        name
        for claim in verdicts["claims"]
        for verdict in (claim, claim["today"])
        if verdict
        for name in verdict["evidence"]
        if RECORD_NAME.fullmatch(name)
    ]
    names = dict.fromkeys([*named, *records])
    return {name: Shown(name, records.get(name), _log_tail(records.get(name), results)) for name in names}


def tally(claims: Sequence[Mapping[str, Any]]) -> list[tuple[State, int]]:
    """Return how many claims are in each state, in the states' order of goodness."""
    counts = Counter(claim["state"] for claim in claims)
    return [(state, counts[state.key]) for state in STATES.values()]


def outcome(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return the outcome in one sentence."""
    counts = Counter(claim["state"] for claim in claims)
    total = len(claims)
    parts = [
        (counts["partly"], "{} hold in part", "{} holds in part"),
        (counts["not_reproduced"], "{} do not hold", "{} does not hold"),
        (counts["not_applicable"], "{} have no counterpart here", "{} has no counterpart here"),
        (counts["inconclusive"], "{} cannot be decided", "{} cannot be decided"),
        (counts["blocked"], "{} are blocked", "{} is blocked"),
    ]
    rest = [(one if number == 1 else many).format(number) for number, many, one in parts if number]
    holds = counts["reproduced"]
    head = f"{holds} of the tutorial's {total} findings {'holds' if holds == 1 else 'hold'} on this machine"
    if holds == total:
        head = f"All {total} of the tutorial's findings hold on this machine"
    if not rest:
        return f"{head}."
    return f"{head}; {_series(rest)}."


def sections(claims: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Return the claims by section, both in the tutorial's order."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for claim in claims:
        found.setdefault(claim["section"], []).append(claim)
    return found


def evidence(names: Iterable[str], shown: Mapping[str, Shown]) -> list[Link]:
    """Return links to evidence: records by name, anything else by its path."""
    links = []
    for name in names:
        if name == "environment":
            links.append(Link(name, "environment.json"))
        elif name in shown:
            links.append(Link(name, f"{name}.json" if shown[name].record else None))
        else:
            links.append(Link(name, name))
    return links


def failures(names: Iterable[str], shown: Mapping[str, Shown]) -> list[Shown]:
    """Return those of the named cases that failed, were refused or have no record."""
    return [shown[name] for name in names if name in shown and not shown[name].complete]


def measured(verdict: Mapping[str, Any], unit: str | None) -> str:
    """Return what was measured, for a reader: a number with its interval, or words."""
    value = verdict["measured"]
    if value is None:
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return interval(value, verdict["low"], verdict["high"], unit)
    return str(value)


def benchmark(shown: Shown, published: float | None) -> Benchmark:
    """Return a benchmark's arms and ratios; ``published``: the tutorial's ratio eager / inductor."""
    record = shown.record
    taken = {name: one for name in ARMS if record and (one := record.measurement(name)) and _values(one)}
    arms = [_arm(measurement) for measurement in taken.values()]
    identity = shown.name.replace("/", "-")
    figure = figures.samples(identity, f"Every sample of {shown.name}", arms, "s") if arms else None
    ratio = placebo = None
    if "eager" in taken and "inductor" in taken:
        ratio = _ratio("eager / inductor", taken["eager"], taken["inductor"], published)
    if "eager" in taken and "placebo" in taken:
        placebo = replace(_ratio("placebo", taken["eager"], taken["placebo"], None), colour=2)
    return Benchmark(shown, arms, ratio, placebo, figure, _others(shown, ARMS))


def tuning(shown: Shown) -> Tuning:
    """Return what the tuned environment is worth to each arm of a benchmark of both start kinds."""
    record = shown.record
    arms, names = [], []
    for colour, arm in enumerate(("eager", "inductor")):
        names += [f"{arm}_untuned", f"{arm}_tuned"]
        untuned, tuned = (record.measurement(name) if record else None for name in names[-2:])
        if untuned and tuned and _values(untuned) and _values(tuned):
            ratio = _ratio(arm, untuned, tuned, None, ratio_between_processes)
            try:
                noise = placebo_between_processes(_samples(untuned), _samples(tuned))
                placebo = figures.Ratio(f"placebo of {arm}", *noise, colour=2)
            except ValueError:  # one pair, or half a block
                placebo = None
            arms.append(Worth(arm, _arm(untuned), _arm(tuned), replace(ratio, colour=colour), placebo))
    rows = shown.seen.get("untuned") or []
    in_force = [(words, list(dict.fromkeys(row[column] for row in rows))) for column, words in UNTUNED.items()]
    return Tuning(shown, arms, in_force, _others(shown, names))


def published_ratio(name: str, claims: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the ratio that the tutorial publishes of the benchmark ``name``, from the claim that rests on it alone."""
    for claim in claims:
        value = claim["published"]["value"]
        rests = [one for one in claim["evidence"] if RECORD_NAME.fullmatch(one)]
        if claim["published"]["unit"] == "ratio" and rests == [name] and isinstance(value, (int, float)):
            return float(value)
    return None


def by_self_time(ops: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return op rows, the most expensive first."""
    return sorted(ops, key=lambda op: (-op["self_s"], op["name"]))


def kernel_lines(
    lines: Sequence[str], links: Iterable[Mapping[str, Any]], marks: Mapping[str | None, str] | None = None
) -> list[Line]:
    """Return C++ lines with what stands behind them. ``marks``: a line's text -> words to mark it with.

    A link is shown where both its number and its text are the line's: the same statement may stand in a loop and in
    what is left over after it, for different nodes. Empty lines at both ends are left out.
    """
    behind = {(link["line"], link["cpp"].strip()): link for link in links}
    words = {text.strip(): mark for text, mark in (marks or {}).items() if text}
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        link = behind.get((number, text), {})
        found.append(Line(number, line.rstrip(), link.get("fx"), link.get("ir"), link.get("aten"), words.get(text)))
    while found and not found[0].text:
        del found[0]
    while found and not found[-1].text:
        del found[-1]
    return found


def ladder(shown: Iterable[Shown]) -> Ladder:
    """Return the backend ladder of every case that climbed it, and the cases that should have and did not."""
    climbed = list(shown)
    rows = [one for one in climbed if one.seen.get("ladder")]
    backends = {rung["backend"]: rung for one in reversed(rows) for rung in one.seen["ladder"]}
    names = dict.fromkeys(rung["backend"] for one in rows for rung in one.seen["ladder"])
    return Ladder(
        [backends[name] for name in names],
        [
            LadderRow(one, [next((r for r in one.seen["ladder"] if r["backend"] == name), None) for name in names])
            for one in rows
        ],
        [one for one in climbed if not one.complete],
    )


def minifier_figure(shown: Shown) -> Markup | None:
    """Draw the graph's size at the start and after each step that made it smaller."""
    seen = shown.seen
    if not seen.get("node_counts"):
        return None
    succeeded = [step for step in seen.get("steps") or [] if step["success"]]
    names = [f"{step['strategy']}, {step['inputs_before']} inputs before" for step in succeeded]
    first, *rest = seen["node_counts"]
    rows = [("Start", first), *zip(names, rest, strict=False)]
    return figures.steps("minifier-steps", "Nodes of the graph, step by step", rows)


def ratio_figure(benchmarks: Iterable[Benchmark | Tuning], titles: Mapping[str, str]) -> Markup | None:
    """Draw the ratios of every benchmark, and their placebos', on one axis."""
    shown = [(titles[one.shown.name], one.ratios) for one in benchmarks if one.ratios]
    return figures.ratios("ratios", "Ratios of times", shown, "same speed") if shown else None


def call_counts(published: Mapping[str, int], here: Shown, today: Shown) -> list[Count]:
    """Return the calls of each operation whose count is published, here in both variants."""
    counted = [{op["name"]: op["calls"] for op in one.seen.get("ops") or []} for one in (here, today)]
    return [
        Count(
            name,
            count,
            counted[0].get(name, 0) if here.complete else None,
            counted[1].get(name, 0) if today.complete else None,
        )
        for name, count in published.items()
    ]


def period(records: Iterable[Record]) -> tuple[str, str] | None:
    """Return the start of the first case and of the last one, in UTC; None where there is no record."""
    starts = sorted(record.start for record in records)
    return (starts[0], starts[-1]) if starts else None


def label(name: str) -> str:
    """Return the name of an observation as words: cpu_model is CPU model."""
    words = " ".join(word.upper() if word in {"cpu", "smt", "numa"} else word for word in name.split("_"))
    return words[:1].upper() + words[1:]


def _series(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _values(measurement: Measurement) -> list[float]:
    return [value for process in measurement.processes for value in process.values]


def _samples(measurement: Measurement) -> list[list[float]]:
    return [process.values for process in measurement.processes]


def _arm(measurement: Measurement) -> figures.Arm:
    samples = _samples(measurement)
    try:
        middle = centre(samples)
    except ValueError:  # one process: a middle, but no interval
        return figures.Arm(measurement.name, samples, statistics.median(_values(measurement)), None, None)
    return figures.Arm(measurement.name, samples, middle.estimate, middle.low, middle.high)


def _ratio(
    name: str,
    numerator: Measurement,
    denominator: Measurement,
    published: float | None,
    statistic: Callable[..., Interval] = ratio_interval,
) -> figures.Ratio:
    try:
        ratio = statistic(_samples(numerator), _samples(denominator))
    except ValueError:
        value = statistics.median(_values(numerator)) / statistics.median(_values(denominator))
        return figures.Ratio(name, value, None, None, published)
    return figures.Ratio(name, ratio.estimate, ratio.low, ratio.high, published)


def _others(shown: Shown, arms: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return what was measured besides the arms: its name, its median and its range, for a reader."""
    return [
        (label(name), *_range(values, one.unit))
        for one in (shown.record.measurements if shown.record else [])
        if one.name not in arms
        for name, values in _groups(one, shown.seen).items()
        if values
    ]


def _groups(measurement: Measurement, seen: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the values of a measurement by what they are of: first calls with a cold cache apart from warm ones."""
    caches = seen.get(f"{measurement.name}_caches") or []
    if len(caches) != len(measurement.processes):
        return {measurement.name: _values(measurement)}
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


def _log_tail(record: Record | None, results: Path) -> str:
    """Return the last lines of the log that a failed record names; empty where it is gone or lies elsewhere."""
    if record is None or record.error is None:
        return ""
    log = (results / record.error.log).resolve()
    if not log.is_relative_to(results.resolve()) or not log.is_file():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
