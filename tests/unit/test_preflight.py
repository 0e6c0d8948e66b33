"""What will spoil a measurement is named with its value and its remedy; a quiet machine gets no warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpulab.host.preflight import Look, look, preflight
from cpulab.host.topology import Cpu, Topology

if TYPE_CHECKING:
    from pathlib import Path

    from cpulab.host.preflight import Finding

START = Look({cpu: {"idle": 0} for cpu in range(4)}, dict.fromkeys(range(4), 7))
CPU = "sys/devices/system/cpu"


def after(*, throttled: int = 7, **busy: int) -> Look:
    """Return a look 100 ticks later: ``cpu1=20`` spent 20 of them in user mode, all others were idle."""
    times = {cpu: {"user": busy.get(f"cpu{cpu}", 0), "idle": 100 - busy.get(f"cpu{cpu}", 0)} for cpu in range(4)}
    return Look(times, {**START.throttled, 1: throttled})


IDLE = after()


def topology(*, nodes: int = 1, quota: float | None = None, allowed: set[int] | None = None) -> Topology:
    cpus = tuple(Cpu(one, 0, one, one % nodes) for one in range(2))
    return Topology(cpus, frozenset({0, 1} if allowed is None else allowed), frozenset(range(nodes)), quota)


def with_siblings() -> Topology:
    """Return two cores of two hyper-threads each, numbered as on a Xeon: 0 and 2, 1 and 3."""
    cpus = tuple(Cpu(one, 0, one % 2, 0, siblings=(one % 2, one % 2 + 2)) for one in range(4))
    return Topology(cpus, frozenset(range(4)), frozenset({0}), quota=None)


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def warnings(root: Path, then: Look = IDLE, machine: Topology | None = None, cores: int = 2) -> dict[str, Finding]:
    cpus = [0, 1] if machine is None else sorted(machine.allowed_cpus & {0, 1})
    found = preflight(machine or topology(), cpus, cores, START, then, root=root)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


def names(root: Path, then: Look = IDLE, machine: Topology | None = None, cores: int = 2) -> list[str]:
    return list(warnings(root, then, machine, cores))


QUIET = {
    "proc/meminfo": "MemAvailable: 16777216 kB\nSwapTotal: 1024 kB\nSwapFree: 1024 kB\n",
    "proc/pressure/cpu": "some avg10=0.52 avg60=30.00 avg300=40.00 total=3500511809\nfull avg10=0.00 total=0\n",
    "proc/self/cgroup": "0::/group\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/fs/cgroup/group/memory.max": "17179869184\n",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "2600000\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu0/cpufreq/scaling_max_freq": "2600000\n",
    f"{CPU}/intel_pstate/no_turbo": "1\n",
}


def test_a_quiet_machine_gets_no_warning(tmp_path: Path) -> None:
    write(tmp_path, QUIET)
    assert names(tmp_path) == []


def test_a_machine_that_says_nothing_gets_no_warning(tmp_path: Path) -> None:
    assert names(tmp_path) == []


def test_the_time_of_each_cpu_is_read_and_the_sum_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"proc/stat": "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\nintr 5\n"})
    assert look(tmp_path).times == {
        1: {"user": 1, "nice": 2, "system": 3, "idle": 4, "iowait": 5, "irq": 6, "softirq": 7, "steal": 8}
    }


def test_a_cpus_throttlings_are_its_own_and_its_packages(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/stat": "cpu0 1 2 3 4 5 6 7 8 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\n",
            f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "3\n",
            f"{CPU}/cpu0/thermal_throttle/package_throttle_count": "40\n",
        },
    )
    assert look(tmp_path).throttled == {0: 43, 1: 0}


def test_a_busy_neighbour_is_other_load(tmp_path: Path) -> None:
    load = warnings(tmp_path, after(cpu1=20))["other load"]
    assert load.found == "10 % of CPUs 0-1 is in use by others, 20 % of CPU 1"


def test_one_busy_cpu_of_many_is_other_load_though_the_mean_is_small(tmp_path: Path) -> None:
    many = range(64)
    machine = Topology(tuple(Cpu(one, 0, one, 0) for one in many), frozenset(many), frozenset({0}), quota=None)
    before = Look({cpu: {"idle": 0} for cpu in many}, {})
    for busy, expected in ((100, ["other load"]), (20, [])):
        then = Look({cpu: {"idle": 100 - busy * (cpu == 9), "user": busy * (cpu == 9)} for cpu in many}, {})
        found = preflight(machine, many, 64, before, then, root=tmp_path)
        assert [one.name for one in found] == expected


def test_waiting_for_a_disk_is_not_load(tmp_path: Path) -> None:
    assert names(tmp_path, Look({0: {"idle": 50, "iowait": 50}, 1: {"idle": 100}}, {})) == []


def test_stolen_time_is_the_hypervisors_and_not_other_load(tmp_path: Path) -> None:
    assert names(tmp_path, Look({0: {"idle": 90, "steal": 10}, 1: {"idle": 100}}, {})) == ["steal"]


def test_load_on_a_cpu_outside_the_plan_does_not_count(tmp_path: Path) -> None:
    then = Look({0: {"idle": 100}, 1: {"user": 100}}, {})
    assert preflight(topology(), [0], 1, START, then, root=tmp_path) == []


def test_load_on_a_sibling_of_a_planned_cpu_counts(tmp_path: Path) -> None:
    found = warnings(tmp_path, after(cpu3=90), with_siblings())
    assert list(found) == ["SMT siblings"]
    assert "90 % of CPU 3" in found["SMT siblings"].found
    machine = with_siblings()
    assert preflight(machine, [0], 1, START, after(cpu3=90), root=tmp_path) == []


def test_a_clock_that_has_not_ticked_is_no_load(tmp_path: Path) -> None:
    assert names(tmp_path, START) == []


def test_throttling_between_the_looks_is_said_and_throttling_before_them_is_not(tmp_path: Path) -> None:
    assert names(tmp_path, after(throttled=7)) == []
    assert warnings(tmp_path, after(throttled=8))["thermal throttling"].found.startswith("CPUs 1 ")


def test_processes_that_wait_for_a_cpu_are_said(tmp_path: Path) -> None:
    write(tmp_path, {"proc/pressure/cpu": "some avg10=35.20 avg60=1.00 avg300=0.00 total=1\n"})
    assert "35 %" in warnings(tmp_path)["pressure"].found


def test_a_quota_below_the_cores_asked_for_is_said(tmp_path: Path) -> None:
    assert names(tmp_path, machine=topology(quota=1.5)) == ["CPU quota"]
    assert names(tmp_path, machine=topology(quota=2.0)) == []


def test_a_cpuset_that_leaves_fewer_cores_than_would_be_used_is_said(tmp_path: Path) -> None:
    found = warnings(tmp_path, machine=topology(allowed={1}))
    assert found["fewer cores"].found == "affinity or cpuset leaves 1 of the 2 cores that would be used"
    assert names(tmp_path, machine=topology(allowed={1}), cores=1) == []


def test_cores_that_the_plan_leaves_out_by_itself_are_not_missing(tmp_path: Path) -> None:
    """`--cores all` counts hyper-threads, of which the plan takes one a core."""
    assert names(tmp_path, machine=with_siblings(), cores=4) == []


def test_a_governor_that_saves_power_is_said_with_the_command_that_changes_it(tmp_path: Path) -> None:
    write(tmp_path, {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave\n"})
    found = warnings(tmp_path)
    assert [(one.name, one.found) for one in found.values()] == [("frequency governor", "powersave")]
    assert "performance" in found["frequency governor"].remedy


def test_a_frequency_limit_below_the_hardwares_is_said(tmp_path: Path) -> None:
    folder = f"{CPU}/cpu1/cpufreq"
    write(tmp_path, {f"{folder}/cpuinfo_max_freq": "3400000\n", f"{folder}/scaling_max_freq": "2600000\n"})
    limit = warnings(tmp_path)["frequency limit"]
    assert limit.found == "CPUs 1 are held at 2.6 GHz, 3.4 GHz is possible"
    assert "-u 3.4GHz" in limit.remedy


def test_turbo_is_said_for_either_driver(tmp_path: Path) -> None:
    write(tmp_path / "intel", {f"{CPU}/intel_pstate/no_turbo": "0\n"})
    write(tmp_path / "amd", {f"{CPU}/cpufreq/boost": "1\n"})
    write(tmp_path / "off", {f"{CPU}/cpufreq/boost": "0\n"})
    assert [names(tmp_path / one) for one in ("intel", "amd", "off")] == [["turbo"], ["turbo"], []]


def test_swap_in_use_and_little_memory_are_said(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": "MemAvailable: 1048576 kB\nSwapTotal: 1024 kB\nSwapFree: 0 kB\n"})
    assert names(tmp_path) == ["swap", "memory"]


@pytest.mark.parametrize(
    ("group", "file", "limit"),
    [
        ("0::/group", "sys/fs/cgroup/group/memory.max", "1073741824"),
        ("0::/group/inner", "sys/fs/cgroup/group/memory.max", "1073741824"),
        ("4:memory:/docker/0123", "sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824"),
    ],
)
def test_a_memory_limit_of_a_container_is_said(tmp_path: Path, group: str, file: str, limit: str) -> None:
    write(tmp_path, {"proc/self/cgroup": f"{group}\n", file: f"{limit}\n"})
    assert warnings(tmp_path)["memory limit"].found == "the cgroup grants 1.0 GiB"


@pytest.mark.parametrize(
    ("group", "file", "limit"),
    [
        ("0::/group", "sys/fs/cgroup/group/memory.max", "max"),
        ("0::/", "sys/fs/cgroup/other/memory.max", "1073741824"),
        ("4:memory:/", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712"),
    ],
)
def test_no_memory_limit_is_no_warning(tmp_path: Path, group: str, file: str, limit: str) -> None:
    write(tmp_path, {"proc/self/cgroup": f"{group}\n", file: f"{limit}\n"})
    assert names(tmp_path) == []


def test_numa_balancing_matters_on_several_nodes_only(tmp_path: Path) -> None:
    write(tmp_path, {"proc/sys/kernel/numa_balancing": "1\n"})
    assert names(tmp_path, machine=topology(nodes=2)) == ["NUMA balancing"]
    assert names(tmp_path) == []


@pytest.mark.parametrize("source", ["hpet", "acpi_pm", "xen"])
def test_a_clock_that_takes_a_system_call_is_said(tmp_path: Path, source: str) -> None:
    write(tmp_path, {"sys/devices/system/clocksource/clocksource0/current_clocksource": f"{source}\n"})
    assert warnings(tmp_path)["clock source"].found.startswith(source)


@pytest.mark.parametrize("source", ["tsc", "kvm-clock", "arch_sys_counter"])
def test_a_clock_that_takes_none_is_no_warning(tmp_path: Path, source: str) -> None:
    write(tmp_path, {"sys/devices/system/clocksource/clocksource0/current_clocksource": f"{source}\n"})
    assert names(tmp_path) == []
