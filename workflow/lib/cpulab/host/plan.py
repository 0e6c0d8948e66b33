"""From a topology and ``--cores`` to the CPUs, the memory nodes and the threads of every measured process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cpulab.host.topology import format_list

if TYPE_CHECKING:
    from cpulab.host.topology import Cpu, Topology


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

    One logical CPU a physical core (a second hyper-thread shares its vector units), all in one socket as in the
    tutorial, and in as few memory nodes of it as hold them; never more than the cgroup's quota. On the tutorial's
    machine (two sockets of 32 cores) this is ``-C 0-31 -m 0`` for 32 cores or more.
    """
    reasons = []
    physical: dict[tuple[int, int, int], Cpu] = {}
    usable = sorted((cpu for cpu in topology.cpus if cpu.id in topology.allowed_cpus), key=lambda cpu: cpu.id)
    for cpu in usable:
        physical.setdefault((cpu.socket, cpu.node, cpu.core), cpu)
    if len(physical) < len(usable):
        reasons.append(f"{len(usable)} logical CPUs are {len(physical)} physical cores: one thread runs on each core")
    if len(topology.allowed_cpus) < len(topology.cpus):
        reasons.append(f"affinity or cpuset allows CPUs {format_list(sorted(topology.allowed_cpus))} only")
    wanted = cores
    if topology.quota is not None and topology.quota < wanted:
        wanted = max(1, math.floor(topology.quota))
        reasons.append(f"the cgroup grants the time of {topology.quota:g} CPUs: {wanted} used")

    by_node: dict[tuple[int, int], list[int]] = {}
    for (socket, node, _), cpu in physical.items():
        by_node.setdefault((socket, node), []).append(cpu.id)
    sockets = {socket for socket, _ in by_node}
    size = {one: sum(len(ids) for (socket, _), ids in by_node.items() if socket == one) for one in sockets}
    socket = max(sorted(sockets), key=lambda one: min(size[one], wanted))
    if len(sockets) > 1:
        reasons.append(f"{len(sockets)} sockets: socket {socket} alone is used, as in the tutorial")
    if wanted > size[socket]:
        reasons.append(f"{cores} cores asked for, {size[socket]} used: all that are there")
        wanted = size[socket]

    nodes = sorted((node, ids) for (one, node), ids in by_node.items() if one == socket)
    fitting = [(node, ids) for node, ids in nodes if len(ids) >= wanted]
    chosen: list[int] = []
    memory_nodes: list[int] = []
    for node, ids in fitting[:1] or nodes:
        take = sorted(ids)[: wanted - len(chosen)]
        if take:
            chosen.extend(take)
            memory_nodes.append(node)
    allowed_memory = [node for node in memory_nodes if node in topology.allowed_nodes]
    if allowed_memory != memory_nodes:
        reasons.append(
            f"memory nodes {memory_nodes} hold these cores, but the cpuset allows {sorted(topology.allowed_nodes)}"
        )
        memory_nodes = allowed_memory or sorted(topology.allowed_nodes)
    reasons.append(
        f"{len(chosen)} cores of socket {socket} on memory node {format_list(memory_nodes)}: CPUs {format_list(chosen)}"
    )
    return Plan(sorted(chosen), memory_nodes, reasons)
