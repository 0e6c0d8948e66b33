"""The report's figures: small inline SVG, drawn in shares of the width so that text keeps its size on any screen.

Colours come from the page's own style sheet (classes ``arm-0``, ``arm-1``, ... and ``mark``), so that a figure follows
the reader's colour scheme and prints in black on white.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from markupsafe import Markup

from cpulab.report.quantities import interval, quantity, scale, significant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LOGARITHMIC_FROM = 6.0  # largest over smallest value from which an axis is logarithmic
ROW, BAND, AXIS = 13, 22, 34  # heights in px: a process, an arm's heading, the axis
LANE = 44  # height in px of a lane of the timeline, without its heading
MOST_NUMBERS = 16  # that stand side by side on a phone


@dataclass(frozen=True)
class Arm:
    """One arm: its samples a process in base units, its centre with the interval, and the disturbed samples' places."""

    name: str
    processes: Sequence[Sequence[float]]
    centre: float
    low: float | None
    high: float | None
    disturbed: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Ratio:
    """One ratio with its interval; ``published`` where the tutorial has the same; ``colour``: number of the arm's."""

    name: str
    value: float
    low: float | None
    high: float | None
    published: float | None = None
    colour: int = 1


@dataclass(frozen=True)
class Span:
    """A value of so many rounds from the round ``first``, and whether these were disturbed."""

    first: int
    rounds: int
    value: float
    disturbed: bool = False


@dataclass(frozen=True)
class Lane:
    """What is drawn over the rounds: an arm's samples in s, or without a ``colour`` a line."""

    name: str
    colour: int | None
    spans: Sequence[Span]


@dataclass(frozen=True)
class Mark:
    """Rounds that were disturbed, and the number by which a table tells why."""

    first: int
    rounds: int
    number: str


@dataclass(frozen=True)
class Axis:
    """A horizontal axis: where a value stands, in per cent of the width, and its ticks."""

    place: Callable[[float], float]
    ticks: list[float]
    logarithmic: bool


def axis(values: Sequence[float]) -> Axis:
    """Return an axis that holds all ``values`` with some room at both ends; logarithmic where they differ much."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOGARITHMIC_FROM:
        span = math.log(high / low)
        start, end = math.log(low) - 0.04 * span, math.log(high) + 0.04 * span
        ticks = [
            digit * 10.0**power
            for power in range(math.floor(start / math.log(10)), math.ceil(end / math.log(10)) + 1)
            for digit in (1, 2, 5)
        ]
        shown = [tick for tick in ticks if start <= math.log(tick) <= end]
        return Axis(lambda value: 100 * (math.log(value) - start) / (end - start), shown, logarithmic=True)
    span = (high - low) or abs(high) or 1.0
    first, last = low - 0.06 * span, high + 0.06 * span
    step = _nice_step((last - first) / 5)
    steps = range(math.ceil(first / step), math.floor(last / step) + 1)
    return Axis(lambda value: 100 * (value - first) / (last - first), [i * step for i in steps], logarithmic=False)


def samples(identity: str, title: str, arms: Sequence[Arm], unit: str) -> Markup:
    """Draw every sample as a dot, a line of dots a process, with the arm's centre and interval across its lines.

    Disturbed samples are crosses.
    """
    # The samples set the axis: an interval from two processes may be wider than any axis, and is cut at its ends.
    horizontal = axis([value for arm in arms for process in arm.processes for value in process])
    body: list[str] = []
    top = 0.0
    for number, arm in enumerate(arms):
        height = ROW * len(arm.processes)
        inner = top + BAND
        body.append(f'<g class="arm-{number}">')
        body.append(_text(0, top + 15, arm.name, "name"))
        body.append(_text(100, top + 15, interval(arm.centre, arm.low, arm.high, unit), "value", anchor="end"))
        if arm.low is not None and arm.high is not None:
            left, right = _cut(horizontal, arm.low), _cut(horizontal, arm.high)
            body.append(
                f'<rect class="band" x="{_share(left)}" y="{inner:g}" '
                f'width="{_share(right - left)}" height="{height}"/>'
            )
        for place, process in enumerate(arm.processes):
            y = inner + ROW * (place + 0.5)
            body.append(f'<line class="rail" x1="0%" x2="100%" y1="{y:g}" y2="{y:g}"/>')
            crosses = set(arm.disturbed[place]) if arm.disturbed else set()
            body.extend(
                _sample(horizontal.place(value), y, disturbed=number in crosses) for number, value in enumerate(process)
            )
        x = _share(horizontal.place(arm.centre))
        body.append(f'<line class="centre" x1="{x}" x2="{x}" y1="{inner - 2:g}" y2="{inner + height + 2:g}"/></g>')
        top = inner + height + 6
    body.append(_axis(horizontal, top, unit))
    described = "; ".join(
        f"{arm.name}: {interval(arm.centre, arm.low, arm.high, unit)}, "
        f"{sum(map(len, arm.processes))} samples in {len(arm.processes)} processes"
        for arm in arms
    )
    return _svg(identity, title, described, top + AXIS, body)


def timeline(identity: str, title: str, lanes: Sequence[Lane], rounds: Sequence[int], marks: Sequence[Mark]) -> Markup:
    """Draw lanes over all rounds in the order taken; ``rounds``: how many each process took, one after the other.

    Each lane has a logarithmic axis of its own, from its fastest value at the bottom to its slowest, with a line at its
    median. Processes are numbered above. Disturbed samples are crosses, and disturbed rounds a band through all lanes
    with a triangle and its number above.
    """
    total = max(1, sum(rounds))

    def place(number: float) -> float:
        return 100 * number / total

    top, bottom = 42.0, 42.0 + len(lanes) * (LANE + BAND)
    body: list[str] = []
    begins = [sum(rounds[:number]) for number in range(len(rounds))]
    every = math.ceil(len(rounds) / MOST_NUMBERS)
    for number, (begin, taken) in enumerate(zip(begins, rounds, strict=True)):
        if number:
            body.append(_upright("boundary", place(begin), 16, bottom))
        if number % every == 0:
            body.append(_text(place(begin + taken / 2), 11, str(number + 1), "tick", anchor="middle"))
    labelled = -math.inf
    for mark in marks:
        left, right = place(mark.first), place(mark.first + mark.rounds)
        middle = (left + right) / 2
        body.append(
            f'<rect class="disturbed" x="{_share(left)}" y="{top - 4:g}" width="{_share(right - left)}" '
            f'height="{bottom - top + 4:g}"/>'
            f'<svg class="sign" x="{_share(middle)}" y="{top - 6:g}" overflow="visible"><path d="M-4-5H4L0 2z"/></svg>'
        )
        if middle - labelled >= 100 / MOST_NUMBERS:
            body.append(_text(middle, top - 14, mark.number, "sign", anchor="middle"))
            labelled = middle
    for lane in lanes:
        body += _lane(lane, top, place)
        top += LANE + BAND
    told = f"{sum(rounds)} rounds of {len(rounds)} processes in the order taken"
    body.append(f'<g class="axis"><line x1="0%" x2="100%" y1="{bottom:g}" y2="{bottom:g}"/>')
    body.append(f"{_text(100, bottom + 16, told, 'unit', anchor='end')}</g>")
    described = "; ".join(
        [
            told,
            *(f"{lane.name}: {_reach(lane)}" for lane in lanes),
            f"{sum(mark.rounds for mark in marks)} rounds marked as disturbed",
        ]
    )
    return _svg(identity, title, described, bottom + 22, body)


def _lane(lane: Lane, top: float, place: Callable[[float], float]) -> list[str]:
    logarithms = [math.log(span.value) for span in lane.spans]
    kind = "watched" if lane.colour is None else f"arm-{lane.colour}"
    parts = [f'<g class="{kind}">', _text(0, top + 15, lane.name, "name")]
    parts.append(_text(100, top + 15, _reach(lane), "unit", anchor="end"))
    most = max(logarithms)
    span_of_all = most - min(logarithms)

    def height(logarithm: float) -> float:
        share = (most - logarithm) / span_of_all if span_of_all else 0.5
        return round(top + BAND + 3 + (LANE - 6) * share, 1)

    level = height(median(logarithms))
    parts.append(f'<line class="rail" x1="0%" x2="100%" y1="{level:g}" y2="{level:g}"/>')
    before: Span | None = None
    for span in lane.spans:
        y = height(math.log(span.value))
        if lane.colour is not None:
            parts.append(_sample(place(span.first + span.rounds / 2), y, disturbed=span.disturbed))
            continue
        left, right = place(span.first), place(span.first + span.rounds)
        parts.append(f'<line x1="{_share(left)}" x2="{_share(right)}" y1="{y:g}" y2="{y:g}"/>')
        if before is not None and before.first + before.rounds == span.first:
            parts.append(_upright("step", left, height(math.log(before.value)), y))
        before = span
    return [*parts, "</g>"]


def _reach(lane: Lane) -> str:
    values = [span.value for span in lane.spans]
    return f"{quantity(min(values), 's')} to {quantity(max(values), 's')}"


def _upright(kind: str, x: float, start: float, end: float) -> str:
    return f'<line class="{kind}" x1="{_share(x)}" x2="{_share(x)}" y1="{start:g}" y2="{end:g}"/>'


def _sample(x: float, y: float, *, disturbed: bool) -> str:
    if disturbed:
        return f'<svg class="cross" x="{_share(x)}" y="{y:g}" overflow="visible"><path d="M-3-3 3 3M3-3-3 3"/></svg>'
    return f'<circle cx="{_share(x)}" cy="{y:g}" r="2.7"/>'


def ratios(identity: str, title: str, groups: Sequence[tuple[str, Sequence[Ratio]]], unity: str) -> Markup:
    """Draw ratios, group by group, as points with intervals on one axis with a line at 1 (``unity``).

    Published ratios are diamonds.
    """
    rows = [row for _, group in groups for row in group]
    points = [1.0, *(value for row in rows for value in (row.value, row.published) if value is not None)]
    ends = [end for row in rows for end in (row.low, row.high) if end is not None]
    # An interval from two processes may be wider than any axis: it is cut where it would crowd the points.
    least, most = min(points) / 1.5, max(points) * 1.5
    horizontal = axis([*points, *(min(max(end, least), most) for end in ends)])
    body = []
    top = 0.0
    for name, group in groups:
        body.append(_text(0, top + 15, name, "heading"))
        told = [f"◇ published {significant(row.published)}" for row in group if row.published is not None]
        body.append(_text(100, top + 15, ", ".join(told), "unit", anchor="end"))
        top += 20
        for row in group:
            body += _ratio_row(horizontal, row, top)
            top += 32
        top += 8
    one = _share(horizontal.place(1.0))
    body.insert(0, f'<line class="unity" x1="{one}" x2="{one}" y1="0" y2="{top:g}"/>')
    body.append(_axis(horizontal, top, "ratio", note=f"1 = {unity}"))
    described = "; ".join(f"{name}, {row.name}: {_ratio_words(row)}" for name, group in groups for row in group)
    return _svg(identity, title, described, top + AXIS, body)


def _ratio_row(horizontal: Axis, row: Ratio, top: float) -> list[str]:
    y = top + 22
    parts = [f'<g class="arm-{row.colour}">', _text(0, top + 12, row.name, "name")]
    parts.append(_text(100, top + 12, interval(row.value, row.low, row.high, "ratio"), "value", anchor="end"))
    parts.append(f'<line class="rail" x1="0%" x2="100%" y1="{y:g}" y2="{y:g}"/>')
    if row.low is not None and row.high is not None:
        low, high = (_share(_cut(horizontal, end)) for end in (row.low, row.high))
        parts.append(f'<line class="whisker" x1="{low}" x2="{high}" y1="{y:g}" y2="{y:g}"/>')
    parts.append(f'<circle cx="{_share(horizontal.place(row.value))}" cy="{y:g}" r="4"/></g>')
    if row.published is not None:
        parts.append(
            f'<svg class="mark" x="{_share(horizontal.place(row.published))}" y="{y:g}" overflow="visible">'
            '<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/></svg>'
        )
    return parts


def _ratio_words(row: Ratio) -> str:
    words = interval(row.value, row.low, row.high, "ratio")
    return words if row.published is None else f"{words}, published {significant(row.published)}"


def steps(identity: str, title: str, rows: Sequence[tuple[str, int]]) -> Markup:
    """Draw a shrinking count as one bar a step: (what was done, what was left)."""
    if not rows:
        return Markup()
    most = max(count for _, count in rows) or 1
    body: list[str] = []
    top = 0.0
    for name, count in rows:
        body.append(f'<g class="arm-1">{_text(0, top + 13, name, "name")}')
        body.append(_text(100, top + 13, str(count), "value", anchor="end"))
        width = 100 * count / most
        body.append(f'<rect class="bar" x="0%" y="{top + 19:g}" width="{_share(width)}" height="8"/>')
        # Gaps that make the bar countable, one square a node.
        body.extend(
            f'<line class="gap" x1="{_share(100 * unit / most)}" x2="{_share(100 * unit / most)}" '
            f'y1="{top + 18:g}" y2="{top + 28:g}"/>'
            for unit in range(1, count)
            if most <= 40
        )
        body.append("</g>")
        top += 36
    described = ", then ".join(f"{name}: {count}" for name, count in rows)
    return _svg(identity, title, described, top, body)


def share_bar(share: float) -> Markup:
    """Return a bar that fills ``share`` (0 to 1) of its cell; the number stands beside it, so it needs no words."""
    width = _share(100 * min(max(share, 0.0), 1.0))
    return Markup('<svg class="share" aria-hidden="true" height="9"><rect width="{}" height="9"/></svg>').format(width)


def _axis(horizontal: Axis, top: float, unit: str, note: str = "") -> str:
    largest = max(horizontal.ticks, key=abs, default=1.0)
    name, size = scale(largest, unit)
    step = abs(horizontal.ticks[1] - horizontal.ticks[0]) / size if len(horizontal.ticks) > 1 else 1.0
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if not horizontal.logarithmic else None
    parts = [f'<g class="axis"><line x1="0%" x2="100%" y1="{top:g}" y2="{top:g}"/>']
    for tick in horizontal.ticks:
        x = _share(horizontal.place(tick))
        label = f"{tick / size:.{decimals}f}" if decimals is not None else significant(tick / size, 1)
        parts.append(f'<line x1="{x}" x2="{x}" y1="{top:g}" y2="{top + 4:g}"/>')
        parts.append(_text(horizontal.place(tick), top + 16, label, "tick", anchor="middle"))
    words = ", ".join(word for word in (name, "logarithmic" if horizontal.logarithmic else "", note) if word)
    parts.append(_text(100, top + 30, words, "unit", anchor="end"))
    return "".join(parts) + "</g>"


def _cut(horizontal: Axis, value: float) -> float:
    """Return where ``value`` stands, no farther than the axis reaches."""
    if not math.isfinite(value):
        return 100.0
    return 0.0 if value <= 0 else min(max(horizontal.place(value), 0.0), 100.0)


def _nice_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= rough * 0.999))


def _text(x: float, y: float, words: str, kind: str, *, anchor: str = "start") -> str:
    return str(
        Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
            kind, _share(x), f"{y:g}", anchor, words
        )
    )


def _share(value: float) -> str:
    return f"{value:.2f}%"


def _svg(identity: str, title: str, description: str, height: float, body: Sequence[str]) -> Markup:
    head = Markup(
        '<svg class="figure" role="img" aria-labelledby="{0}-t {0}-d" width="100%" height="{1}">'
        '<title id="{0}-t">{2}</title><desc id="{0}-d">{3}</desc>'
    ).format(identity, f"{height:g}", title, description)
    return head + Markup("".join(body)) + Markup("</svg>")  # noqa: S704 - every text in body went through _text
