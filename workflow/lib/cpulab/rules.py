"""The rules a claim can be judged by: each takes a claim and the records of one variant, and finds a state.

No rule knows a tutorial: published values, tolerances and causes are parameters, and come from the claims file. They
have been checked against workflow/schemas/claims.schema.json, which describes them, before a rule sees them.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, get_args

from cpulab import roofs
from cpulab.claims import ENVIRONMENT
from cpulab.statistics import (
    Interval,
    centre,
    detectable,
    is_resolved,
    noise_floor,
    placebo_between_processes,
    ratio_between_processes,
    ratio_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cpulab.claims import Claim
    from cpulab.records import Record, Scalar

State = Literal["reproduced", "partly", "not_reproduced", "inconclusive", "not_applicable", "blocked"]

# In order of goodness.
STATES: tuple[State, ...] = get_args(State)

# Seconds are what a record holds; a claim may be published in parts of them.
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6}

# A value longer than this is cut in a reason; the record has it whole.
SHOWN = 160


@dataclass(frozen=True)
class Finding:
    """What a rule found: the state, the value with its interval in the published unit, the reason in one sentence."""

    state: State
    measured: Scalar
    reason: str
    low: float | None = None
    high: float | None = None


class Unanswerable(Exception):
    """The records do not hold what a rule asks for; ``finding`` says why."""

    def __init__(self, state: State, reason: str) -> None:
        super().__init__(reason)
        self.finding = Finding(state, None, reason)


@dataclass(frozen=True)
class Evidence:
    """The records of one variant by the claim's roles, and the environment they were made under."""

    records: Mapping[str, Record]
    environment: Mapping[str, Any]

    def observed(self, reference: str) -> Any:
        """Return the observation ``role.name``.

        Raises:
            Unanswerable: the record does not hold it.

        """
        where, observations, name = self._holder(reference)
        if name not in observations:
            raise Unanswerable("blocked", f"{where} holds no observation {name!r}.")
        return observations[name]

    def samples(self, reference: str) -> list[list[float]]:
        """Return the samples that count of the measurement ``role.name``, process by process.

        Raises:
            Unanswerable: the record does not hold it.

        """
        role, _, name = reference.partition(".")
        measurement = self.records[role].measurement(name)
        if measurement is None:
            raise Unanswerable("blocked", f"The record {self.records[role].name} holds no measurement {name!r}.")
        return measurement.kept

    def select(self, selector: Mapping[str, Any]) -> Any:
        """Return what a selector selects: an observation, of it some rows, of these a column, and that reduced.

        Raises:
            Unanswerable: there is no such observation or column, or it is no table.

        """
        value = self.observed(selector["of"])
        if "rows" in selector:
            value = [row for row in self._table(selector, value) if _row_fits(row, selector["rows"])]
        if "column" in selector:
            value = [row[selector["column"]] for row in self._table(selector, value, selector["column"])]
        return REDUCTIONS[selector["reduce"]](value) if "reduce" in selector else value

    def rows(self, selector: Mapping[str, Any], *columns: str) -> list[dict[str, Any]]:
        """Return the rows that a selector without a column selects.

        Raises:
            Unanswerable: it is no table with these columns.

        """
        return self._table(selector, self.select(selector), *columns)

    def items(self, selector: Mapping[str, Any]) -> list[Any]:
        """Return the list that a selector selects.

        Raises:
            Unanswerable: it is no list.

        """
        value = self.select(selector)
        if not isinstance(value, list):
            raise self._unlike(selector, value, "a list")
        return value

    def _table(self, selector: Mapping[str, Any], value: Any, *columns: str) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise self._unlike(selector, value, "a table")
        for column in columns:
            if not all(column in row for row in value):
                raise self._unlike(selector, value, f"a table with the column {column!r}")
        return value

    def _unlike(self, selector: Mapping[str, Any], value: Any, wanted: str) -> Unanswerable:
        where, _, name = self._holder(selector["of"])
        return Unanswerable("blocked", f"{where} holds {shown(value)} as {name!r}, not {wanted}.")

    def _holder(self, reference: str) -> tuple[str, Mapping[str, Any], str]:
        role, _, name = reference.partition(".")
        if role == ENVIRONMENT:
            return "The environment record", self.environment, name
        return f"The record {self.records[role].name}", self.records[role].observations, name


def _row_fits(row: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(
        isinstance(row.get(column), str) and re.fullmatch(value, row[column]) is not None
        if isinstance(value, str)
        else same(row.get(column), value)
        for column, value in wanted.items()
    )


REDUCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "count": len,
    "distinct": lambda values: len(set(values)),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}


def same(one: Any, other: Any) -> bool:
    """Tell whether two values of a record are equal; true is not 1, and lists are equal item by item."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def fits(check: Mapping[str, Any], value: Any) -> bool:
    """Tell whether ``value`` is as the one operator in ``check`` wants it."""
    operator = next(name for name in OPERATORS if name in check)
    return OPERATORS[operator](value, check[operator])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _found(pattern: str, text: Any) -> bool:
    return isinstance(text, str) and re.search(pattern, text) is not None


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "is": same,
    "contains": lambda value, items: isinstance(value, list) and all(item in value for item in items),
    "lacks": lambda value, items: isinstance(value, list) and not any(item in value for item in items),
    "matches": lambda value, pattern: any(
        _found(pattern, item) for item in (value if isinstance(value, list) else [value])
    ),
    "every": lambda value, pattern: (
        isinstance(value, list) and value != [] and all(_found(pattern, item) for item in value)
    ),
    "at_least": lambda value, least: _is_number(value) and value >= least,
    "at_most": lambda value, most: _is_number(value) and value <= most,
}


# --- words ---------------------------------------------------------------------------------------


def words(value: Any) -> str:
    """Return a value of a record as words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(words, value)) if value else "none"
    if isinstance(value, dict):
        return " ".join(f"{key} {words(item)}" for key, item in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    return "nothing" if value is None else " ".join(str(value).split())


def shown(value: Any) -> str:
    """Return a value of a record as words for a reason, cut where they are many."""
    text = words(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rstrip()} ..."


def scalar(value: Any) -> Scalar:
    """Return a value of a record as one that a verdict can show: a list becomes its words."""
    return value if value is None or isinstance(value, bool | int | float | str) else words(value)


def sentence(*clauses: str) -> str:
    """Join clauses to one sentence; empty ones are left out."""
    text = "; ".join(clause for clause in clauses if clause)
    return f"{text[0].upper()}{text[1:]}."


def _also(claim: Claim, evidence: Evidence) -> str:
    """Return the clause of the values that the claim wants told."""
    return ", ".join(
        f"{name}: {shown(evidence.select(selector))}" for name, selector in claim.parameters.get("show", {}).items()
    )


# --- rules ---------------------------------------------------------------------------------------


def holds(claim: Claim, evidence: Evidence) -> Finding:
    """Make every check; the worst state that a failing one names counts, and not_reproduced when none holds."""
    checks = claim.parameters["checks"]
    values = [evidence.select(check) for check in checks]
    failing = [(check, value) for check, value in zip(checks, values, strict=True) if not fits(check, value)]
    holding = [check for check, value in zip(checks, values, strict=True) if fits(check, value)]
    state: State = max(
        (check.get("otherwise", "not_reproduced") for check, _ in failing), key=STATES.index, default=STATES[0]
    )
    if not holding and state == "partly":
        state = "not_reproduced"
    measured: Any = f"{len(holding)} of {len(checks)}"
    if "measured" in claim.parameters:
        measured = evidence.select(claim.parameters["measured"])
    elif len(checks) == 1:
        measured = values[0]
    others = ", ".join(f"{check['words']} (found: {shown(value)})" for check, value in failing)
    told = ", ".join(check["words"] for check in holding)
    return Finding(
        state,
        scalar(measured),
        sentence(
            f"does not hold: {others}" if others else "",
            f"holds: {told}" if told else "",
            _also(claim, evidence),
        ),
    )


def same_items(claim: Claim, evidence: Evidence) -> Finding:
    """Compare a list with the published items, and their order where that is claimed; name missing and extra ones."""
    published = claim.parameters["items"]
    found = evidence.items(claim.parameters["list"])
    missing = list((Counter(published) - Counter(found)).elements())
    extra = list((Counter(found) - Counter(published)).elements())
    disordered = claim.parameters["ordered"] and not missing and not extra and found != published
    state: State = "reproduced"
    if len(missing) == len(published):
        state = "not_reproduced"
    elif missing or disordered:
        state = "partly"
    elif extra:
        state = claim.parameters["extra"]
    return Finding(
        state,
        scalar(found),
        sentence(
            f"{len(published) - len(missing)} of the {len(published)} published are there",
            f"missing: {shown(missing)}" if missing else "",
            f"not published: {shown(extra)}" if extra else "",
            f"in another order: {shown(found)}" if disordered else "",
            _also(claim, evidence),
        ),
    )


def counts(claim: Claim, evidence: Evidence) -> Finding:
    """Compare count by count: all equal, at least half of them, or fewer; tell each difference with its cause."""
    key, column = claim.parameters["key"], claim.parameters["count"]
    found: Counter[str] = Counter()
    for row in evidence.rows(claim.parameters["table"], key, column):
        found[row[key]] += row[column]
    published = claim.parameters["published"]
    causes = {(cause["name"], cause["found"]): cause["because"] for cause in claim.parameters["causes"]}
    differences = [
        f"{name} {found[name]} instead of {count} ({causes.get((name, found[name]), 'no cause known')})"
        for name, count in published.items()
        if found[name] != count
    ]
    equal = len(published) - len(differences)
    state: State = "not_reproduced"
    if not differences:
        state = "reproduced"
    elif 2 * equal >= len(published):
        state = "partly"
    return Finding(
        state,
        f"{equal} of {len(published)}",
        sentence(f"{equal} of {len(published)} counts are as published", ", ".join(differences)),
    )


def equal_between(claim: Claim, evidence: Evidence) -> Finding:
    """Compare two counts, whatever they are."""
    left, right = (evidence.select(claim.parameters[side]) for side in ("left", "right"))
    names = claim.parameters["left_name"], claim.parameters["right_name"]
    reason = sentence(f"{names[0]}: {shown(left)}, {names[1]}: {shown(right)}")
    if not left:
        return Finding(claim.parameters["if_absent"], scalar(left), reason)
    return Finding("reproduced" if same(left, right) else "not_reproduced", scalar(left), reason)


def ranking(claim: Claim, evidence: Evidence) -> Finding:
    """Compare the rows with the greatest values with the published ones: the order, else the set, else how many.

    The order is that of the sums over all steps, and it is the published one only where each step has it too.
    """
    key, by, each = (claim.parameters[column] for column in ("key", "by", "each"))
    published, leave_out = claim.parameters["published"], claim.parameters["leave_out"]
    table = evidence.rows(claim.parameters["table"], key, by, each)
    total = sum(row[by] for row in table)
    rows = [row for row in table if leave_out is None or re.search(leave_out, row[key]) is None]
    sums = _ranked(rows, key, by)
    names = list(sums)[: len(published)]
    orders = [list(_ranked([row for row in rows if row[each] == step], key, by)) for step in _distinct(table, each)]
    differing = [order for order in orders if order[: len(published)] != names]
    missing = [name for name in published if name not in names]
    state: State = "not_reproduced"
    if names == published and not differing:
        state = "reproduced"
    elif len(published) - len(missing) >= claim.parameters["enough"]:
        state = "partly"
    measured = ", ".join(f"{name} {100 * sums[name] / total:.2f} %" for name in names)
    return Finding(
        state,
        measured,
        sentence(
            f"{'in the published order' if names == published else 'not in the published order'}: {measured}",
            f"not among the first {len(published)}: {shown(missing)}" if missing else "",
            f"in another order in {len(differing)} of {len(orders)} steps" if differing else "",
        ),
    )


def _ranked(rows: list[dict[str, Any]], key: str, by: str) -> dict[str, float]:
    """Return the sums of a column by the names in another, the greatest first."""
    sums: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        sums[row[key]] += row[by]
    return dict(sorted(sums.items(), key=lambda one: -one[1]))


def _distinct(rows: list[dict[str, Any]], column: str) -> list[Any]:
    return list(dict.fromkeys(row[column] for row in rows))


def ratio(claim: Claim, evidence: Evidence) -> Finding:
    """Judge a ratio: its direction, resolved by the interval and beyond the placebo's noise floor; then its size.

    The size is reproduced only by an interval as narrow as the claim asks for: a wide one holds many values.
    """
    numerator, denominator, placebo = (
        evidence.samples(claim.parameters[part]) for part in ("numerator", "denominator", "placebo")
    )
    interval = _interval(ratio_interval, numerator, denominator)
    # The placebo is the numerator's arm again: whatever it differs by is noise.
    why = _unresolved(interval, _interval(ratio_interval, placebo, numerator))
    if why:
        why += f"; four of five such runs would find {_percent(detectable(numerator, denominator))}"
    published, tolerance = claim.published["value"], claim.parameters["tolerance"]
    state: State
    if why:
        state = "inconclusive"
    elif (interval.estimate > 1) != (published > 1):
        state, why = "not_reproduced", f"the other direction than the published {published:.3f}"
    elif not _is_near(published, interval, tolerance):
        state, why = "partly", f"the published direction, another size than the published {published:.3f}"
    elif interval.half_width > claim.parameters["precision"]:
        state, why = "partly", f"the published direction; the interval is too wide to tell the size {published:.3f}"
    else:
        state, why = "reproduced", f"the published {published:.3f} is within {_percent(tolerance)} of the interval"
    told = f"{interval.estimate:.3f} (95 % interval {interval.low:.3f} to {interval.high:.3f})"
    return Finding(state, interval.estimate, sentence(told, why), interval.low, _finite(interval.high))


def speed_ups(claim: Claim, evidence: Evidence) -> Finding:
    """Judge what one change makes of several arms, each sampled by processes with it and without it.

    All faster is reproduced; some of them partly, whatever the others are; none, and one slower, not_reproduced. Faster
    and slower: resolved by the interval and beyond the noise between processes.
    """
    found, told, ratios = [], [], []
    for arm in claim.parameters["arms"]:
        samples = evidence.samples(arm["numerator"]), evidence.samples(arm["denominator"])
        interval = _interval(ratio_between_processes, *samples)
        unresolved = _unresolved(interval, _interval(placebo_between_processes, *samples))
        found.append(unresolved or ("faster" if interval.estimate > 1 else "slower"))
        told.append(f"{arm['words']} {interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f}), {found[-1]}")
        ratios.append(f"{arm['words']} {interval.estimate:.2f}")
    state: State = "inconclusive"
    if set(found) == {"faster"}:
        state = "reproduced"
    elif "faster" in found:
        state = "partly"
    elif "slower" in found:
        state = "not_reproduced"
    head = f"{claim.parameters['words']}, with its 95 % interval: {told[0]}"
    return Finding(state, ", ".join(ratios), sentence(head, *told[1:], _also(claim, evidence)))


def _unresolved(interval: Interval, noise: Interval) -> str:
    """Return why a ratio is not told from 1, given the placebo's; empty where it is."""
    if interval.holds(1):
        return "the interval does not tell it from 1"
    if not is_resolved(interval, noise):
        return f"no more than the noise: the placebo pair may differ by {_percent(noise_floor(noise))}"
    return ""


def _interval(statistic: Callable[..., Interval], *arms: list[Any]) -> Interval:
    try:
        return statistic(*arms)
    except ValueError as error:
        raise Unanswerable("inconclusive", sentence(f"the samples give no interval: {error}")) from error


def _is_near(published: float, interval: Interval, tolerance: float) -> bool:
    return interval.low * (1 - tolerance) <= published <= interval.high * (1 + tolerance)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def quotient(claim: Claim, evidence: Evidence) -> Finding:
    """Judge a quotient of two arms' profiled steps: its direction, beyond what such steps resolve; then its size.

    The steps of an arm come from one process, so that they are no replicates and give no interval. What they give is a
    range: from the shortest step of one arm over the longest of the other to the longest over the shortest. Besides
    there is what no step resolves: the claim's own bound, or what the samples of one arm differ by here where that is
    more. The size is compared with the published value or its range, as in `ratio`.
    """
    parts = [claim.parameters[part] for part in ("numerator", "denominator")]
    above, below = (_steps(evidence, part, claim.parameters["each"], claim.parameters["by"]) for part in parts)
    told = ", ".join(f"{part['words']}: {_milliseconds(one)}" for part, one in zip(parts, (above, below), strict=True))
    if not above or not below or min([*above, *below]) <= 0:
        return Finding(claim.parameters["if_absent"], None, sentence(told, "so there is no quotient"))
    steps = Interval(median(above) / median(below), min(above) / max(below), max(above) / min(below))
    published, tolerance = claim.published["value"], claim.parameters["tolerance"]
    low, high = claim.published.get("low", published), claim.published.get("high", published)
    resolution = max(claim.parameters["resolution"], _spread(evidence.samples(claim.parameters["noise"])))
    state: State
    if steps.holds(1):
        state, why = "inconclusive", "the steps do not tell it from 1"
    elif abs(math.log(steps.estimate)) <= math.log1p(resolution):
        state, why = "inconclusive", f"profiled steps do not resolve {_percent(resolution)}"
    elif (steps.estimate > 1) != (published > 1):
        state, why = "not_reproduced", f"the other direction than the published {published:.2f}"
    elif not (steps.low * (1 - tolerance) <= high and low <= steps.high * (1 + tolerance)):
        state, why = "partly", f"the published direction, another size than the published {published:.2f}"
    elif steps.half_width > claim.parameters["precision"]:
        state, why = "partly", f"the published direction; the steps differ too much to tell the size {published:.2f}"
    else:
        state, why = "reproduced", f"the published {published:.2f} is within {_percent(tolerance)} of the range"
    head = f"{steps.estimate:.2f} ({steps.low:.2f} to {steps.high:.2f} over the steps)"
    return Finding(state, steps.estimate, sentence(head, told, why), steps.low, steps.high)


def _steps(evidence: Evidence, part: Mapping[str, Any], each: str, by: str) -> list[float]:
    """Return a quantity of each profiled step: a column summed over the rows selected, less over others."""
    totals: defaultdict[Any, float] = defaultdict(float)
    for row in evidence.rows(part["of"], each, by):
        totals[row[each]] += row[by]
    for row in evidence.rows(part["less"], each, by) if "less" in part else []:
        totals[row[each]] -= row[by]
    return list(totals.values())


def _milliseconds(steps: list[float]) -> str:
    """Return the median of several times in seconds, and their range, in words."""
    if not steps:
        return "nothing"
    middle, *ends = (f"{1e3 * value:.3f}" for value in (median(steps), min(steps), max(steps)))
    return f"{middle} ms" if len(steps) == 1 else f"{middle} ms ({' to '.join(ends)}, {len(steps)} steps)"


def _spread(processes: list[list[float]]) -> float:
    """Return by what share the largest sample of an arm exceeds its smallest."""
    samples = [value for values in processes for value in values]
    return max(samples) / min(samples) - 1 if samples else math.inf


def time_shown(claim: Claim, evidence: Evidence) -> Finding:
    """Show the typical time with its interval, in the published unit, and compare it with the published one."""
    unit = claim.published["unit"]
    seconds = _interval(centre, evidence.samples(claim.parameters["time"]))
    published, tolerance = claim.published["value"] / PER_SECOND[unit], claim.parameters["tolerance"]
    value, low, high = (PER_SECOND[unit] * end for end in (seconds.estimate, seconds.low, seconds.high))
    return Finding(
        "reproduced" if _is_near(published, seconds, tolerance) else "not_reproduced",
        value,
        sentence(
            f"{value:.2f} {unit} (95 % interval {low:.2f} to {high:.2f})",
            f"published: {claim.published['value']:.2f} {unit}",
        ),
        low,
        _finite(high),
    )


def found_by(claim: Claim, evidence: Evidence) -> Finding:
    """Find a row by its list and not by its name; then compare its properties."""
    key, column = claim.parameters["key"], claim.parameters["list"]
    sequence, properties = claim.parameters["sequence"], claim.parameters["properties"]
    rows = evidence.rows(claim.parameters["table"], key, column, *properties)
    having = [row for row in rows if row[column] == sequence]
    told = f"{len(having)} of {len(rows)} have [{', '.join(sequence)}]"
    if not having:
        return Finding("not_reproduced", None, sentence(told))
    differing, best = min(
        (([name for name, value in properties.items() if not same(row[name], value)], row) for row in having),
        key=lambda candidate: len(candidate[0]),
    )
    alike = [f"{name} {shown(best[name])}" for name in properties if name not in differing]
    others = [f"{name} {shown(best[name])} instead of {shown(properties[name])}" for name in differing]
    return Finding(
        "partly" if differing else "reproduced",
        best[key],
        sentence(
            f"{told}, the nearest is {best[key]}",
            f"as published: {', '.join(alike)}" if alike else "",
            f"otherwise: {', '.join(others)}" if others else "",
        ),
    )


def settings_in_force(claim: Claim, evidence: Evidence) -> Finding:
    """Count the named settings that the environment record attests to be in force; name the others and why.

    What the machine makes impossible counts as not in force too, and is told apart.
    """
    attested = {row["name"]: row for row in evidence.rows({"of": claim.parameters["settings"]}, "name", "state")}
    names = claim.parameters["names"]
    states = {name: attested[name]["state"] if name in attested else None for name in names}
    in_force = [name for name in names if states[name] == "in_force"]

    def because(name: str) -> str:
        return f"{name} ({attested[name].get('reason') or 'no reason known' if name in attested else 'not attested'})"

    impossible = [because(name) for name in names if states[name] == "impossible"]
    others = [because(name) for name in names if states[name] not in {"in_force", "impossible"}]
    state: State = "reproduced"
    if len(in_force) < len(names):
        state = "partly" if in_force else "not_reproduced"
    told = f"{len(in_force)} of {len(names)}"
    return Finding(
        state,
        told,
        sentence(
            f"{told} settings are in force",
            f"not possible on this machine: {', '.join(impossible)}" if impossible else "",
            f"not in force: {', '.join(others)}" if others else "",
        ),
    )


def bound_by_memory(claim: Claim, evidence: Evidence) -> Finding:
    """Judge whether a gain comes of moving fewer bytes, by an arm that lies between: the slow one's traffic alone.

    The gain is the product of two factors: what the slow arm costs besides its traffic, and what is left. Reproduced:
    the arm between and the fast one reach the roof (``most`` of it), and the second factor is the larger one. Partly:
    they do, and the first is. Not reproduced: one of them stays under the roof, or there is no gain.
    """
    parts = ("numerator", "between", "denominator")
    names = [claim.parameters[part].partition(".")[2] for part in parts]
    slow, between, fast = (evidence.samples(claim.parameters[part]) for part in parts)
    gain, first, second = (
        _interval(ratio_interval, *arms) for arms in ((slow, fast), (slow, between), (between, fast))
    )
    unresolved = _unresolved(gain, _interval(ratio_interval, evidence.samples(claim.parameters["placebo"]), slow))
    moved = {row["arm"]: row["bytes"] for row in evidence.rows(claim.parameters["bytes"], "arm", "bytes")}
    most, factors = claim.parameters["most"], claim.parameters["factors"]
    predicted = _moved(moved, names[1], names[2])
    told = [
        f"{names[0]} over {names[2]} {_told(gain)}, with its 95 % interval",
        f"{factors[0]} {_told(first)} times {factors[1]} {_told(second)}, by the bytes moved {predicted:.3f}",
    ]
    if unresolved or gain.estimate < 1:
        state: State = "inconclusive" if unresolved else "not_reproduced"
        return Finding(state, None, sentence(*told, unresolved or "there is no gain to explain"))
    shares = [
        _share_of_roofs(claim, evidence, moved, name, arm) for name, arm in zip(names[1:], (between, fast), strict=True)
    ]
    excess, part = (_interval(statistic, slow, between, fast) for statistic in (roofs.excess, roofs.share_of_logarithm))
    if any(share.high < most for share, _ in shares):
        state, why = "not_reproduced", f"less than {_percent(most)} of the roof, so that memory is not what bounds it"
    elif any(share.low < most for share, _ in shares):
        state, why = "inconclusive", f"the intervals do not tell whether both reach {_percent(most)} of the roof"
    elif excess.holds(1):
        state, why = "inconclusive", "the intervals do not tell which factor is the larger one"
    elif excess.estimate > 1:
        state, why = "reproduced", f"both are bound by memory, and the larger factor is {factors[1]}"
    else:
        state, why = "partly", f"both are bound by memory, and the larger factor is {factors[0]}"
    reached = [f"{name} {_percents(share)} of {roof}" for name, (share, roof) in zip(names[1:], shares, strict=True)]
    return Finding(
        state,
        f"{factors[1]}: {_percents(part)} of the gain",
        sentence(*told, f"the latter is {_percents(part)} of its logarithm", f"bandwidth: {', '.join(reached)}", why),
    )


def _moved(moved: Mapping[str, float], name: str, other: str) -> float:
    """Return the bytes that one arm moves over those of another.

    Raises:
        Unanswerable: nobody counted what an arm moves.

    """
    for one in (name, other):
        if one not in moved:
            raise Unanswerable("blocked", f"Nobody counted the bytes that {one!r} moves.")
    return moved[name] / moved[other]


def _percents(share: Interval) -> str:
    return f"{100 * share.estimate:.0f} % ({100 * share.low:.0f} to {100 * share.high:.0f} %)"


def _share_of_roofs(
    claim: Claim, evidence: Evidence, moved: Mapping[str, float], name: str, arm: list[list[float]]
) -> tuple[Interval, str]:
    """Return the bandwidth of an arm as a share of the highest roof, and that roof's name.

    Raises:
        Unanswerable: nobody counted what an arm moves.

    """
    shares = []
    for reference in (roof["time"] for roof in claim.parameters["roofs"]):
        roof = reference.partition(".")[2]
        statistic = partial(roofs.share_of_roof, amounts=_moved(moved, name, roof))
        shares.append((_interval(statistic, arm, evidence.samples(reference)), roof))
    return min(shares, key=lambda share: share[0].estimate)


def ratio_of_totals(claim: Claim, evidence: Evidence) -> Finding:
    """Judge the ratio of two totals, each the sum of many arms, weighted by how often each is called.

    A gain is one that is larger than the margin, which the whole interval must say: faster, but perhaps by less, is
    partly reproduced; slower, or the same within the margin, is not.
    """
    table, margin = claim.parameters["table"], claim.parameters["margin"]
    columns = [claim.parameters[column] for column in ("above", "below", "again")]
    words, weight = claim.parameters["words"], claim.parameters["weight"]
    rows = evidence.rows(table, words, weight, *columns)
    if not rows or any(row[column] is None for row in rows for column in columns):
        raise Unanswerable(claim.parameters["if_absent"], sentence(claim.parameters["absent"]))
    role = table["of"].partition(".")[0]
    above, below, again = (
        [(row[weight], evidence.samples(f"{role}.{row[column]}")) for row in rows] for column in columns
    )
    interval = _interval(_of_totals, above, below)
    unresolved = _unresolved(interval, _interval(_of_totals, again, above))
    state: State
    if interval.low * (1 + margin) >= 1 and interval.high <= 1 + margin:
        state, why = "not_reproduced", f"the same within {_percent(margin)}"
    elif unresolved:
        state, why = "inconclusive", unresolved
    elif interval.estimate < 1:
        state, why = "not_reproduced", "slower"
    elif interval.low <= 1 + margin:
        state, why = "partly", f"faster, perhaps by less than {_percent(margin)}"
    else:
        state, why = "reproduced", "faster"
    each = [
        f"{row[words]} {_told(_interval(ratio_interval, one, other))}"
        for row, (_, one), (_, other) in zip(rows, above, below, strict=True)
    ]
    times = [_interval(centre, roofs.total(arms)) for arms in (above, below)]
    told = [f"{1e3 * one.estimate:.3f} ms ({1e3 * one.low:.3f} to {1e3 * one.high:.3f})" for one in times]
    calls = f"{sum(row[weight] for row in rows)} calls of {len(rows)} kinds"
    return Finding(
        state,
        interval.estimate,
        sentence(
            f"{_told(interval)}, with its 95 % interval: {told[0]} over {told[1]}, {calls}",
            why,
            f"each: {', '.join(each)}",
        ),
        interval.low,
        _finite(interval.high),
    )


def _of_totals(above: list[Any], below: list[Any]) -> Interval:
    return ratio_interval(roofs.total(above), roofs.total(below))


def _told(interval: Interval) -> str:
    return f"{interval.estimate:.3f} ({interval.low:.3f} to {interval.high:.3f})"


RULES: dict[str, Callable[[Claim, Evidence], Finding]] = {
    "holds": holds,
    "same_items": same_items,
    "counts": counts,
    "equal_between": equal_between,
    "ranking": ranking,
    "ratio": ratio,
    "speed_ups": speed_ups,
    "quotient": quotient,
    "time_shown": time_shown,
    "found_by": found_by,
    "settings_in_force": settings_in_force,
    "bound_by_memory": bound_by_memory,
    "ratio_of_totals": ratio_of_totals,
}
