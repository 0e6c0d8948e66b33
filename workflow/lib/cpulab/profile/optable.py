"""The profiler's op tables as data: every step's, the one that is shown, its fused kernels, the CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpulab.profile.kernels import Kernel

COLUMNS = ("step", "kind", "name", "calls", "self_s", "total_s", "share")
# The row of the step itself: its total is the step's wall time.
STEP = "ProfilerStep*"
_FUSED = re.compile(r"graph_\d+_cpp_fused_")


def median_step(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the profiled step with the median total; of an even number, the faster of the middle two."""
    return sorted(steps, key=lambda step: float(step["step_total_s"]))[(len(steps) - 1) // 2]


def every_step(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all profiled steps, each with its step's number."""
    return [{"step": step["step"], **op} for step in steps for op in step["ops"]]


def accounts(steps: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each step its wall time, and what of it operations account for; in seconds.

    ``unaccounted_s``: what is spent inside of the step and of no operation, in Python and between calls. It is the wall
    time less the self times of all operations, and not the step's own self time, so that it would be negative, and
    seen, where operations ran side by side.
    """
    found = []
    for step in steps:
        wall = sum(op["total_s"] for op in step["ops"] if op["name"] == STEP)
        accounted = sum(op["self_s"] for op in step["ops"] if op["name"] != STEP)
        found.append(
            {
                "step": step["step"],
                "wall_s": wall,
                "accounted_s": round(accounted, 9),
                "unaccounted_s": round(wall - accounted, 9),
            }
        )
    return found


def fused_kernels(ops: Iterable[Mapping[str, Any]], kernels: Iterable[Kernel]) -> list[dict[str, Any]]:
    """Return the rows that are fused kernels, each with its kernel in output_code.py, None if it has none."""
    known = {kernel.profiled_as: kernel.name for kernel in kernels}
    return [
        {
            "name": op["name"],
            "calls": op["calls"],
            "self_s": op["self_s"],
            "total_s": op["total_s"],
            "share": op["share"],
            "kernel": known.get(op["name"]),
        }
        for op in ops
        if _FUSED.match(op["name"])
    ]


def to_csv(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables of all steps as CSV, times in seconds.

    ``kind``: ``op``; ``step``, whose total is the step's wall time; ``unaccounted``, what of it is no operation's, so
    that the self times of a step's other two kinds add up to its wall time.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for step, account in zip(steps, accounts(steps), strict=True):
        for op in step["ops"]:
            writer.writerow({"step": step["step"], "kind": "step" if op["name"] == STEP else "op", **op})
        share = account["unaccounted_s"] / account["wall_s"] if account["wall_s"] else None
        writer.writerow(
            {"step": step["step"], "kind": "unaccounted", "self_s": account["unaccounted_s"], "share": share}
        )
    return text.getvalue()
