"""Which CPUs and memory nodes this machine has, and which of them this process may use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cpulab.host.kernel import fields

SYSFS_CPU = "sys/devices/system/cpu"
SYSFS_NODE = "sys/devices/system/node"


@dataclass(frozen=True)
class Cpu:
    """One logical CPU: ids as the kernel gives them. ``max_khz`` is its own limit, None where there is no cpufreq."""

    id: int
    socket: int
    core: int
    node: int
    max_khz: int | None = None


@dataclass(frozen=True)
class Topology:
    """The online CPUs, and what this process may use of them.

    ``quota`` is the CPU time a cgroup grants, in CPUs (None: no limit). ``allowed_cpus`` holds what affinity and cpuset
    leave, ``allowed_nodes`` the memory nodes of the cpuset.
    """

    cpus: tuple[Cpu, ...]
    allowed_cpus: frozenset[int]
    allowed_nodes: frozenset[int]
    quota: float | None


def parse_list(text: str) -> list[int]:
    """Parse the kernel's list format, such as ``0-3,8,10-11`` (Documentation/core-api/printk-formats, %*pbl)."""
    ids: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            ids.extend(range(int(first), int(last or first) + 1))
    return ids


def format_list(ids: list[int]) -> str:
    """Return ids in the kernel's list format, ranges folded: the inverse of `parse_list`."""
    parts: list[str] = []
    start = previous = None
    for one in [*sorted(ids), None]:
        if start is not None and (one is None or previous is None or one != previous + 1):
            parts.append(f"{start}" if start == previous else f"{start}-{previous}")
            start = None
        if start is None:
            start = one
        previous = one
    return ",".join(parts)


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return default


def read(root: Path = Path("/")) -> Topology:
    """Read the topology below ``root`` (a recorded tree, or the live machine).

    Sources: sysfs (Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node),
    /proc/self/status, and the cgroup files of `read_quota`. A kernel without NUMA has one node, 0.
    """
    node_of: dict[int, int] = {}
    for folder in (root / SYSFS_NODE).glob("node[0-9]*"):
        for cpu in parse_list((folder / "cpulist").read_text()):
            node_of[cpu] = int(folder.name.removeprefix("node"))
    cpus = []
    for one in parse_list((root / SYSFS_CPU / "online").read_text()):
        folder = root / SYSFS_CPU / f"cpu{one}"
        limit = _number(folder / "cpufreq" / "cpuinfo_max_freq", -1)
        cpus.append(
            Cpu(
                id=one,
                socket=max(0, _number(folder / "topology" / "physical_package_id", 0)),
                core=_number(folder / "topology" / "core_id", one),
                node=node_of.get(one, 0),
                max_khz=None if limit < 0 else limit,
            )
        )
    status = fields((root / "proc/self/status").read_text())
    return Topology(
        cpus=tuple(cpus),
        allowed_cpus=frozenset(parse_list(status["Cpus_allowed_list"])),
        allowed_nodes=frozenset(parse_list(status.get("Mems_allowed_list", "0"))),
        quota=read_quota(root),
    )


def read_quota(root: Path = Path("/")) -> float | None:
    """Return the smallest CPU quota above this process, in CPUs, or None where nothing limits it.

    cgroup v2: cpu.max of the process's group and its parents (Documentation/admin-guide/cgroup-v2.rst); v1:
    cpu.cfs_quota_us over cpu.cfs_period_us (Documentation/scheduler/sched-bwc.rst).
    """
    quotas: list[float] = []
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            mount = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controllers
            if not mount.exists():
                mount = root / "sys/fs/cgroup/cpu"
        else:
            continue
        folder = mount / group.lstrip("/")
        for place in (folder, *folder.parents):
            if place != mount and mount not in place.parents:
                break
            quotas.extend(_quota_of(place))
    return min(quotas, default=None)


def _quota_of(folder: Path) -> list[float]:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
            return [] if quota == "max" else [int(quota) / int(period)]
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        return [] if quota_us < 0 else [quota_us / int((folder / "cpu.cfs_period_us").read_text())]
    except (OSError, ValueError):
        return []
