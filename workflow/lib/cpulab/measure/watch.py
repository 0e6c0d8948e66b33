"""What else used the machine while rounds were measured: kernel counters and a sentinel. Runs in the measured process.

Formats: Documentation/filesystems/proc.rst (stat, loadavg), Documentation/scheduler/sched-stats.rst (schedstat) and
Documentation/admin-guide/pm/cpufreq.rst of the Linux kernel.
"""

from __future__ import annotations

import os
import resource
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The kernel's counters and the sentinel may take this share of the measured time: a stretch lasts accordingly.
COST = 1 / 800

# A reading of the sentinel is the shortest of so many runs: one can be unlucky, a busy machine makes all of them slow.
SENTINEL_RUNS = 3

# Where a stretch counts as disturbed: shares of its time, and times the sentinel's typical reading. Quiet and busy
# machines recorded in tests/data/measure/machines lie on both sides.
WAITED, STEAL, OTHERS, SENTINEL, FREQUENCY = 0.02, 0.02, 0.1, 1.5, 0.95
# Involuntary switches a second and thread: looked at only where the kernel does not tell how long threads waited.
INVOLUNTARY = 50.0

# The kernel counts CPU time in ticks, of 10 ms at worst: shares of less time than this are too coarse to judge by.
COUNTED_S = 0.5

_SCHEDSTAT = Path("/proc/self/schedstat")


@dataclass(frozen=True)
class Reading:
    """Counters at one moment; a field is None where this machine does not tell.

    ``waited_s``: seconds that this process's threads were runnable and had no CPU; ``own_s``: CPU time of the process;
    ``busy_s``, ``steal_s``: CPU time spent on the allowed CPUs, and taken from them by a hypervisor; ``running``:
    runnable threads of the whole machine.
    """

    time_s: float
    sentinel_s: float
    waited_s: float | None
    own_s: float
    involuntary: int
    busy_s: float | None
    steal_s: float | None
    running: int | None
    frequency_hz: float | None


class Watch:
    """Reads the counters before, between and after rounds, and says which rounds something disturbed.

    ``sentinel``: a short fixed piece of work on all threads. ``typical_s``: the sentinel's typical reading in the
    quietest process so far, None in the first one.
    """

    def __init__(self, sentinel: Callable[[], object], *, threads: int, typical_s: float | None) -> None:
        self._sentinel = sentinel
        self._threads = threads
        self._typical_s = typical_s
        self._cpus = frozenset(f"cpu{cpu}" for cpu in os.sched_getaffinity(0))
        self._frequencies = [
            path
            for cpu in sorted(os.sched_getaffinity(0))
            if (path := Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")).exists()
        ]
        # What it does once, such as starting threads, is no reading.
        self._read()
        self.seconds = 0.0
        self._ends: list[int] = []
        self._readings = [self._timed()]

    def after_round(self, rounds: int) -> None:
        """Take a reading after the first ``rounds`` rounds, if the stretch since the last one is worth its cost."""
        if time.perf_counter() - self._readings[-1].time_s >= self._cost_s / COST:
            self.close(rounds)

    def close(self, rounds: int) -> None:
        """Take a reading after the first ``rounds`` rounds, unless it was taken."""
        if rounds > (self._ends[-1] if self._ends else 0):
            self._readings.append(self._timed())
            self._ends.append(rounds)

    def stretches(self) -> list[dict[str, Any]]:
        """Return a row for each stretch of rounds: what was read, whether it counts as disturbed, and why."""
        typical_s = self.sentinel_s
        rows = []
        begins = [0, *self._ends]
        for place, (first, end) in enumerate(zip(begins, self._ends, strict=False)):
            row = between(self._readings[place], self._readings[place + 1], threads=self._threads, cpus=len(self._cpus))
            because = reasons(row, typical_s, self._frequency_hz(), self._threads)
            rows.append(
                {
                    "first_round": first,
                    "rounds": end - first,
                    **row,
                    "disturbed": bool(because),
                    "because": ", ".join(because),
                }
            )
        return rows

    def disturbed(self) -> list[int]:
        """Return the rounds of disturbed stretches."""
        return [
            row["first_round"] + number
            for row in self.stretches()
            if row["disturbed"]
            for number in range(row["rounds"])
        ]

    @property
    def sentinel_s(self) -> float:
        """The sentinel's typical reading: of this process, or of an earlier one that was quieter."""
        own = statistics.median(reading.sentinel_s for reading in self._readings)
        return own if self._typical_s is None else min(own, self._typical_s)

    def _frequency_hz(self) -> float | None:
        known = [reading.frequency_hz for reading in self._readings if reading.frequency_hz is not None]
        return statistics.median(known) if known else None

    def _timed(self) -> Reading:
        start = time.perf_counter()
        reading = self._read()
        self._cost_s = time.perf_counter() - start
        self.seconds += self._cost_s
        return reading

    def _read(self) -> Reading:
        runs = []
        for _ in range(SENTINEL_RUNS):
            start = time.perf_counter()
            self._sentinel()
            runs.append(time.perf_counter() - start)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        busy_s, steal_s = _allowed_cpus(self._cpus)
        return Reading(
            time_s=time.perf_counter(),
            sentinel_s=min(runs),
            waited_s=_waited_s(),
            own_s=usage.ru_utime + usage.ru_stime,
            involuntary=usage.ru_nivcsw,
            busy_s=busy_s,
            steal_s=steal_s,
            running=_running(),
            frequency_hz=_mean([1e3 * float(path.read_text()) for path in self._frequencies]),
        )


def between(before: Reading, after: Reading, *, threads: int, cpus: int) -> dict[str, Any]:
    """Return what happened between two readings.

    ``waited`` is a share of the time of ``threads``; ``steal`` and ``others`` are shares of that of the allowed CPUs.
    """
    seconds = after.time_s - before.time_s

    def share(start: float | None, end: float | None, of: int) -> float | None:
        return None if start is None or end is None else max(0.0, end - start) / (of * seconds)

    busy = share(before.busy_s, after.busy_s, cpus)
    own = share(before.own_s, after.own_s, cpus)
    return {
        "seconds": seconds,
        # The stretch lies between two readings of it, and the worse one speaks.
        "sentinel_s": max(before.sentinel_s, after.sentinel_s),
        "waited": share(before.waited_s, after.waited_s, threads),
        "steal": share(before.steal_s, after.steal_s, cpus),
        "others": None if busy is None or own is None else max(0.0, busy - own),
        "involuntary": after.involuntary - before.involuntary,
        "running": after.running,
        "frequency_hz": after.frequency_hz,
    }


def reasons(
    row: dict[str, Any], typical_sentinel_s: float, typical_frequency_hz: float | None, threads: int
) -> list[str]:
    """Say why a stretch (a row of `between`) counts as disturbed; nothing where it does not."""
    found = []
    if row["sentinel_s"] > SENTINEL * typical_sentinel_s:
        found.append(f"the sentinel took {row['sentinel_s'] / typical_sentinel_s:.1f} times its typical time")
    if row["waited"] is not None and row["waited"] > WAITED:
        found.append(f"threads waited for a CPU {100 * row['waited']:.0f} % of the time")
    rate = row["involuntary"] / (threads * row["seconds"])
    if row["waited"] is None and rate > INVOLUNTARY:
        found.append(f"each thread was switched out {rate:.0f} times a second")
    if row["seconds"] >= COUNTED_S:
        if (row["steal"] or 0) > STEAL:
            found.append(f"the hypervisor took {100 * row['steal']:.0f} % of the CPU time")
        if (row["others"] or 0) > OTHERS:
            found.append(f"other processes took {100 * row['others']:.0f} % of the CPU time")
    if (
        typical_frequency_hz
        and row["frequency_hz"] is not None
        and row["frequency_hz"] < FREQUENCY * typical_frequency_hz
    ):
        found.append(f"the CPUs ran at {row['frequency_hz'] / 1e9:.2f} GHz instead of {typical_frequency_hz / 1e9:.2f}")
    return found


def parallel_sentinel() -> Callable[[], object]:
    """Return a sentinel for the measured arms' threads: one parallel addition of 2 x 1 MiB into a third."""
    import torch

    elements = 1 << 18
    one, other, total = (torch.ones(elements) for _ in range(3))
    return lambda: torch.add(one, other, out=total)


def _waited_s() -> float | None:
    """Return the second field of each thread's schedstat, summed: nanoseconds on a run queue; None where not kept."""
    if not _SCHEDSTAT.exists():
        return None
    return sum(_run_delay_ns(task.path) for task in os.scandir("/proc/self/task")) / 1e9


def _run_delay_ns(task: str) -> int:
    try:
        with open(f"{task}/schedstat", "rb") as stream:  # noqa: PTH123 - half the time of a Path, many times a second
            return int(stream.read().split()[1])
    except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
        return 0


def _allowed_cpus(cpus: frozenset[str]) -> tuple[float | None, float | None]:
    """Return (busy, steal) seconds of these CPUs together, from /proc/stat."""
    tick = os.sysconf("SC_CLK_TCK")
    busy = steal = 0
    found = False
    with open("/proc/stat", encoding="ascii") as stream:  # noqa: PTH123 - as above
        for line in stream:
            name, *fields = line.split()
            if not name.startswith("cpu"):
                break
            if name in cpus:
                found = True
                # user nice system idle iowait irq softirq steal; guest time is in user already.
                user, nice, system, _, _, irq, softirq, stolen = map(int, fields[:8])
                busy += user + nice + system + irq + softirq
                steal += stolen
    return (busy / tick, steal / tick) if found else (None, None)


def _running() -> int | None:
    with open("/proc/loadavg", encoding="ascii") as stream:  # noqa: PTH123 - as above
        fields = stream.read().split()
    return int(fields[3].split("/")[0]) if len(fields) > 3 else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
