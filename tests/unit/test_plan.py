"""From a topology to the CPUs of a measurement."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from recorded_machines import recorded

from cpulab.host.plan import plan
from cpulab.host.topology import Cpu, Node, Topology

if TYPE_CHECKING:
    from pathlib import Path

# What each recorded machine is bound to, for some numbers of cores.
PLANS = {
    "xeon-8358-2s": {8: "-C 0-7 -m 0", 32: "-C 0-31 -m 0", 64: "-C 0-31 -m 0", 128: "-C 0-31 -m 0"},
    "xeon-8358-2s-smt-off": {32: "-C 0-31 -m 0", 64: "-C 0-31 -m 0"},
    "sapphire-rapids-snc4": {
        4: "-C 0-3 -m 0", 14: "-C 0-13 -m 0", 15: "-C 0-14 -m 0-1", 32: "-C 0-31 -m 0-2", 224: "-C 0-55 -m 0-3",
    },
    "xeon-max-snc4-hbm": {12: "-C 0-11 -m 0", 32: "-C 0-31 -m 0-2", 96: "-C 0-47 -m 0-3"},
    "xeon-max-aurora": {32: "-C 0-31 -m 0", 208: "-C 0-51 -m 0"},
    "xeon-c5n-18xlarge": {16: "-C 0-15 -m 0", 36: "-C 0-17 -m 0"},
    "xeon-e5-2696v4-2s": {4: "-C 0,2,4,6 -m 0", 88: f"-C {','.join(map(str, range(0, 44, 2)))} -m 0"},
    "kvm-host-siblings-in-pairs": {4: "-C 0,2,4,6 -m 0", 16: "-C 0,2,4,6,8,10,12,14 -m 0"},
    "vm-1-node": {1: "-C 0 -m 0", 32: "-C 0-1 -m 0"},
    "container-cpuset-quota": {1: "-C 1 -m 0", 32: "-C 1 -m 0"},
    "epyc-7451-2s": {6: "-C 0-5 -m 0", 8: "-C 0-7 -m 0-1", 32: "-C 0-23 -m 0-3"},
    "epyc-74f3-nps4": {6: "-C 0-5 -m 0", 12: "-C 0-11 -m 0-1", 48: "-C 0-23 -m 0-3"},
    "threadripper-3960x-nps4": {6: "-C 6-11 -m 1", 12: "-C 6-17 -m 1-2", 18: "-C 0-17 -m 1-2", 24: "-C 0-23 -m 1-2"},
    "epyc-7662-offline": {64: "-C 0-63 -m 0"},
    "graviton4-c8g-metal": {32: "-C 0-31 -m 0", 96: "-C 0-95 -m 0"},
    "ampere-altra-2s": {80: "-C 0-79 -m 0", 160: "-C 0-79 -m 0"},
    "dgx-spark-gb10": {4: "-C 5-8 -m 0", 20: "-C 5-9,15-19 -m 0"},
    "alder-lake-12900k": {4: "-C 0,2,4,6 -m 0", 24: "-C 0,2,4,6,8,10,12,14 -m 0"},
    "raptor-lake-13900kf": {32: "-C 0,2,4,6,8,10,12,14 -m 0"},
    "meteor-lake-185h": {6: "-C 0-1,3,6,8,10 -m 0", 22: "-C 0-1,3,6,8,10 -m 0"},
    "power9-gpu-nodes": {32: f"-C {','.join(map(str, range(0, 64, 4)))} -m 0"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cores", "numactl"), [(name, *row) for name, rows in PLANS.items() for row in rows.items()]
)
def test_a_recorded_machine_is_bound_to(name: str, cores: int, numactl: str, tmp_path: Path) -> None:
    assert plan(recorded(name, tmp_path), cores).numactl == f"numactl {numactl}"


def limited(machine: Topology, cpus: set[int], nodes: set[int] | None = None) -> Topology:
    """Return a machine as a process sees it that a cpuset holds to ``cpus`` and ``nodes``."""
    allowed_nodes = machine.allowed_nodes if nodes is None else frozenset(nodes)
    return replace(machine, allowed_cpus=frozenset(cpus), allowed_nodes=allowed_nodes)


def said(machine: Topology, cores: int) -> str:
    return "\n".join(plan(machine, cores).reasons)


def test_each_decision_has_its_sentence(tmp_path: Path) -> None:
    assert plan(recorded("sapphire-rapids-snc4", tmp_path), 15).reasons == [
        "224 logical CPUs are 112 physical cores: a core runs one thread, since its hyper-threads share vector units.",
        "Socket 0 alone is used, as in the tutorial: memory of another one is further away.",
        "Socket 0 is split into nodes 0-3 (sub-NUMA clustering): nodes 0-1 together hold 15 cores.",
        "15 threads, one on each of CPUs 0-14, with memory of node 0-1.",
    ]


def test_second_hyper_threads_do_where_a_cpuset_leaves_no_others(tmp_path: Path) -> None:
    machine = recorded("xeon-8358-2s", tmp_path)
    assert plan(limited(machine, set(range(64, 96))), 32).numactl == "numactl -C 64-95 -m 0"


def test_a_core_counts_once_whichever_of_its_hyper_threads_are_allowed(tmp_path: Path) -> None:
    machine = limited(recorded("xeon-8358-2s", tmp_path), {0, 64, 65, 2, 66})
    assert plan(machine, 8).cpus == [0, 2, 65]
    assert "allows this process CPUs 0,2,64-66 only" in said(machine, 8)


def test_a_cpuset_on_the_second_socket_binds_memory_there(tmp_path: Path) -> None:
    machine = limited(recorded("xeon-8358-2s", tmp_path), set(range(32, 64)), {1})
    assert plan(machine, 32).numactl == "numactl -C 32-63 -m 1"


def test_the_socket_that_holds_more_is_preferred(tmp_path: Path) -> None:
    machine = limited(recorded("xeon-8358-2s", tmp_path), set(range(28, 40)))
    assert plan(machine, 8).numactl == "numactl -C 32-39 -m 1"
    assert plan(machine, 4).numactl == "numactl -C 28-31 -m 0"


def test_cores_in_one_node_of_another_socket_are_preferred_to_two_nodes_of_this(tmp_path: Path) -> None:
    machine = limited(recorded("sapphire-rapids-snc4", tmp_path), {0, 1, 14, 15, 56, 57, 58, 59})
    assert plan(machine, 4).numactl == "numactl -C 56-59 -m 4"


def test_a_socket_whose_memory_may_be_used_is_preferred(tmp_path: Path) -> None:
    machine = limited(recorded("xeon-8358-2s", tmp_path), set(range(128)), {1})
    assert plan(machine, 8).numactl == "numactl -C 32-39 -m 1"


def test_memory_that_the_cpuset_forbids_is_replaced_by_the_nearest(tmp_path: Path) -> None:
    machine = limited(recorded("xeon-max-aurora", tmp_path), set(range(52)), {1, 2})
    assert plan(machine, 32).memory_nodes == [2]
    assert "Node 0 holds cores, but the cpuset does not allow its memory: memory of node 2, at distance 13." in said(
        machine, 32
    )


def test_a_node_without_memory_is_bound_to_the_nearest_that_has_some(tmp_path: Path) -> None:
    machine = limited(recorded("threadripper-3960x-nps4", tmp_path), set(range(18, 24)))
    assert plan(machine, 6).numactl == "numactl -C 18-23 -m 1"
    assert "Node 3 holds cores, but it has no memory: memory of node 1, at distance 12." in said(machine, 6)


def test_memory_without_cpus_is_left_alone_and_named(tmp_path: Path) -> None:
    assert "Nodes 8-15 are memory without CPUs" in said(recorded("xeon-max-snc4-hbm", tmp_path), 12)


def test_slower_cores_do_only_where_no_others_are_allowed(tmp_path: Path) -> None:
    machine = recorded("alder-lake-12900k", tmp_path)
    assert "Cores of kind cpu_core alone: a thread on a slower one (cpu_atom)" in said(machine, 24)
    assert plan(limited(machine, set(range(14, 24))), 24).cpus == [14]
    assert plan(limited(machine, set(range(16, 24))), 24).cpus == list(range(16, 24))


@pytest.mark.parametrize(("quota", "threads"), [(1.5, 1), (2.0, 2), (0.5, 1), (8.0, 4)])
def test_a_quota_smaller_than_the_cores_asked_for_wins(quota: float, threads: int, tmp_path: Path) -> None:
    machine = replace(recorded("xeon-8358-2s", tmp_path), quota=quota)
    assert len(plan(machine, 4).cpus) == threads
    assert ("grants the time of" in said(machine, 4)) == (quota < 4)


def test_more_cores_than_there_are_is_said(tmp_path: Path) -> None:
    assert "32 cores asked for, 2 used: the machine has no more" in said(recorded("vm-1-node", tmp_path), 32)


def test_offline_cpus_are_named(tmp_path: Path) -> None:
    assert "Offline, so not used: CPUs 255." in said(recorded("epyc-7662-offline", tmp_path), 64)


def any_machine(dice: random.Random) -> Topology:
    """Make up a machine: any shape, any numbering with gaps, memory here and there, and any limits."""
    kinds = dice.choice([(), (), ("fast", "slow")])
    shape = [
        (socket, node, dice.choice(kinds) if kinds else None)
        for socket in range(dice.randint(1, 3))
        for node in range(4 * socket, 4 * socket + dice.randint(1, 4))
        for _ in range(dice.randint(1, 5))
    ]
    ids = dice.sample(range(200), 2 * len(shape))
    if dice.random() < 0.5:
        ids.sort()
    cpus = []
    for place, (socket, node, kind) in enumerate(shape):
        siblings = tuple(sorted(ids[2 * place : 2 * place + dice.randint(1, 2)]))
        cpus += [Cpu(one, socket, place % 3, node, None, siblings, kind) for one in siblings]
    cpus.sort(key=lambda cpu: cpu.id)
    with_cpus = sorted({cpu.node for cpu in cpus})
    everywhere = with_cpus + [20, 21][: dice.randint(0, 2)]
    nodes = tuple(
        Node(
            one,
            tuple(cpu.id for cpu in cpus if cpu.node == one),
            memory_bytes=dice.choice([0, 2**30, 2**30, None]) if one < 20 else 2**30,
            distances=tuple(10 if one == other else dice.randint(11, 30) for other in everywhere),
        )
        for one in everywhere
    )
    usable = [node.id for node in nodes if node.memory_bytes != 0]
    if not usable:
        nodes = (replace(nodes[0], memory_bytes=2**30), *nodes[1:])
        usable = [nodes[0].id]
    all_ids = [cpu.id for cpu in cpus]
    few = dice.random() < 0.5
    return Topology(
        cpus=tuple(cpus),
        allowed_cpus=frozenset(dice.sample(all_ids, dice.randint(1, len(all_ids))) if few else all_ids),
        allowed_nodes=frozenset([dice.choice(usable), *(one for one in everywhere if dice.random() < 0.7)]),
        quota=dice.choice([None, None, 0.3, 1.0, 2.7, 6.0]),
        nodes=nodes,
        kinds=tuple(kind for kind in kinds if any(cpu.kind == kind for cpu in cpus)),
    )


@pytest.mark.parametrize("seed", range(1000))
def test_on_any_machine_a_plan_keeps_its_promises(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    machine, cores = any_machine(dice), dice.randint(1, 24)
    chosen = plan(machine, cores)
    cpus = {cpu.id: cpu for cpu in machine.cpus}
    used = [cpus[one] for one in chosen.cpus]

    assert chosen == plan(machine, cores)
    assert chosen.cpus == sorted(set(chosen.cpus))
    assert set(chosen.cpus) <= machine.allowed_cpus
    assert len({cpu.siblings for cpu in used}) == len(used)
    assert len({cpu.socket for cpu in used}) == 1
    fastest = [kind for kind in machine.kinds if any(cpus[one].kind == kind for one in machine.allowed_cpus)]
    assert {cpu.kind for cpu in used} == {fastest[0] if fastest else None}

    available: dict[int, dict[int, set[tuple[int, ...]]]] = {}
    for one in machine.allowed_cpus:
        cpu = cpus[one]
        if cpu.kind == used[0].kind:
            available.setdefault(cpu.socket, {}).setdefault(cpu.node, set()).add(cpu.siblings)
    largest = max(sum(len(held) for held in nodes.values()) for nodes in available.values())
    granted = cores if machine.quota is None else max(1, int(machine.quota))
    assert len(used) == min(cores, granted, largest)
    fewest = min(
        len(some)
        for nodes in available.values()
        for width in range(1, len(nodes) + 1)
        for some in itertools.combinations(nodes, width)
        if sum(len(nodes[node]) for node in some) >= len(used)
    )
    assert len({cpu.node for cpu in used}) == fewest

    memory = {node.id: node for node in machine.nodes if node.id in machine.allowed_nodes and node.memory_bytes != 0}
    assert chosen.memory_nodes == sorted(set(chosen.memory_nodes))
    assert set(chosen.memory_nodes) <= set(memory)
    for node in {cpu.node for cpu in used}:
        nearest = min(machine.distance(node, other) for other in memory)
        assert min(machine.distance(node, other) for other in chosen.memory_nodes) == nearest
    assert all(reason[0].isupper() or reason[0].isdigit() for reason in chosen.reasons)
    assert all(reason.endswith(".") for reason in chosen.reasons)
    assert f"{len(used)} thread" in chosen.reasons[-1]
