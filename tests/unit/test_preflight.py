"""What will spoil a measurement is named with its value and its remedy; a quiet machine gets no warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpulab.host.preflight import cpu_times, preflight
from cpulab.host.topology import Cpu, Topology

if TYPE_CHECKING:
    from pathlib import Path

IDLE = {0: {"idle": 100}, 1: {"idle": 100}}


def topology(*, nodes: int = 1, quota: float | None = None) -> Topology:
    cpus = tuple(Cpu(one, 0, one, one % nodes) for one in range(2))
    return Topology(cpus, frozenset({0, 1}), frozenset(range(nodes)), quota)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def names(root: Path, after: dict[int, dict[str, int]] = IDLE, machine: Topology | None = None) -> list[str]:
    before = {0: {"idle": 0}, 1: {"idle": 0}}
    return [one.name for one in preflight(machine or topology(), [0, 1], 2, before, after, root=root)]


def test_a_quiet_machine_gets_no_warning(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/meminfo": "MemAvailable: 16777216 kB\nSwapTotal: 1024 kB\nSwapFree: 1024 kB\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        },
    )
    assert names(tmp_path) == []


def test_the_time_of_each_cpu_is_read_and_the_sum_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5\n"})
    assert cpu_times(tmp_path) == {
        1: {"user": 1, "nice": 2, "system": 3, "idle": 4, "iowait": 5, "irq": 6, "softirq": 7, "steal": 8}
    }


def test_a_busy_neighbour_is_other_load(tmp_path: Path) -> None:
    assert names(tmp_path, {0: {"idle": 100}, 1: {"idle": 80, "user": 20}}) == ["other load"]


def test_waiting_for_a_disk_is_not_load(tmp_path: Path) -> None:
    assert names(tmp_path, {0: {"idle": 50, "iowait": 50}, 1: {"idle": 100}}) == []


def test_stolen_time_is_the_hypervisors_and_not_other_load(tmp_path: Path) -> None:
    assert names(tmp_path, {0: {"idle": 90, "steal": 10}, 1: {"idle": 100}}) == ["steal"]


def test_load_on_a_cpu_outside_the_plan_does_not_count(tmp_path: Path) -> None:
    before = {0: {"idle": 0}, 1: {"idle": 0}}
    after = {0: {"idle": 100}, 1: {"user": 100}}
    assert preflight(topology(), [0], 1, before, after, root=tmp_path) == []


def test_a_quota_below_the_cores_asked_for_is_said(tmp_path: Path) -> None:
    assert names(tmp_path, machine=topology(quota=1.5)) == ["CPU quota"]
    assert names(tmp_path, machine=topology(quota=2.0)) == []


def test_a_governor_that_saves_power_is_said_with_the_command_that_changes_it(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n"})
    warnings = preflight(topology(), [0, 1], 2, IDLE, IDLE, root=tmp_path)
    assert [(one.name, one.found) for one in warnings] == [("frequency governor", "powersave")]
    assert "performance" in warnings[0].remedy


def test_turbo_is_said_for_either_driver(tmp_path: Path) -> None:
    write(tmp_path / "intel", {"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"})
    write(tmp_path / "amd", {"sys/devices/system/cpu/cpufreq/boost": "1\n"})
    assert [names(tmp_path / one) for one in ("intel", "amd")] == [["turbo"], ["turbo"]]


def test_swap_in_use_and_little_memory_are_said(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable: 1048576 kB\nSwapTotal: 1024 kB\nSwapFree: 0 kB\n"})
    assert names(tmp_path) == ["swap", "memory"]


def test_numa_balancing_matters_on_several_nodes_only(tmp_path: Path) -> None:
    write(tmp_path, {"proc/sys/kernel/numa_balancing": "1\n"})
    assert names(tmp_path, machine=topology(nodes=2)) == ["NUMA balancing"]
    assert names(tmp_path) == []
