"""From a topology and ``--cores`` to the CPUs, the memory nodes and the threads of every measured process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpulab.host.topology import counted, format_list

if TYPE_CHECKING:
    from cpulab.host.topology import Topology


@dataclass(frozen=True)
class Plan:
    """Which CPUs (one a physical core), which memory nodes, and why; one thread runs on each CPU."""

    cpus: list[int]
    memory_nodes: list[int]
    reasons: list[str]

    @property
    def numactl(self) -> str:
        """The numactl command line with the same effect, for a reader."""
        return f"numactl -C {format_list(self.cpus)} -m {format_list(self.memory_nodes)}"


def plan(topology: Topology, cores: int) -> Plan:
    """Choose the CPUs of a measurement on at most ``cores`` cores.

    One logical CPU a physical core (a second hyper-thread shares its vector units), of one kind, all in one socket as
    in the tutorial, and in as few nodes of it as hold them; never more than the cgroup's quota. On the tutorial's
    machine (two sockets of 32 cores) this is ``-C 0-31 -m 0`` for 32 cores or more. ``topology.allowed_cpus`` is not
    empty.
    """
    reasons: list[str] = []
    kind = _kind(topology, reasons)
    by_node = _cores(topology, kind, reasons)
    count = _how_many(topology, cores, by_node, reasons)
    socket, nodes = _place(topology, count, by_node, reasons)

    chosen: list[int] = []
    for node in nodes:
        chosen.extend(by_node[socket, node][: count - len(chosen)])
    memory_nodes = _memory(topology, nodes, reasons)
    where = f"one on each of CPUs {format_list(chosen)}" if len(chosen) > 1 else f"on CPU {chosen[0]}"
    reasons.append(f"{counted(len(chosen), 'thread')}, {where}, with memory of node {format_list(memory_nodes)}.")
    return Plan(sorted(chosen), memory_nodes, reasons)


def _kind(topology: Topology, reasons: list[str]) -> str | None:
    """Return the fastest kind of core that is allowed, None where all are alike."""
    allowed = {cpu.kind for cpu in topology.cpus if cpu.id in topology.allowed_cpus}
    kind = next((one for one in topology.kinds if one in allowed), None)
    if kind is not None and len(allowed) > 1:
        others = [one for one in topology.kinds if one in allowed and one != kind]
        reasons.append(f"Cores of kind {kind} alone: a thread on a slower one ({', '.join(others)}) would make the "
                       "others wait at the end of every parallel region.")  # fmt: skip
    return kind


def _cores(topology: Topology, kind: str | None, reasons: list[str]) -> dict[tuple[int, int], list[int]]:
    """Return the lowest allowed logical CPU of each physical core of a kind, by socket and node."""
    usable = [cpu for cpu in topology.cpus if cpu.id in topology.allowed_cpus and cpu.kind == kind]
    physical = {cpu.physical: cpu for cpu in sorted(usable, key=lambda cpu: -cpu.id)}
    if topology.offline:
        reasons.append(f"Offline, so not used: CPUs {format_list(topology.offline)}.")
    if len(topology.allowed_cpus) < len(topology.cpus):
        reasons.append(f"Affinity or cpuset allows this process CPUs {format_list(topology.allowed_cpus)} only.")
    if len(physical) < len(usable):
        reasons.append(f"{len(usable)} logical CPUs are {len(physical)} physical cores: a core runs one thread, since "
                       "its hyper-threads share vector units.")  # fmt: skip
    by_node: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(physical.values(), key=lambda cpu: cpu.id):
        by_node.setdefault((cpu.socket, cpu.node), []).append(cpu.id)
    return by_node


def _how_many(topology: Topology, cores: int, by_node: dict[tuple[int, int], list[int]], reasons: list[str]) -> int:
    """Return how many cores are used: those asked for, as far as the quota and the largest socket go."""
    count = cores
    if topology.quota is not None and topology.quota < count:
        count = max(1, math.floor(topology.quota))
        reasons.append(f"The cgroup grants the time of {topology.quota:g} CPUs: {count} used, since more threads would "
                       "only be throttled.")  # fmt: skip
    largest = max(_sizes(by_node).values())
    if count > largest:
        where = "a socket" if len(_sizes(by_node)) > 1 else "the machine"
        reasons.append(f"{cores} cores asked for, {largest} used: {where} has no more that this process may use.")
    return min(count, largest)


def _sizes(by_node: dict[tuple[int, int], list[int]]) -> dict[int, int]:
    """Return the number of cores of each socket."""
    sizes: dict[int, int] = {}
    for (socket, _), ids in by_node.items():
        sizes[socket] = sizes.get(socket, 0) + len(ids)
    return sizes


def _place(
    topology: Topology, count: int, by_node: dict[tuple[int, int], list[int]], reasons: list[str]
) -> tuple[int, list[int]]:
    """Return the socket and its nodes that hold ``count`` cores: the fewest, with memory of their own, lowest ids."""
    candidates = []
    for socket, size in sorted(_sizes(by_node).items()):
        if size >= count:
            cores = {node: len(ids) for (one, node), ids in by_node.items() if one == socket}
            preferred = sorted(cores, key=lambda node: (not _is_local(topology, node), node))
            candidates.append((socket, _fewest(cores, preferred, count)))
    socket, nodes = min(
        candidates, key=lambda one: (len(one[1]), sum(not _is_local(topology, node) for node in one[1]), one[0])
    )
    if len(_sizes(by_node)) > 1:
        reasons.append(f"Socket {socket} alone is used, as in the tutorial: memory of another one is further away.")
    clusters = topology.sub_numa_clusters.get(socket)
    if clusters:
        held = f"node {nodes[0]} holds" if len(nodes) == 1 else f"nodes {format_list(nodes)} together hold"
        reasons.append(f"Socket {socket} is split into nodes {format_list(clusters)} (sub-NUMA clustering): {held} "
                       f"{counted(count, 'core')}.")  # fmt: skip
    return socket, nodes


def _fewest(cores: dict[int, int], preferred: list[int], count: int) -> list[int]:
    """Return the fewest nodes that together have ``count`` cores; among those, the first ones of ``preferred``."""
    by_size = sorted(cores.values(), reverse=True)
    width = next(width for width in range(1, len(by_size) + 1) if sum(by_size[:width]) >= count)
    chosen: list[int] = []
    for place, node in enumerate(preferred):
        rest = sorted((cores[other] for other in preferred[place + 1 :]), reverse=True)
        held = sum(cores[one] for one in [*chosen, node])
        if held + sum(rest[: width - len(chosen) - 1]) >= count:
            chosen.append(node)
        if len(chosen) == width:
            break
    return sorted(chosen)


def _is_local(topology: Topology, node: int) -> bool:
    return node in topology.allowed_nodes and topology.has_memory(node)


def _memory(topology: Topology, nodes: list[int], reasons: list[str]) -> list[int]:
    """Return where memory is bound to: the nodes of the cores, or the nearest that may be used where one has none."""
    usable = sorted(node for node in topology.allowed_nodes if topology.has_memory(node))
    bound = set()
    for node in nodes:
        if _is_local(topology, node) or not usable:
            bound.add(node)
            continue
        nearest = topology.nearest(node, usable)
        why = "the cpuset does not allow its memory" if topology.has_memory(node) else "it has no memory"
        reasons.append(f"Node {node} holds cores, but {why}: memory of node {nearest}, at distance "
                       f"{topology.distance(node, nearest)}.")  # fmt: skip
        bound.add(nearest)
    unused = [node.id for node in topology.nodes if not node.cpus and node.id in usable and node.id not in bound]
    if unused:
        reasons.append(f"Nodes {format_list(unused)} are memory without CPUs (HBM or CXL): not used, since memory is "
                       "bound to what is nearest to the cores.")  # fmt: skip
    return sorted(bound)
