"""What the profiles show: op tables, what compiling changed, the kernels behind it, and calls against published."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpulab.report.views import Shown

# The profiler's row of the step itself: its total is the step's wall time.
STEP = "ProfilerStep*"
COLUMNS = (
    "name", "kind", "eager_calls", "eager_self_s", "eager_total_s", "compiled_calls", "compiled_self_s",
    "compiled_total_s", "difference_s", "replaces", "replaced_by", "kernel", "file", "line",
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """A row of an op table, of the step that is shown; ``low``, ``high``: its self time over all profiled steps."""

    name: str
    calls: int | None
    self_s: float
    total_s: float | None
    share: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Table:
    """The op table of a case: operations by self time, then what none of them accounts for, then the whole step.

    Records that are older than the accounts have neither of the last two, and the step among the operations.
    """

    ops: list[Op]
    unaccounted: Op | None
    wall_s: float | None


@dataclass(frozen=True)
class Kernel:
    """A fused kernel of a profile: what it takes the place of, and where it stands in the generated code.

    ``file`` and ``line`` are None where the generated code does not hold it.
    """

    op: Op
    name: str | None
    file: str | None
    line: int | None
    replaces: list[tuple[str, int]]


@dataclass(frozen=True)
class Difference:
    """One operation in both arms. ``difference_s``: self time compiled less eager, of the whole step wall time.

    ``kind``: "op", "kernel", "unaccounted" or "step". ``replaces``: the operators that a kernel of the compiled graph
    takes the place of, with their number; ``replaced_by``: the other way round.
    """

    name: str
    kind: str
    eager: Op | None
    compiled: Op | None
    replaces: list[tuple[str, int]]
    replaced_by: list[tuple[str, int]]
    kernel: Kernel | None

    @property
    def difference_s(self) -> float:
        """Seconds of a step that compiling adds; negative where it saves."""
        before, after = ((one.self_s if self.kind != "step" else one.total_s or 0.0) if one else 0.0
                         for one in (self.eager, self.compiled))  # fmt: skip
        return after - before


@dataclass(frozen=True)
class Count:
    """Calls of one operation: as published, here in the published variant, and in today's default; and why."""

    name: str
    published: int
    here: int | None
    today: int | None
    cause: str
    cause_today: str

    @property
    def difference(self) -> str:
        """Here less published, with its sign; empty where nothing was counted."""
        return "" if self.here is None else f"{self.here - self.published:+d}" if self.here != self.published else "0"


def table(seen: Mapping[str, Any]) -> Table:
    """Return the op table of a profile."""
    over: dict[str, list[float]] = {}
    for row in seen.get("op_steps") or []:
        over.setdefault(row["name"], []).append(row["self_s"])
    ops = [
        Op(op["name"], op["calls"], op["self_s"], op["total_s"], op["share"], *_range(over.get(op["name"], [])))
        for op in sorted(seen.get("ops") or [], key=lambda op: (-op["self_s"], op["name"]))
    ]
    accounts = {row["step"]: row for row in seen.get("step_accounts") or []}
    shown = accounts.get(seen.get("profiled_step"))
    if shown is None:
        return Table(ops, None, None)
    wall, rest = shown["wall_s"], shown["unaccounted_s"]
    rests = [row["unaccounted_s"] for row in accounts.values()]
    unaccounted = Op("", None, rest, None, rest / wall if wall else 0.0, *_range(rests))
    return Table([op for op in ops if op.name != STEP], unaccounted, wall)


def _range(values: Sequence[float]) -> tuple[float | None, float | None]:
    return (min(values), max(values)) if len(values) > 1 else (None, None)


def kernels(seen: Mapping[str, Any]) -> list[Kernel]:
    """Return the fused kernels of a compiled profile, the most expensive first."""
    known = {row["name"]: row.get("kernel") for row in seen.get("fused_kernels") or []}
    defined = {row["profiled_as"]: row for row in seen.get("kernels") or []}
    found = []
    for op in table(seen).ops:
        if op.name in known:
            row = defined.get(op.name, {})
            origins = _origins(seen, "kernel", "name", op.name)
            found.append(Kernel(op, known[op.name], row.get("file"), row.get("line"), origins))
    return found


def _origins(seen: Mapping[str, Any], one: str, other: str, name: str) -> list[tuple[str, int]]:
    rows = [
        (row[other], row["nodes"])
        for row in seen.get("kernel_origins") or []
        # An operator that is called as before takes no other's place.
        if row[one] == name and row["kernel"] != row["name"]
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def differences(eager: Shown, compiled: Shown) -> list[Difference]:
    """Return what compiling changed of each operation, the largest first; then the unaccounted time and the step.

    Empty where one of the arms has no table.
    """
    before, after = table(eager.seen), table(compiled.seen)
    if not before.ops or not after.ops:
        return []
    rows = [{op.name: op for op in one.ops} for one in (before, after)]
    fused = {one.op.name: one for one in kernels(compiled.seen)}
    found = [
        Difference(
            name,
            "kernel" if name in fused else "op",
            rows[0].get(name),
            rows[1].get(name),
            _origins(compiled.seen, "kernel", "name", name),
            [] if name in rows[1] and name not in rows[0] else _origins(compiled.seen, "name", "kernel", name),
            fused.get(name),
        )
        for name in dict.fromkeys(name for one in rows for name in one)
    ]
    found.sort(key=lambda one: (-abs(one.difference_s), one.name))
    if before.unaccounted and after.unaccounted and before.wall_s and after.wall_s:
        found.append(Difference("", "unaccounted", before.unaccounted, after.unaccounted, [], [], None))
        found.append(Difference("", "step", _whole(before.wall_s), _whole(after.wall_s), [], [], None))
    return found


def _whole(wall_s: float) -> Op:
    return Op("", None, 0.0, wall_s, 1.0, None, None)


def path(variant: str) -> str:
    """Return where the table of differences of a variant is written, relative to the report."""
    return f"tables/profile_difference_{variant}.csv"


def to_csv(rows: Iterable[Difference]) -> str:
    """Return the table of differences as CSV, times in seconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        arms = [(op.calls, None if row.kind == "step" else op.self_s, op.total_s) if op else (None,) * 3
                for op in (row.eager, row.compiled)]  # fmt: skip
        origins = ["; ".join(f"{name} {nodes}" for name, nodes in one) for one in (row.replaces, row.replaced_by)]
        where = (row.kernel.name, row.kernel.file, row.kernel.line) if row.kernel else (None,) * 3
        writer.writerow([row.name, row.kind, *arms[0], *arms[1], round(row.difference_s, 9), *origins, *where])
    return text.getvalue()


def call_counts(published: Mapping[str, Any], here: Shown, today: Shown) -> list[Count]:
    """Return the calls of each operation whose count is published, here in both variants.

    ``published``: of a verdict, with ``counts``; where it has them, ``causes`` (name, found, because) of other counts,
    and ``conditions`` under which they hold.
    """
    counted = [{op["name"]: op["calls"] for op in one.seen.get("ops") or []} for one in (here, today)]
    causes = {(one["name"], one["found"]): one["because"] for one in published.get("causes", [])}

    def because(name: str, count: int | None, shown: Shown) -> str:
        if count is None or count == published["counts"][name]:
            return ""
        others = [
            f"{key.replace('_', ' ')} {shown.seen[key]} and not {wanted}"
            for key, wanted in published.get("conditions", {}).items()
            if key in shown.seen and shown.seen[key] != wanted
        ]
        return ", ".join(others) or causes.get((name, count), "no cause known")

    def called(name: str, place: int) -> int | None:
        return counted[place].get(name, 0) if (here, today)[place].complete else None

    return [
        Count(
            name,
            count,
            called(name, 0),
            called(name, 1),
            because(name, called(name, 0), here),
            because(name, called(name, 1), today),
        )
        for name, count in published.get("counts", {}).items()
    ]
