"""What on this machine will spoil a measurement, with its remedy. It only looks; it never changes the machine."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.host.kernel import kib_fields, memory_limit, number, text
from cpulab.host.plan import plan
from cpulab.host.topology import SYSFS_CPU, format_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cpulab.host.topology import Topology

WATCH_S = 1.0

# A parallel region waits for its slowest thread, so one busy CPU spoils as much as all of them a little busy.
BUSY_SHARE, BUSY_SHARE_OF_ONE, STOLEN_SHARE = 0.05, 0.25, 0.01
WAITING_PERCENT = 10.0
MEMORY_NEEDED = 4 * 2**30

# /proc/stat's columns after the name of a CPU (proc_stat(5)); guest time is in user time already.
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")

# The clock sources that are read without a system call: arch/x86/include/asm/vdso/clocksource.h and its like elsewhere.
FAST_CLOCKS = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource", "timebase"}


@dataclass(frozen=True)
class Finding:
    """Something that will spoil a measurement: what, the value that was read, and what to do."""

    name: str
    found: str
    remedy: str


@dataclass(frozen=True)
class Look:
    """What the kernel has counted up to now: each CPU's time in each state in clock ticks, and its throttlings."""

    times: Mapping[int, Mapping[str, int]]
    throttled: Mapping[int, int]


def look(root: Path = Path("/")) -> Look:
    """Read the counters below ``root``: /proc/stat, and where there are any those of Intel's thermal throttling.

    Source: Documentation/ABI/testing/sysfs-devices-system-cpu, thermal_throttle; a package's count stands in the folder
    of each of its CPUs.
    """
    times = {}
    for line in (root / "proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            times[int(name.removeprefix("cpu"))] = dict(zip(FIELDS, map(int, values), strict=False))
    counts = ("core_throttle_count", "package_throttle_count")
    throttled = {
        cpu: sum(number(root / SYSFS_CPU / f"cpu{cpu}" / "thermal_throttle" / name) or 0 for name in counts)
        for cpu in times
    }
    return Look(times, throttled)


def preflight(
    topology: Topology, cpus: Sequence[int], cores_asked: int, before: Look, after: Look, *, root: Path = Path("/")
) -> list[Finding]:
    """Return the warnings for a measurement on ``cpus``.

    ``before`` and ``after``: looks around a while in which nothing of ours ran. A virtual machine is not a warning by
    itself: what it does to a measurement shows as steal.
    """
    return [
        *_load(topology, cpus, before, after),
        *_throttling(cpus, before, after),
        *_pressure(root),
        *_cores(topology, cpus, cores_asked),
        *_frequency(cpus, root),
        *_memory(topology, root),
        *_clock(root),
    ]


def watch(topology: Topology, cpus: Sequence[int], cores_asked: int) -> list[Finding]:
    """Watch this machine for a second and return its warnings, as `preflight`."""
    before = look()
    time.sleep(WATCH_S)
    return preflight(topology, cpus, cores_asked, before, look())


def _spent(cpus: Iterable[int], before: Look, after: Look) -> dict[int, dict[str, int]]:
    """Return the ticks each CPU spent in each state between the looks, without the CPUs whose clock has not ticked."""
    spent = {
        cpu: {name: after.times[cpu].get(name, 0) - before.times[cpu].get(name, 0) for name in FIELDS}
        for cpu in cpus
        if cpu in before.times and cpu in after.times
    }
    return {cpu: ticks for cpu, ticks in spent.items() if sum(ticks.values()) > 0}


def _busy(ticks: Mapping[str, int]) -> float:
    return 1 - (ticks["idle"] + ticks["iowait"] + ticks["steal"]) / sum(ticks.values())


def _in_use(shares: Mapping[int, float]) -> str | None:
    """Return how much of CPUs is in use, or None where it is too little to matter."""
    if not shares:
        return None
    mean, (worst, most) = sum(shares.values()) / len(shares), max(shares.items(), key=lambda one: one[1])
    if mean <= BUSY_SHARE and most <= BUSY_SHARE_OF_ONE:
        return None
    busiest = f", {100 * most:.0f} % of CPU {worst}" if len(shares) > 1 else ""
    return f"{100 * mean:.0f} % of CPUs {format_list(list(shares))} is in use by others{busiest}"


def _load(topology: Topology, cpus: Sequence[int], before: Look, after: Look) -> list[Finding]:
    spent = _spent(cpus, before, after)
    cores = {one.physical for one in topology.cpus if one.id in cpus}
    siblings = [one.id for one in topology.cpus if one.physical in cores and one.id not in cpus]
    warnings = []
    found = _in_use({cpu: _busy(ticks) for cpu, ticks in spent.items()})
    if found is not None:
        warnings.append(Finding("other load", found, "end or move the other processes; `top` names them"))
    found = _in_use({cpu: _busy(ticks) for cpu, ticks in _spent(siblings, before, after).items()})
    if found is not None:
        remedy = "end or move the other processes: these hyper-threads share their cores with the measurement"
        warnings.append(Finding("SMT siblings", found, remedy))
    stolen = sum(ticks["steal"] for ticks in spent.values()) / (sum(sum(one.values()) for one in spent.values()) or 1)
    if stolen > STOLEN_SHARE:
        found = f"the hypervisor gives {100 * stolen:.0f} % of the time to other guests"
        warnings.append(Finding("steal", found, "use a host of your own, or measure when its other guests are idle"))
    return warnings


def _throttling(cpus: Sequence[int], before: Look, after: Look) -> list[Finding]:
    rising = [cpu for cpu in cpus if after.throttled.get(cpu, 0) > before.throttled.get(cpu, 0)]
    if not rising:
        return []
    found = f"CPUs {format_list(rising)} were slowed down for their heat while nothing of ours ran"
    return [Finding("thermal throttling", found, "wait until they are cool, and look after the cooling")]


def _pressure(root: Path) -> list[Finding]:
    """Source: Documentation/accounting/psi.rst; 10 s is its shortest mean."""
    some = re.search(r"^some avg10=([\d.]+)", text(root / "proc/pressure/cpu") or "", flags=re.MULTILINE)
    if some is None or float(some[1]) <= WAITING_PERCENT:
        return []
    found = f"for {float(some[1]):.0f} % of the last 10 s a process waited for a CPU"
    return [Finding("pressure", found, "end or move the other processes, or wait until they are done")]


def _cores(topology: Topology, cpus: Sequence[int], cores_asked: int) -> list[Finding]:
    if topology.quota is not None and topology.quota < cores_asked:
        found = f"the cgroup grants the time of {topology.quota:g} CPUs, {cores_asked} cores are asked for"
        return [Finding("CPU quota", found, "raise the quota (docker: --cpus), or ask for fewer cores")]
    # What the plan leaves out by itself (other sockets, second hyper-threads) is left out without a limit as well.
    everything = replace(topology, allowed_cpus=frozenset(one.id for one in topology.cpus), quota=None)
    without_limits = len(plan(everything, cores_asked).cpus)
    if len(cpus) >= without_limits:
        return []
    found = f"affinity or cpuset leaves {len(cpus)} of the {without_limits} cores that would be used"
    return [Finding("fewer cores", found, "allow more CPUs (taskset, docker: --cpuset-cpus), or ask for fewer cores")]


def _frequency(cpus: Sequence[int], root: Path) -> list[Finding]:
    warnings = []
    folders = {cpu: root / SYSFS_CPU / f"cpu{cpu}" / "cpufreq" for cpu in cpus}
    governors = {said for folder in folders.values() if (said := text(folder / "scaling_governor")) is not None}
    if governors - {"performance"}:
        remedy = "sudo cpupower frequency-set -g performance"
        warnings.append(Finding("frequency governor", ", ".join(sorted(governors)), remedy))
    lowered = {}
    for cpu, folder in folders.items():
        limit, most = number(folder / "scaling_max_freq"), number(folder / "cpuinfo_max_freq")
        if limit is not None and most is not None and limit < most:
            lowered[cpu] = limit, most
    if lowered:
        limit, most = min(lowered.values())
        found = f"CPUs {format_list(list(lowered))} are held at {limit / 1e6:g} GHz, {most / 1e6:g} GHz is possible"
        warnings.append(Finding("frequency limit", found, f"sudo cpupower frequency-set -u {most / 1e6:g}GHz"))
    no_turbo = text(root / SYSFS_CPU / "intel_pstate" / "no_turbo")
    if no_turbo == "0" or text(root / SYSFS_CPU / "cpufreq" / "boost") == "1":
        remedy = "leave it if absolute times matter less than ratios; else switch it off in the firmware"
        warnings.append(Finding("turbo", "on: the frequency depends on load and temperature", remedy))
    return warnings


def _memory(topology: Topology, root: Path) -> list[Finding]:
    sizes = kib_fields(text(root / "proc/meminfo") or "")
    warnings = []
    swapped = sizes.get("SwapTotal", 0) - sizes.get("SwapFree", 0)
    if swapped > 0:
        found = f"{swapped / 2**20:.0f} MiB in use"
        warnings.append(Finding("swap", found, "free memory, then sudo swapoff -a for the time of the measurement"))
    available = sizes.get("MemAvailable")
    if available is not None and available < MEMORY_NEEDED:
        found = f"{available / 2**30:.1f} GiB available"
        warnings.append(Finding("memory", found, "free some: the tutorial preset wants 4 GiB"))
    limit = memory_limit(root)
    if limit is not None and limit < MEMORY_NEEDED:
        found = f"the cgroup grants {limit / 2**30:.1f} GiB"
        warnings.append(Finding("memory limit", found, "raise it (docker: --memory): the tutorial preset wants 4 GiB"))
    nodes = {cpu.node for cpu in topology.cpus}
    if len(nodes) > 1 and text(root / "proc/sys/kernel/numa_balancing") not in {None, "0"}:
        remedy = "sudo sysctl kernel.numa_balancing=0"
        warnings.append(Finding("NUMA balancing", "on: the kernel moves pages between nodes", remedy))
    return warnings


def _clock(root: Path) -> list[Finding]:
    source = text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
    if source is None or source in FAST_CLOCKS:
        return []
    found = f"{source}: each reading of the time is a system call"
    return [Finding("clock source", found, "find out why the kernel gave up tsc (sudo dmesg | grep -i tsc)")]
