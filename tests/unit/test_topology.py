"""The kernel's files become a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jsonschema
import pytest
from recorded_machines import RECORDER, TOPOLOGIES, recorded

from cpulab.host import binding
from cpulab.host.topology import Cpu, Node, NumaView, Topology, disagreements, format_list, parse_list, read, read_quota
from cpulab.records import validator

if TYPE_CHECKING:
    from pathlib import Path

SUMMARIES = {
    "xeon-8358-2s": "2 sockets x 32 cores x 2 threads, 2 memory nodes",
    "xeon-8358-2s-smt-off": "2 sockets x 32 cores x 1 thread, 2 memory nodes",
    "sapphire-rapids-snc4": (
        "2 sockets x 56 cores x 2 threads, 8 memory nodes, 4 nodes a socket (sub-NUMA clustering)"
    ),
    "xeon-max-snc4-hbm": ("2 sockets x 48 cores x 2 threads, 16 memory nodes, 4 nodes a socket (sub-NUMA clustering)"),
    "xeon-max-aurora": "2 sockets x 52 cores x 2 threads, 4 memory nodes",
    "xeon-c5n-18xlarge": "2 sockets x 18 cores x 2 threads, 2 memory nodes",
    "xeon-e5-2696v4-2s": "2 sockets x 22 cores x 2 threads, 2 memory nodes",
    "kvm-host-siblings-in-pairs": "1 socket x 8 cores x 2 threads, 1 memory node",
    "vm-1-node": "1 socket x 2 cores x 1 thread, 1 memory node",
    "container-cpuset-quota": "1 socket x 2 cores x 1 thread, 1 memory node",
    "epyc-7451-2s": "2 sockets x 24 cores x 2 threads, 8 memory nodes, 4 nodes a socket (sub-NUMA clustering)",
    "epyc-74f3-nps4": "1 socket x 24 cores x 2 threads, 4 memory nodes, 4 nodes a socket (sub-NUMA clustering)",
    "threadripper-3960x-nps4": (
        "1 socket x 24 cores x 2 threads, 2 memory nodes, 4 nodes a socket (sub-NUMA clustering)"
    ),
    "epyc-7662-offline": "2 sockets, 128 cores, 255 logical CPUs, 2 memory nodes, CPUs 255 offline",
    "graviton4-c8g-metal": "1 socket x 96 cores x 1 thread, 1 memory node",
    "ampere-altra-2s": "2 sockets x 80 cores x 1 thread, 2 memory nodes",
    "dgx-spark-gb10": (
        "1 socket x 20 cores x 1 thread, 10 cores of kind capacity 997, 10 cores of kind capacity 718, 1 memory node"
    ),
    "alder-lake-12900k": (
        "1 socket, 16 cores, 24 logical CPUs, 8 cores of kind cpu_core, 8 cores of kind cpu_atom, 1 memory node"
    ),
    "raptor-lake-13900kf": (
        "1 socket, 24 cores, 32 logical CPUs, 8 cores of kind 5800 MHz, 16 cores of kind 4300 MHz, 1 memory node"
    ),
    "meteor-lake-185h": (
        "1 socket, 16 cores, 22 logical CPUs, 6 cores of kind cpu_core, 10 cores of kind cpu_atom, 1 memory node"
    ),
    "power9-gpu-nodes": "2 sockets x 16 cores x 4 threads, 6 memory nodes",
}


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def agreeing(topology: Topology) -> NumaView:
    """Return what libnuma says where it says the same."""
    return NumaView(
        {node.id: list(node.cpus) for node in topology.nodes},
        sorted(topology.allowed_cpus),
        [node for node in sorted(topology.allowed_nodes) if topology.has_memory(node)],
    )


@pytest.mark.parametrize("text", ["0", "0-3", "0-3,8", "1,3,5-7", ""])
def test_a_kernel_list_survives_parsing_and_formatting(text: str) -> None:
    assert format_list(parse_list(text)) == text


def test_every_recording_is_known_here() -> None:
    assert {path.stem for path in TOPOLOGIES.glob("*.txt")} == set(SUMMARIES)


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_recorded_machine_is_told_in_a_line(name: str, tmp_path: Path) -> None:
    assert recorded(name, tmp_path).summary == SUMMARIES[name]


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_recorded_machine_has_a_place_in_the_record(name: str, tmp_path: Path) -> None:
    machine = recorded(name, tmp_path)
    part = machine.record(agreeing(machine))
    jsonschema.validate(part, validator("environment").schema["properties"]["topology"])
    assert part["disagreements"] == []


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_recorder_reads_back_what_it_laid_down(name: str, tmp_path: Path) -> None:
    machine = recorded(name, tmp_path / "once")
    RECORDER["lay_down"](RECORDER["record"](tmp_path / "once"), tmp_path / "twice")
    assert read(tmp_path / "twice") == machine


def test_this_machine_can_be_recorded(tmp_path: Path) -> None:
    RECORDER["lay_down"](RECORDER["record"](), tmp_path)
    # A virtual machine's memory may grow meanwhile.
    laid_down, live = ((one.cpus, one.allowed_cpus, one.allowed_nodes, one.quota) for one in (read(tmp_path), read()))
    assert laid_down == live


def test_siblings_share_a_core_and_core_ids_do_not_tell_them(tmp_path: Path) -> None:
    cpus = {cpu.id: cpu for cpu in recorded("epyc-7451-2s", tmp_path).cpus}
    assert (cpus[0].core, cpus[24].core) == (0, 0)
    assert (cpus[0].siblings, cpus[24].siblings) == ((0, 48), (24, 72))
    assert (cpus[48].physical, cpus[72].physical) == (0, 24)


def test_ids_stay_as_the_kernel_gives_them(tmp_path: Path) -> None:
    machine = recorded("power9-gpu-nodes", tmp_path / "power9")
    assert [node.id for node in machine.nodes] == [0, 8, 252, 253, 254, 255]
    assert (machine.distance(8, 0), machine.distance(0, 255), machine.distance(252, 252)) == (40, 80, 10)
    assert {cpu.socket for cpu in recorded("dgx-spark-gb10", tmp_path / "spark").cpus} == {36}


def test_nodes_have_their_memory_and_their_cpus(tmp_path: Path) -> None:
    machine = recorded("threadripper-3960x-nps4", tmp_path / "threadripper")
    assert [node.memory_bytes for node in machine.nodes] == [0, 64307 * 2**20, 64472 * 2**20, 0]
    assert machine.sub_numa_clusters == {0: [0, 1, 2, 3]}
    alone = [node.id for node in recorded("xeon-max-snc4-hbm", tmp_path / "max").nodes if not node.cpus]
    assert alone == list(range(8, 16))


def test_a_container_is_held_to_its_cpuset_and_its_quota(tmp_path: Path) -> None:
    machine = recorded("container-cpuset-quota", tmp_path)
    assert (machine.allowed_cpus, machine.allowed_nodes, machine.quota) == ({1}, {0}, 0.5)


def test_favoured_cores_are_no_kind_of_their_own(tmp_path: Path) -> None:
    machine = recorded("raptor-lake-13900kf", tmp_path)
    assert {cpu.max_khz for cpu in machine.cpus if cpu.kind == "5800 MHz"} == {5500000, 5800000}


STATUS = "Name:\tx\nCpus_allowed_list:\t0,2\nMems_allowed_list:\t0-1\n"


def test_offline_cpus_are_not_there_and_ids_need_not_be_contiguous(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0,2\n",
            "sys/devices/system/cpu/present": "0-3\n",
            "sys/devices/system/cpu/cpu0/topology/core_id": "0\n",
            "sys/devices/system/cpu/cpu2/topology/core_id": "4\n",
            "sys/devices/system/cpu/cpu2/topology/physical_package_id": "1\n",
            "sys/devices/system/cpu/cpu2/topology/core_cpus_list": "2\n",
            "sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq": "3400000\n",
            "sys/devices/system/node/node0/cpulist": "0\n",
            "sys/devices/system/node/node1/cpulist": "2\n",
            "proc/self/status": STATUS,
        },
    )
    topology = read(tmp_path)
    assert topology.cpus == (Cpu(0, 0, 0, 0, None, (0,)), Cpu(2, 1, 4, 1, 3400000, (2,)))
    assert topology.nodes == (Node(0, (0,)), Node(1, (2,)))
    assert topology.offline == (1, 3)
    assert topology.allowed_cpus == {0, 2}
    assert topology.allowed_nodes == {0, 1}


BARE = {
    "sys/devices/system/cpu/online": "0-1\n",
    "sys/devices/system/cpu/cpu0/topology/physical_package_id": "-1\n",
    "sys/devices/system/cpu/cpu1/topology/physical_package_id": "-1\n",
    "proc/self/status": "Cpus_allowed_list:\t0-63\nMems_allowed_list:\t0-7\n",
}


def test_a_kernel_that_tells_no_socket_and_no_node_has_one_of_each(tmp_path: Path) -> None:
    write(tmp_path, BARE)
    topology = read(tmp_path)
    assert topology.cpus == (Cpu(0, 0, 0, 0, None, (0,)), Cpu(1, 0, 0, 0, None, (1,)))
    assert topology.nodes == (Node(0, (0, 1)),)


@pytest.mark.parametrize("name", ["core_cpus_list", "thread_siblings_list"])
def test_siblings_are_read_by_the_newer_name_or_the_older(tmp_path: Path, name: str) -> None:
    write(tmp_path, {**BARE, **{f"sys/devices/system/cpu/cpu{one}/topology/{name}": "0-1\n" for one in (0, 1)}})
    assert [cpu.siblings for cpu in read(tmp_path).cpus] == [(0, 1), (0, 1)]


def test_allowed_is_what_is_there(tmp_path: Path) -> None:
    write(tmp_path, BARE)
    topology = read(tmp_path)
    assert (topology.allowed_cpus, topology.allowed_nodes) == ({0, 1}, {0})


def test_cores_of_one_kind_are_left_alone_where_the_other_kind_is_off(tmp_path: Path) -> None:
    write(tmp_path, {**BARE, "sys/devices/cpu_core/cpus": "0-1\n", "sys/devices/cpu_atom/cpus": "\n"})
    assert read(tmp_path).kinds == ()


@pytest.mark.parametrize(("slower", "kinds"), [(1024, ()), (900, ()), (718, ("capacity 1024", "capacity 718"))])
def test_capacities_part_cores_only_where_they_differ_much(tmp_path: Path, slower: int, kinds: tuple[str, ...]) -> None:
    capacities = {0: slower, 1: 1024}
    files = {f"sys/devices/system/cpu/cpu{one}/cpu_capacity": f"{value}\n" for one, value in capacities.items()}
    write(tmp_path, {**BARE, **files})
    assert read(tmp_path).kinds == kinds


def test_the_smallest_quota_on_the_way_up_counts_in_cgroup_v2(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        },
    )
    assert read_quota(tmp_path) == 1.5


@pytest.mark.parametrize("mount", ["cpu,cpuacct", "cpu"])
def test_a_quota_of_cgroup_v1_is_read_wherever_it_is_mounted(tmp_path: Path, mount: str) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box\n0::/\n",
            f"sys/fs/cgroup/{mount}/box/cpu.cfs_quota_us": "200000\n",
            f"sys/fs/cgroup/{mount}/box/cpu.cfs_period_us": "100000\n",
            f"sys/fs/cgroup/{mount}/cpu.cfs_quota_us": "-1\n",
        },
    )
    assert read_quota(tmp_path) == 2.0


@pytest.mark.parametrize(
    ("group", "files"),
    [
        ("0::/system.slice/docker-0.scope", {"cpu.max": "50000 100000\n"}),
        ("1:cpu:/docker/0", {"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}),
    ],
)
def test_in_a_container_the_mount_is_its_group(tmp_path: Path, group: str, files: dict[str, str]) -> None:
    write(tmp_path, {"proc/self/cgroup": f"{group}\n"})
    write(tmp_path / "sys/fs/cgroup", files)
    assert read_quota(tmp_path) == 0.5


def test_no_cgroup_is_no_quota(tmp_path: Path) -> None:
    assert read_quota(tmp_path) is None


def test_libnuma_agrees_with_the_kernels_files_on_this_machine() -> None:
    assert disagreements(read(), binding.view()) == []


def test_what_libnuma_says_otherwise_is_said_in_words(tmp_path: Path) -> None:
    machine = recorded("threadripper-3960x-nps4", tmp_path)
    numa = NumaView(node_cpus={0: list(range(48)), 1: []}, allowed_cpus=list(range(24)), allowed_nodes=[0])
    assert machine.record(numa)["disagreements"] == [
        "Nodes: 0-3 in the kernel's files, 0-1 by libnuma.",
        "CPUs of node 0: 0-5,24-29 in the kernel's files, 0-47 by libnuma.",
        "CPUs of node 1: 6-11,30-35 in the kernel's files, none by libnuma.",
        "CPUs that this process may use: 0-47 in the kernel's files, 0-23 by libnuma.",
        "Memory nodes that this process may use: 1-2 in the kernel's files, 0 by libnuma.",
    ]


def test_a_question_that_libnuma_may_not_ask_is_no_disagreement(tmp_path: Path) -> None:
    machine = recorded("vm-1-node", tmp_path)
    assert disagreements(machine, NumaView({0: [0, 1]}, [0, 1], None)) == []
