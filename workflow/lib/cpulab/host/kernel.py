"""How the kernel's small text files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def text(path: Path) -> str | None:
    """Return what a file says, without the white space around it, or None where it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def fields(lines: str) -> dict[str, str]:
    """Parse lines of ``name: value``, as in /proc/meminfo and /proc/self/status; others are passed over."""
    pairs = (line.partition(":") for line in lines.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
