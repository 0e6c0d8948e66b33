"""What the roofline step measured, for a reader: the machine's roofs, the pattern under them, the linear layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cpulab import roofs
from cpulab.report import figures, measuring
from cpulab.report.quantities import interval, quantity
from cpulab.statistics import Interval, centre

if TYPE_CHECKING:
    from markupsafe import Markup

    from cpulab.records import Measurement
    from cpulab.report.views import Shown
    from cpulab.statistics import Processes

# In the order of the table: arms under the roof, then the roofs of the same rounds.
BOUND, ROOFS = ("eager", "preallocated", "inductor"), ("copy", "triad")
KERNELS = {
    "copy": "Copy",
    "triad": "Triad",
    "matmul_float32": "Matrix product, float32",
    "matmul_bfloat16": "Matrix product, bfloat16",
}
LINEAR = ("plain", "packed", "placebo")
NOTHING = "—"


@dataclass(frozen=True)
class Roof:
    """A roof as the table has it: what a call moves or computes, and the rate on all threads and on one, in words."""

    name: str
    amount: str
    all_threads: str
    one_thread: str


@dataclass(frozen=True)
class Under:
    """An arm under the roof: its time, the bytes of a call, its bandwidth and that as a share of the roof, in words."""

    name: str
    time: str
    moved: str
    bandwidth: str
    share: str


@dataclass(frozen=True)
class Pattern:
    """The pattern under the roof of its own rounds.

    ``factors``: the gain and its two factors; ``predicted``: the ratio by bytes alone; ``part``: the share of the
    second factor in the logarithm of the gain. ``highest``: the name of the roof.
    """

    arms: list[Under] = field(default_factory=list)
    factors: list[figures.Ratio] = field(default_factory=list)
    predicted: float | None = None
    part: str = ""
    highest: str = ""


@dataclass(frozen=True)
class Layer:
    """A linear layer plain and packed, with its arithmetic a second; in words but for the numbers of its row."""

    row: dict[str, Any]
    plain: str
    packed: str
    ratio: str
    placebo: str
    rate: str


@dataclass(frozen=True)
class Linear:
    """All linear layers of the model: the ratio of the totals and of the placebo's, and each layer by itself."""

    layers: list[Layer] = field(default_factory=list)
    ratio: figures.Ratio | None = None
    placebo: figures.Ratio | None = None
    totals: list[tuple[str, str]] = field(default_factory=list)
    calls: int = 0


def machine(shown: Shown) -> list[Roof]:
    """Return the machine's roofs, one a kernel."""
    rows = shown.seen.get("roofs") or []
    found = []
    for kernel in dict.fromkeys(row["kernel"] for row in rows):
        of_kernel = [row for row in rows if row["kernel"] == kernel]
        amount, unit = _amount(of_kernel[0])
        most = max(row["threads"] for row in of_kernel)
        rates = {row["threads"]: _rate(shown, row["arm"], amount, unit) for row in of_kernel}
        found.append(Roof(KERNELS.get(kernel, kernel), quantity(amount, unit), rates[most], rates.get(1, NOTHING)))
    return found


def pattern(shown: Shown) -> Pattern:
    """Return what each arm of the pattern reaches of the roof, and the factors of the gain."""
    moved = {row["arm"]: row["bytes"] for row in shown.seen.get("bytes_moved") or []}
    taken = {name: one for name in (*BOUND, *ROOFS) if name in moved and (one := _kept(shown, name))}
    if len(taken) < len(BOUND) + len(ROOFS):
        return Pattern()
    highest = max(ROOFS, key=lambda roof: moved[roof] / _middle(taken[roof]).estimate)
    arms = [
        Under(
            name,
            _told(_middle(samples), "s"),
            quantity(moved[name], "byte"),
            _told(roofs.rate(moved[name], _middle(samples)), "byte/s"),
            "the roof" if name == highest else _share(samples, taken[highest], moved[name] / moved[highest]),
        )
        for name, samples in taken.items()
    ]
    whole, between, part = (taken[name] for name in BOUND)
    factors = [
        measuring.ratio_of("eager / inductor", whole, part),
        measuring.ratio_of("allocation of temporaries: eager / preallocated", whole, between, colour=0),
        measuring.ratio_of("traffic: preallocated / inductor", between, part),
    ]
    predicted = moved["preallocated"] / moved["inductor"]
    try:
        told = _percent(roofs.share_of_logarithm(whole, between, part))
    except ValueError:  # one process
        told = ""
    return Pattern(arms, factors, predicted, told, highest)


def linear(shown: Shown) -> Linear:
    """Return the model's linear layers, plain over packed."""
    rows = shown.seen.get("linear_layers") or []
    samples = [{arm: _kept(shown, row[arm]) for arm in LINEAR} for row in rows]
    if not rows or not all(all(one.values()) for one in samples):
        return Linear()
    layers = [
        Layer(
            row,
            _told(_middle(one["plain"]), "s"),
            _told(_middle(one["packed"]), "s"),
            _ratio_told(one["plain"], one["packed"]),
            _ratio_told(one["placebo"], one["plain"]),
            _told(roofs.rate(row["flop"], _middle(one["packed"])), "flop/s"),
        )
        for row, one in zip(rows, samples, strict=True)
    ]
    totals = {
        arm: roofs.total([(row["calls"], one[arm]) for row, one in zip(rows, samples, strict=True)]) for arm in LINEAR
    }
    return Linear(
        layers,
        measuring.ratio_of("plain / packed, all layers", totals["plain"], totals["packed"]),
        measuring.ratio_of("placebo", totals["placebo"], totals["plain"], colour=2),
        [(arm, _told(_middle(totals[arm]), "s")) for arm in ("plain", "packed")],
        sum(row["calls"] for row in rows),
    )


def sampling(shown: Shown) -> list[tuple[str, Any]]:
    """Return how a case was sampled, as facts by name."""
    seen = shown.seen
    return [
        ("Processes", len(seen.get("attestations") or []) or None),
        ("Rounds", seen.get("rounds_taken")),
        ("Of these disturbed", seen.get("rounds_disturbed")),
        ("Why sampling stopped", measuring.STOPPED.get(str(seen.get("stopped_by")))),
    ]


def figure(of_pattern: Pattern, of_linear: Linear) -> Markup | None:
    """Draw the factors of the pattern's gain and the ratio of the linear layers on one axis."""
    groups: list[tuple[str, list[figures.Ratio]]] = []
    if of_pattern.factors:
        groups.append(("The pattern add, add, mul, add", of_pattern.factors))
    if of_linear.ratio and of_linear.placebo:
        groups.append(("All linear layers of the model", [of_linear.ratio, of_linear.placebo]))
    return figures.ratios("reasons", "Where the time goes", groups, "same speed") if groups else None


def _amount(row: dict[str, Any]) -> tuple[float, str]:
    return (row["bytes"], "byte") if row["bytes"] is not None else (row["flop"], "flop")


def _kept(shown: Shown, name: str | None) -> list[list[float]]:
    measurement: Measurement | None = shown.record.measurement(name) if shown.record and name else None
    return measurement.kept if measurement else []


def _rate(shown: Shown, arm: str, amount: float, unit: str) -> str:
    samples = _kept(shown, arm)
    return _told(roofs.rate(amount, _middle(samples)), f"{unit}/s") if samples else NOTHING


def _middle(samples: Processes) -> Interval:
    """Return the typical time; of one process without an interval, which is told as its value twice."""
    return centre(samples) if len(samples) > 1 else centre([samples[0], samples[0]])


def _ratio_told(numerator: Processes, denominator: Processes) -> str:
    found = measuring.ratio_of("", numerator, denominator)
    return interval(found.value, found.low, found.high, "ratio")


def _share(arm: Processes, roof: Processes, amounts: float) -> str:
    try:
        return _percent(roofs.share_of_roof(arm, roof, amounts=amounts))
    except ValueError:  # one process
        return NOTHING


def _told(one: Interval, unit: str) -> str:
    return interval(one.estimate, one.low, one.high, unit) if one.low < one.high else quantity(one.estimate, unit)


def _percent(share: Interval) -> str:
    return interval(100 * share.estimate, 100 * share.low, 100 * share.high, "%")
