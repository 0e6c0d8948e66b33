"""What `cpulab explain` says on a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTH = 100


def text(answer: Mapping[str, Any]) -> str:
    """Return the object of `cpulab explain --json` for a reader."""
    lines = [f"{answer['case']}", "", *_wrapped(answer["reason"]), ""]
    rows = [
        ("verdict", _verdict(answer)),
        ("path", answer["path"]),
        ("op", answer["op"]),
        ("subsystem", answer["subsystem"]),
        ("differences", ", ".join(answer["differences"])),
        ("backward", _backward(answer["backward"])),
        ("minimal", _minimal(answer["minimal"])),
        ("bisector", (answer["bisector"] or {}).get("said")),
    ]
    lines += [f"  {name:12} {value}" for name, value in rows if value]
    for link in (answer["walk"] or {}).get("chain", ()):
        where = f"  ({link['file']}:{link['line']})" if link.get("file") else ""
        lines.append(f"  {link['level']:>12} {link['text']}{where}")
    if answer["ladder"]:
        lines += ["", "  backend                      verdict        largest error  kernels (vectorized)"]
        lines += [_row(row) for row in answer["ladder"]]
    if answer["notes"]:
        lines.append("")
        for note in answer["notes"]:
            lines += textwrap.wrap(note, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _wrapped(sentence: str) -> list[str]:
    return textwrap.wrap(sentence, _WIDTH)


def _verdict(answer: Mapping[str, Any]) -> str:
    if answer["kind"] is None:
        return "right"
    kind = answer["kind"].replace("_", " ")
    who = answer["component"] or "no component at fault"
    where = f" ({answer['direction']})" if answer["direction"] else ""
    return f"{kind}, {who}{where}"


def _backward(backward: Mapping[str, Any] | None) -> str | None:
    if backward is None:
        return None
    return "right" if backward["kind"] is None else backward["kind"].replace("_", " ")


def _minimal(minimal: Mapping[str, Any]) -> str:
    if minimal["file"] is None:
        return str(minimal["reason"])
    return f"{', '.join(minimal['ops'])} ({minimal['nodes']} nodes): {minimal['file']}"


def _row(row: Mapping[str, Any]) -> str:
    name = row["backend"] if row["code"] == "default" else f"{row['backend']}, {row['code'].split(' ')[0]}"
    said = "not run" if row["passed"] is None else "passes" if row["passed"] else row["kind"].replace("_", " ")
    error = "-" if row["largest_error"] is None else f"{row['largest_error']:.4g}"
    kernels = f"{row['kernels']} ({row['vectorized_kernels']})" if row["inductor_ran"] else "-"
    return f"  {name:28} {said:14} {error:>13}  {kernels}"
