"""Which FX node stands behind each line of a generated kernel: the marks that recording leaves, and their reader."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpulab.debug.artefacts import Kernel

_MARK = re.compile(r" *//@link ir=(?P<ir>\S*) fx=(?P<fx>\S*) aten=(?P<aten>\S*)(?: op=(?P<op>\S*))?$")


@dataclass(frozen=True)
class Link:
    """One line of a kernel (number from 1), the IR op it was generated for, and the FX node behind that."""

    line: int
    cpp: str
    fx: str | None
    ir: str | None
    aten: str | None


@dataclass(frozen=True)
class Mark:
    """What a mark says: the IR op or scheduler nodes, the FX nodes and what they call, and which op of which body."""

    ir: str
    fx: list[str]
    aten: str | None
    op: str | None


def mark(ir: str, fx: str | None, aten: str | None, op: int | None = None) -> str:
    """Return the comment that says where a line comes from; ``op`` numbers the op of the loop body."""
    return f" //@link ir={ir} fx={fx or ''} aten={aten or ''}" + (f" op={op}" if op is not None else "")


def marks(text: str) -> dict[int, Mark]:
    """Return the marks in a text by line number (from 1)."""
    found = {number: _MARK.search(line) for number, line in enumerate(text.split("\n"), 1)}
    return {
        number: Mark(one["ir"], [name for name in one["fx"].split(",") if name], one["aten"] or None, one["op"])
        for number, one in found.items()
        if one is not None
    }


def is_marked(line: str) -> bool:
    """Tell whether ``line`` has its mark already."""
    return _MARK.search(line) is not None


def unmarked(source: str) -> str:
    """Return ``source`` as it is without recording."""
    return "\n".join(_MARK.sub("", line) for line in source.split("\n"))


def links(kernel: Kernel, marked: Sequence[Kernel]) -> list[Link]:
    """Return a link for each computing or storing line of ``kernel``, from the marked kernel with the same source.

    Kernels are matched by their whole source, so a link is never taken from other code than that which runs. A line
    without a mark, and every line when there is no such kernel, is linked to None.
    """
    twin = next((one for one in marked if unmarked(one.source) == kernel.source), None)
    found = []
    for number in kernel.statements:
        seen = _MARK.search(twin.lines[number - 1]) if twin is not None else None
        ir, fx, aten = (seen["ir"] or None, seen["fx"] or None, seen["aten"] or None) if seen else (None, None, None)
        found.append(Link(number, kernel.lines[number - 1].strip(), fx, ir, aten))
    return found
