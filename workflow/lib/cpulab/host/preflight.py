"""What on this machine will spoil a measurement, with its remedy. It only looks; it never changes the machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.host.kernel import fields, text
from cpulab.host.topology import SYSFS_CPU, format_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.host.topology import Topology

WATCH_S = 1.0
BUSY_SHARE, STOLEN_SHARE = 0.05, 0.01
MEMORY_NEEDED = 4 * 2**30

# /proc/stat's columns after the name of a CPU (proc_stat(5)); guest time is in user time already.
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


@dataclass(frozen=True)
class Finding:
    """Something that will spoil a measurement: what, the value that was read, and what to do."""

    name: str
    found: str
    remedy: str


def cpu_times(root: Path = Path("/")) -> dict[int, dict[str, int]]:
    """Read the time each CPU has spent in each state since the machine started, in clock ticks (/proc/stat)."""
    times = {}
    for line in (root / "proc/stat").read_text().splitlines():
        name, *values = line.split()
        if name.startswith("cpu") and name != "cpu":
            times[int(name.removeprefix("cpu"))] = dict(zip(FIELDS, map(int, values), strict=False))
    return times


def preflight(
    topology: Topology,
    cpus: Sequence[int],
    cores_asked: int,
    before: Mapping[int, Mapping[str, int]],
    after: Mapping[int, Mapping[str, int]],
    *,
    root: Path = Path("/"),
) -> list[Finding]:
    """Return the warnings for a measurement on ``cpus``.

    ``before`` and ``after``: `cpu_times` around a while in which nothing of ours ran.
    """
    return [
        *_load(cpus, before, after),
        *_quota(topology, cores_asked),
        *_frequency(cpus, root),
        *_memory(topology, root),
    ]


def watch(topology: Topology, cpus: Sequence[int], cores_asked: int) -> list[Finding]:
    """Watch this machine for a second and return its warnings, as `preflight`."""
    before = cpu_times()
    time.sleep(WATCH_S)
    return preflight(topology, cpus, cores_asked, before, cpu_times())


def _load(
    cpus: Sequence[int], before: Mapping[int, Mapping[str, int]], after: Mapping[int, Mapping[str, int]]
) -> list[Finding]:
    spent = {
        name: sum(after[cpu].get(name, 0) - before[cpu].get(name, 0) for cpu in cpus if cpu in before and cpu in after)
        for name in FIELDS
    }
    total = sum(spent.values())
    if total == 0:  # the clock has not ticked
        return []
    busy = 1 - (spent["idle"] + spent["iowait"] + spent["steal"]) / total
    stolen = spent["steal"] / total
    warnings = []
    if busy > BUSY_SHARE:
        found = f"{100 * busy:.0f} % of CPUs {format_list(list(cpus))} is in use by others"
        warnings.append(Finding("other load", found, "end or move the other processes; `top` names them"))
    if stolen > STOLEN_SHARE:
        found = f"the hypervisor gives {100 * stolen:.0f} % of the time to other guests"
        warnings.append(Finding("steal", found, "use a host of your own, or measure when its other guests are idle"))
    return warnings


def _quota(topology: Topology, cores_asked: int) -> list[Finding]:
    if topology.quota is None or topology.quota >= cores_asked:
        return []
    found = f"the cgroup grants the time of {topology.quota:g} CPUs, {cores_asked} cores are asked for"
    return [Finding("CPU quota", found, "raise the quota (docker: --cpus), or ask for fewer cores")]


def _frequency(cpus: Sequence[int], root: Path) -> list[Finding]:
    warnings = []
    governors = {
        governor
        for cpu in cpus
        if (governor := text(root / SYSFS_CPU / f"cpu{cpu}" / "cpufreq" / "scaling_governor")) is not None
    }
    if governors - {"performance"}:
        remedy = "sudo cpupower frequency-set -g performance"
        warnings.append(Finding("frequency governor", ", ".join(sorted(governors)), remedy))
    no_turbo = text(root / SYSFS_CPU / "intel_pstate" / "no_turbo")
    if no_turbo == "0" or text(root / SYSFS_CPU / "cpufreq" / "boost") == "1":
        remedy = "leave it if absolute times matter less than ratios; else switch it off in the firmware"
        warnings.append(Finding("turbo", "on: the frequency depends on load and temperature", remedy))
    return warnings


def _memory(topology: Topology, root: Path) -> list[Finding]:
    meminfo = fields(text(root / "proc/meminfo") or "")
    sizes = {name: int(value.split()[0]) * 1024 for name, value in meminfo.items()}
    warnings = []
    swapped = sizes.get("SwapTotal", 0) - sizes.get("SwapFree", 0)
    if swapped > 0:
        found = f"{swapped / 2**20:.0f} MiB in use"
        warnings.append(Finding("swap", found, "free memory, then sudo swapoff -a for the time of the measurement"))
    available = sizes.get("MemAvailable")
    if available is not None and available < MEMORY_NEEDED:
        found = f"{available / 2**30:.1f} GiB available"
        warnings.append(Finding("memory", found, "free some: the tutorial preset wants 4 GiB"))
    nodes = {cpu.node for cpu in topology.cpus}
    if len(nodes) > 1 and text(root / "proc/sys/kernel/numa_balancing") not in {None, "0"}:
        remedy = "sudo sysctl kernel.numa_balancing=0"
        warnings.append(Finding("NUMA balancing", "on: the kernel moves pages between nodes", remedy))
    return warnings
