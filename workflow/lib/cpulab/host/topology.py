"""Which CPUs and memory nodes this machine has, and which of them this process may use."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host.kernel import cgroup_folders, fields, kib_fields, number, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SYSFS_CPU = "sys/devices/system/cpu"
SYSFS_NODE = "sys/devices/system/node"

# Intel's hybrid machines have a PMU for each kind of core instead of one for all; fastest first
# (tools/perf/Documentation/intel-hybrid.txt).
INTEL_KINDS = ("cpu_core", "cpu_atom", "cpu_lowpower")

# Cores are of one kind when each has this share of the fastest one's speed. Favoured cores of one kind differ by 5 %
# (a Core i9-13900KF: 5.5 and 5.8 GHz), two chiplets of one kind by 9 %; cores of another kind are slower by a quarter.
ALIKE = 0.85


@dataclass(frozen=True)
class Cpu:
    """One online logical CPU: ids as the kernel gives them.

    ``siblings`` are the online logical CPUs of its physical core, itself among them (empty: itself alone). They tell
    cores apart; ``core`` does not, since it repeats in other sockets, dies and clusters. ``max_khz`` is its own limit,
    None where there is no cpufreq. ``kind`` is its kind of core on a hybrid machine, None where all are alike.
    """

    id: int
    socket: int
    core: int
    node: int
    max_khz: int | None = None
    siblings: tuple[int, ...] = ()
    kind: str | None = None

    @property
    def physical(self) -> int:
        """The physical core, named by its lowest logical CPU."""
        return min(self.siblings, default=self.id)


@dataclass(frozen=True)
class Node:
    """A NUMA node. ``cpus`` is empty for memory alone (HBM, CXL), ``memory_bytes`` 0 for CPUs alone, None if unknown.

    ``distances`` go to each node of the topology in turn (ACPI SLIT: 10 is the node itself); empty if unknown.
    """

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int | None = None
    distances: tuple[int, ...] = ()


@dataclass(frozen=True)
class NumaView:
    """What libnuma says of the same machine: ``allowed_nodes`` is None where it may not ask the kernel."""

    node_cpus: dict[int, list[int]]
    allowed_cpus: list[int]
    allowed_nodes: list[int] | None


@dataclass(frozen=True)
class Topology:
    """The online CPUs, the nodes, and what this process may use of them.

    ``quota`` is the CPU time a cgroup grants, in CPUs (None: no limit). ``allowed_cpus`` holds what affinity and cpuset
    leave of the online CPUs, ``allowed_nodes`` the nodes of the cpuset. ``offline`` CPUs are plugged in, but switched
    off. ``kinds`` are the kinds of core of a hybrid machine, fastest first; empty where all are alike.
    """

    cpus: tuple[Cpu, ...]
    allowed_cpus: frozenset[int]
    allowed_nodes: frozenset[int]
    quota: float | None
    nodes: tuple[Node, ...] = ()
    offline: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()

    def has_memory(self, node: int) -> bool:
        """Tell whether a node has memory of its own; one whose size is unknown has."""
        return all(one.memory_bytes != 0 for one in self.nodes if one.id == node)

    def distance(self, one: int, other: int) -> int:
        """Return the SLIT distance of two nodes; where it is unknown, the one that ACPI takes for granted."""
        places = {node.id: place for place, node in enumerate(self.nodes)}
        if one in places and other in places:
            distances = self.nodes[places[one]].distances
            if places[other] < len(distances):
                return distances[places[other]]
        return 10 if one == other else 20

    def nearest(self, node: int, among: Iterable[int]) -> int:
        """Return the node of ``among`` that is nearest to ``node``; of several, the lowest id."""
        return min(among, key=lambda other: (self.distance(node, other), other))

    @property
    def sub_numa_clusters(self) -> dict[int, list[int]]:
        """The nodes of each socket whose CPUs are split among several (Intel: SNC; AMD: NPS2, NPS4)."""
        nodes: dict[int, set[int]] = {}
        for cpu in self.cpus:
            nodes.setdefault(cpu.socket, set()).add(cpu.node)
        return {socket: sorted(ids) for socket, ids in sorted(nodes.items()) if len(ids) > 1}

    @property
    def summary(self) -> str:
        """The machine in a line, such as ``2 sockets x 32 cores x 2 threads, 2 memory nodes``."""
        cores: dict[int, set[int]] = {}
        threads: dict[int, int] = {}
        for cpu in self.cpus:
            cores.setdefault(cpu.socket, set()).add(cpu.physical)
            threads[cpu.physical] = threads.get(cpu.physical, 0) + 1
        sizes, widths = {len(ids) for ids in cores.values()}, set(threads.values())
        if len(sizes) == len(widths) == 1:
            shape = " x ".join(
                [counted(len(cores), "socket"), counted(min(sizes), "core"), counted(min(widths), "thread")]
            )
        else:
            shape = f"{counted(len(cores), 'socket')}, {counted(len(threads), 'core')}, {len(self.cpus)} logical CPUs"
        parts = [shape]
        for kind in self.kinds:
            of_kind = {cpu.physical for cpu in self.cpus if cpu.kind == kind}
            parts.append(f"{counted(len(of_kind), 'core')} of kind {kind}")
        parts.append(counted(sum(self.has_memory(node.id) for node in self.nodes), "memory node"))
        if self.sub_numa_clusters:
            most = max(len(ids) for ids in self.sub_numa_clusters.values())
            parts.append(f"{most} nodes a socket (sub-NUMA clustering)")
        if self.offline:
            parts.append(f"CPUs {format_list(self.offline)} offline")
        return ", ".join(parts)

    def record(self, numa: NumaView) -> dict[str, Any]:
        """Return the topology part of an environment record, with what ``numa`` says otherwise."""
        return {
            "summary": self.summary,
            "disagreements": disagreements(self, numa),
            "nodes": [_plain(node) for node in self.nodes],
            "cpus": [_plain(cpu) for cpu in self.cpus],
            "kinds": list(self.kinds),
            "sub_numa_clusters": [{"socket": one, "nodes": ids} for one, ids in self.sub_numa_clusters.items()],
            "offline": list(self.offline),
            "allowed_cpus": sorted(self.allowed_cpus),
            "allowed_nodes": sorted(self.allowed_nodes),
            "quota": self.quota,
        }  # fmt: skip


def parse_list(text: str) -> list[int]:
    """Parse the kernel's list format, such as ``0-3,8,10-11`` (Documentation/core-api/printk-formats, %*pbl)."""
    ids: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            ids.extend(range(int(first), int(last or first) + 1))
    return ids


def format_list(ids: Iterable[int]) -> str:
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


def read(root: Path = Path("/")) -> Topology:
    """Read the topology below ``root`` (a recorded tree, or the live machine).

    Sources: sysfs (Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node),
    /proc/self/status, and the cgroup files of `read_quota`. A kernel without NUMA has one node, 0; one that does not
    know the sockets (-1, on some Arm virtual machines) has one socket, 0.
    """
    online = parse_list((root / SYSFS_CPU / "online").read_text())
    nodes = _nodes(root) or (Node(0, tuple(online)),)
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    cpus = []
    for one in online:
        folder = root / SYSFS_CPU / f"cpu{one}"
        # core_cpus_list is the newer name (Linux 5.4), thread_siblings_list the older and deprecated one.
        siblings = text(folder / "topology/core_cpus_list") or text(folder / "topology/thread_siblings_list") or ""
        cpus.append(
            Cpu(
                id=one,
                socket=max(0, number(folder / "topology/physical_package_id") or 0),
                core=number(folder / "topology/core_id") or 0,
                node=node_of.get(one, nodes[0].id),
                max_khz=number(folder / "cpufreq/cpuinfo_max_freq"),
                siblings=tuple(parse_list(siblings)) or (one,),
            )
        )
    kinds = _kinds(root, cpus)
    status = fields((root / "proc/self/status").read_text())
    return Topology(
        cpus=tuple(replace(cpu, kind=kinds.get(cpu.id)) for cpu in cpus),
        # The mask may name CPUs and nodes which the kernel could have, but has not.
        allowed_cpus=frozenset(parse_list(status["Cpus_allowed_list"])) & frozenset(online),
        allowed_nodes=frozenset(parse_list(status.get("Mems_allowed_list", "0"))) & {node.id for node in nodes},
        quota=read_quota(root),
        nodes=nodes,
        offline=tuple(sorted(set(parse_list(text(root / SYSFS_CPU / "present") or "")) - set(online))),
        kinds=tuple(dict.fromkeys(kinds.values())),
    )


def _nodes(root: Path) -> tuple[Node, ...]:
    nodes = []
    for folder in (root / SYSFS_NODE).glob("node[0-9]*"):
        # Each of its lines starts with the node's name: `Node 0 MemTotal:  16 kB`.
        memory = kib_fields(text(folder / "meminfo") or "")
        nodes.append(
            Node(
                id=int(folder.name.removeprefix("node")),
                cpus=tuple(parse_list((folder / "cpulist").read_text())),
                memory_bytes=memory.get(f"Node {folder.name.removeprefix('node')} MemTotal"),
                distances=tuple(int(one) for one in (text(folder / "distance") or "").split()),
            )
        )
    return tuple(sorted(nodes, key=lambda node: node.id))


def _kinds(root: Path, cpus: list[Cpu]) -> dict[int, str]:
    """Return the kind of core of each CPU of a hybrid machine, those of the fastest kind first; empty: all are alike.

    Intel: the PMUs. Arm, and whatever else tells it: cpu_capacity (Documentation/arch/arm64/cpu-capacity.rst). Last,
    cpuinfo_max_freq (AMD's compact cores differ in nothing else). Capacity and frequency differ a little among cores
    of one kind; only `ALIKE` parts them.
    """
    online = {cpu.id for cpu in cpus}
    of_pmu = {}
    for kind in INTEL_KINDS:
        listed = parse_list(text(root / "sys/devices" / kind / "cpus") or "")
        of_pmu.update({cpu: kind for cpu in listed if cpu in online})
    if of_pmu:
        return of_pmu if len(set(of_pmu.values())) > 1 else {}
    capacities = {cpu.id: number(root / SYSFS_CPU / f"cpu{cpu.id}" / "cpu_capacity") for cpu in cpus}
    frequencies = {cpu.id: cpu.max_khz and cpu.max_khz // 1000 for cpu in cpus}
    return _by_speed(capacities, "capacity {}") or _by_speed(frequencies, "{} MHz")


def _by_speed(speeds: Mapping[int, int | None], name: str) -> dict[int, str]:
    known = {cpu: speed for cpu, speed in speeds.items() if speed}
    if len(known) < len(speeds):
        return {}
    kinds: dict[int, str] = {}
    fastest = 0.0
    for cpu, speed in sorted(known.items(), key=lambda item: (-item[1], item[0])):
        if not kinds or speed < ALIKE * fastest:
            fastest = speed
        kinds[cpu] = name.format(fastest)
    return kinds if len(set(kinds.values())) > 1 else {}


def _plain(part: Cpu | Node) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(part).items()}


def counted(count: int, name: str) -> str:
    """Return a number of things in words: ``1 core``, ``2 cores``."""
    return f"{count} {name}" + ("" if count == 1 else "s")


def disagreements(topology: Topology, numa: NumaView) -> list[str]:
    """Return a sentence for each thing that libnuma and the kernel's files say differently of one machine."""
    found = []

    def compare(what: str, kernel: Iterable[int], libnuma: Iterable[int]) -> None:
        ours, theirs = format_list(kernel) or "none", format_list(libnuma) or "none"
        if ours != theirs:
            found.append(f"{what}: {ours} in the kernel's files, {theirs} by libnuma.")

    files = {node.id: node.cpus for node in topology.nodes}
    compare("Nodes", files, numa.node_cpus)
    for node in sorted(files.keys() & numa.node_cpus.keys()):
        compare(f"CPUs of node {node}", files[node], numa.node_cpus[node])
    compare("CPUs that this process may use", topology.allowed_cpus, numa.allowed_cpus)
    if numa.allowed_nodes is not None:
        with_memory = [node for node in topology.allowed_nodes if topology.has_memory(node)]
        compare("Memory nodes that this process may use", with_memory, numa.allowed_nodes)
    return found


def read_quota(root: Path = Path("/")) -> float | None:
    """Return the smallest CPU quota above this process, in CPUs, or None where nothing limits it.

    cgroup v2: cpu.max of the process's group and its parents (Documentation/admin-guide/cgroup-v2.rst); v1:
    cpu.cfs_quota_us over cpu.cfs_period_us (Documentation/scheduler/sched-bwc.rst).
    """
    quotas = [quota for folder in cgroup_folders(root, "cpu") for quota in _quota_of(folder)]
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
