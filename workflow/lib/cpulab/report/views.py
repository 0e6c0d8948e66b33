"""From verdicts and records to what the page shows: the outcome, findings and their evidence, op tables."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpulab.report import figures
from cpulab.report.quantities import interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from markupsafe import Markup

    from cpulab.records import Artifact, Record

LOG_LINES = 30
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
    return f"{head}; {series(rest)}."


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


def period(records: Iterable[Record]) -> tuple[str, str] | None:
    """Return the start of the first case and of the last one, in UTC; None where there is no record."""
    starts = sorted(record.start for record in records)
    return (starts[0], starts[-1]) if starts else None


def label(name: str) -> str:
    """Return the name of an observation as words: cpu_model is CPU model."""
    words = " ".join(word.upper() if word in {"cpu", "smt", "numa"} else word for word in name.split("_"))
    return words[:1].upper() + words[1:]


def series(parts: Sequence[object]) -> str:
    """Return a series in words: 1, 2 and 3."""
    words = [str(part) for part in parts]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _log_tail(record: Record | None, results: Path) -> str:
    """Return the last lines of the log that a failed record names; empty where it is gone or lies elsewhere."""
    if record is None or record.error is None:
        return ""
    log = (results / record.error.log).resolve()
    if not log.is_relative_to(results.resolve()) or not log.is_file():
        return ""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
