"""From a topology to the CPUs of a measurement."""

from __future__ import annotations

import pytest

from cpulab.host.plan import plan
from cpulab.host.topology import Cpu, Topology


def machine(
    sockets: int,
    nodes_per_socket: int,
    cores_per_node: int,
    *,
    threads: int = 1,
    allowed: set[int] | None = None,
    allowed_nodes: set[int] | None = None,
    quota: float | None = None,
) -> Topology:
    """Build a topology numbered as Linux does: all first threads, socket by socket, then all second ones."""
    cores = sockets * nodes_per_socket * cores_per_node
    cpus = [
        Cpu(
            id=thread * cores + core,
            socket=core // (nodes_per_socket * cores_per_node),
            core=core % (nodes_per_socket * cores_per_node),
            node=core // cores_per_node,
        )
        for thread in range(threads)
        for core in range(cores)
    ]
    nodes = set(range(sockets * nodes_per_socket))
    return Topology(
        cpus=tuple(cpus),
        allowed_cpus=frozenset(allowed if allowed is not None else {cpu.id for cpu in cpus}),
        allowed_nodes=frozenset(allowed_nodes if allowed_nodes is not None else nodes),
        quota=quota,
    )


# Two Xeon Platinum 8358: 2 sockets of 32 cores, hyper-threads numbered n and n + 64, one node a socket.
ICE_LAKE = {"sockets": 2, "nodes_per_socket": 1, "cores_per_node": 32, "threads": 2}


@pytest.mark.parametrize("cores", [32, 64, 128])
def test_the_tutorials_machine_is_bound_as_the_tutorial_binds_it(cores: int) -> None:
    assert plan(machine(**ICE_LAKE), cores).numactl == "numactl -C 0-31 -m 0"


def test_fewer_cores_than_the_socket_has_are_its_first_ones() -> None:
    assert plan(machine(**ICE_LAKE), 8).cpus == list(range(8))


def test_a_second_hyper_thread_of_a_core_is_never_used() -> None:
    chosen = plan(machine(1, 1, 4, threads=2), 8)
    assert chosen.cpus == [0, 1, 2, 3]
    assert any("8 logical CPUs are 4 physical cores" in reason for reason in chosen.reasons)


def test_sub_numa_clusters_of_one_socket_are_filled_one_after_the_other() -> None:
    chosen = plan(machine(2, 4, 14), 32)
    assert (chosen.cpus, chosen.memory_nodes) == (list(range(32)), [0, 1, 2])


def test_what_fits_one_sub_numa_cluster_stays_in_it() -> None:
    assert plan(machine(2, 4, 14), 14).memory_nodes == [0]


def test_a_cpuset_decides_which_cpus_there_are() -> None:
    chosen = plan(machine(1, 1, 8, allowed={5, 6}), 8)
    assert chosen.cpus == [5, 6]
    assert any("allows CPUs 5-6 only" in reason for reason in chosen.reasons)


def test_a_cpuset_on_the_second_socket_binds_memory_there() -> None:
    chosen = plan(machine(**ICE_LAKE, allowed=set(range(32, 64)), allowed_nodes={1}), 32)
    assert chosen.numactl == "numactl -C 32-63 -m 1"


def test_memory_nodes_that_the_cpuset_forbids_are_left_out_with_a_reason() -> None:
    chosen = plan(machine(2, 1, 4, allowed={0, 1}, allowed_nodes={1}), 2)
    assert chosen.memory_nodes == [1]
    assert any("the cpuset allows [1]" in reason for reason in chosen.reasons)


@pytest.mark.parametrize(("quota", "threads"), [(1.5, 1), (2.0, 2), (0.5, 1)])
def test_a_quota_smaller_than_the_cores_asked_for_wins(quota: float, threads: int) -> None:
    assert len(plan(machine(1, 1, 8, quota=quota), 4).cpus) == threads


def test_more_cores_than_there_are_is_said() -> None:
    assert any("32 cores asked for, 2 used" in reason for reason in plan(machine(1, 1, 2), 32).reasons)
