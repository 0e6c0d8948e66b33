"""The kernel's files become a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpulab.host.topology import format_list, parse_list, read, read_quota

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("text", ["0", "0-3", "0-3,8", "1,3,5-7", ""])
def test_a_kernel_list_survives_parsing_and_formatting(text: str) -> None:
    assert format_list(parse_list(text)) == text


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


STATUS = "Name:\tx\nCpus_allowed_list:\t0,2\nMems_allowed_list:\t0-1\n"


def test_offline_cpus_are_not_there_and_ids_need_not_be_contiguous(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0,2\n",
            "sys/devices/system/cpu/cpu0/topology/core_id": "0\n",
            "sys/devices/system/cpu/cpu2/topology/core_id": "4\n",
            "sys/devices/system/cpu/cpu2/topology/physical_package_id": "1\n",
            "sys/devices/system/cpu/cpu2/cpufreq/cpuinfo_max_freq": "3400000\n",
            "sys/devices/system/node/node0/cpulist": "0\n",
            "sys/devices/system/node/node1/cpulist": "2\n",
            "proc/self/status": STATUS,
        },
    )
    topology = read(tmp_path)
    assert [(cpu.id, cpu.socket, cpu.core, cpu.node, cpu.max_khz) for cpu in topology.cpus] == [
        (0, 0, 0, 0, None),
        (2, 1, 4, 1, 3400000),
    ]
    assert topology.allowed_cpus == {0, 2}
    assert topology.allowed_nodes == {0, 1}


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


def test_a_quota_of_cgroup_v1_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/box\n2:memory:/box\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        },
    )
    assert read_quota(tmp_path) == 2.0


def test_no_cgroup_is_no_quota(tmp_path: Path) -> None:
    assert read_quota(tmp_path) is None
