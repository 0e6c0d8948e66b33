"""The profiler's op table as data: the step that speaks for a run, the fused kernels, the CSV."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpulab.profile.kernels import Kernel

COLUMNS = ("name", "calls", "self_s", "total_s", "share")
_FUSED = re.compile(r"graph_\d+_cpp_fused_")


def median_step(steps: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the profiled step with the median total; of an even number, the faster of the middle two."""
    return sorted(steps, key=lambda step: float(step["step_total_s"]))[(len(steps) - 1) // 2]


def fused_kernels(ops: Iterable[Mapping[str, Any]], kernels: Iterable[Kernel]) -> list[dict[str, Any]]:
    """Return the rows that are fused kernels, each with its kernel in output_code.py, None if it has none."""
    known = {kernel.profiled_as: kernel.name for kernel in kernels}
    return [
        {"name": op["name"], "calls": op["calls"], "total_s": op["total_s"], "kernel": known.get(op["name"])}
        for op in ops
        if _FUSED.match(op["name"])
    ]


def to_csv(ops: Iterable[Mapping[str, Any]]) -> str:
    """Return the whole table as CSV, times in seconds."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(ops)
    return text.getvalue()
