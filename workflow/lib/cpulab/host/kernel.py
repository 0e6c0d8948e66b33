"""How the kernel's small text files are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CGROUPS = "sys/fs/cgroup"


def text(path: Path) -> str | None:
    """Return what a file says, without the white space around it, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """Return the whole number that a file holds, or None where it cannot be read or holds something else."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def fields(lines: str) -> dict[str, str]:
    """Parse lines of ``name: value``, as in /proc/meminfo and /proc/self/status; others are passed over."""
    pairs = (line.partition(":") for line in lines.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def kib_fields(lines: str) -> dict[str, int]:
    """Parse lines of ``name: number kB``, as in /proc/meminfo, to bytes."""
    words = {name: value.split() for name, value in fields(lines).items()}
    return {name: int(value[0]) * 1024 for name, value in words.items() if value[-1:] == ["kB"]}


def cgroup_folders(root: Path, controller: str) -> list[Path]:
    """Return the folders of the groups that limit this process by ``controller``: its own first, then their parents.

    /proc/self/cgroup has one line for all controllers of version 2 and one a hierarchy of version 1 (cgroups(7)). In a
    container its path may be the host's, of which only the mount is seen: a folder may be missing.
    """
    folders = []
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            both = root / CGROUPS / "unified"
            mount = both if both.is_dir() else root / CGROUPS
        elif controller in controllers.split(","):
            together = root / CGROUPS / controllers
            mount = together if together.is_dir() else root / CGROUPS / controller
        else:
            continue
        own = mount / group.lstrip("/")
        folders += [one for one in (own, *own.parents) if one == mount or mount in one.parents]
    return folders


def memory_limit(root: Path) -> int | None:
    """Return the smallest memory limit above this process in bytes, or None where nothing limits it.

    cgroup v2: memory.max (Documentation/admin-guide/cgroup-v2.rst); v1: memory.limit_in_bytes, which without a limit
    says the largest whole number of pages (Documentation/admin-guide/cgroup-v1/memory.rst).
    """
    limits = []
    for folder in cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = number(folder / name)
            if limit is not None and limit < 2**62:
                limits.append(limit)
    return min(limits, default=None)
