"""What is seen of others on the machine while rounds are measured."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.measure import watch
from cpulab.measure.watch import Reading, Watch, between, reasons
from cpulab.measure.worker import take

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET: dict[str, Any] = {
    "seconds": 1.0, "sentinel_s": 1e-4, "waited": 0.003, "steal": 0.0, "others": 0.02, "involuntary": 5,
    "running": 2, "frequency_hz": 3e9,
}  # fmt: skip


def why(**changes: Any) -> list[str]:
    return reasons(QUIET | changes, typical_sentinel_s=1e-4, typical_frequency_hz=3e9, threads=2)


def test_a_quiet_stretch_is_not_marked() -> None:
    assert why() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sentinel_s": 3e-4}, "the sentinel took 3.0 times its typical time"),
        ({"waited": 0.25}, "threads waited for a CPU 25 % of the time"),
        ({"steal": 0.1}, "the hypervisor took 10 % of the CPU time"),
        ({"others": 0.3}, "other processes took 30 % of the CPU time"),
        ({"frequency_hz": 2e9}, "the CPUs ran at 2.00 GHz instead of 3.00"),
        ({"waited": None, "involuntary": 400}, "each thread was switched out 200 times a second"),
    ],
)
def test_each_disturbance_is_named_with_its_size(changes: dict[str, Any], words: str) -> None:
    assert why(**changes) == [words]


def test_what_the_machine_does_not_tell_marks_nothing() -> None:
    assert why(waited=None, steal=None, others=None, frequency_hz=None, running=None) == []


def test_shares_of_less_time_than_the_kernels_ticks_resolve_mark_nothing() -> None:
    assert why(seconds=0.1, steal=0.5, others=0.5) == []


def test_switches_mark_nothing_where_the_kernel_says_how_long_threads_waited() -> None:
    assert why(involuntary=4000) == []


def test_shares_are_of_the_threads_and_cpus_that_there_are() -> None:
    before = Reading(10.0, 1e-4, 1.0, 5.0, 10, 20.0, 3.0, 2, None)
    after = Reading(12.0, 2e-4, 1.4, 8.0, 25, 24.0, 3.4, 3, None)
    row = between(before, after, threads=2, cpus=4)

    assert row == {
        "seconds": 2.0, "sentinel_s": 2e-4, "waited": pytest.approx(0.1), "steal": pytest.approx(0.05),
        "others": pytest.approx(0.125), "involuntary": 15, "running": 3, "frequency_hz": None,
    }  # fmt: skip


def spin(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


@pytest.fixture
def one_cpu() -> Iterator[int]:
    """Bind this process to one CPU, for neighbours to be on."""
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    os.sched_setaffinity(0, {cpu})
    yield cpu
    os.sched_setaffinity(0, allowed)


def watched(seconds: float) -> Watch:
    watch = Watch(lambda: spin(1e-4), threads=1, typical_s=1e-4)
    rounds = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        spin(0.01)
        rounds += 1
        watch.after_round(rounds)
    watch.close(rounds)
    return watch


def test_a_busy_neighbour_on_the_same_cpu_is_seen(one_cpu: int) -> None:
    neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # inherits the one CPU
    try:
        time.sleep(0.3)
        rows = watched(1.5).stretches()
    finally:
        neighbour.kill()
        neighbour.wait()

    marked = sum(row["rounds"] for row in rows if row["disturbed"])
    assert marked >= 0.8 * sum(row["rounds"] for row in rows)
    assert any("threads waited for a CPU" in row["because"] for row in rows)


def test_stretches_cover_every_round_once_and_cost_little_of_the_time(one_cpu: int) -> None:
    seen = watched(1.0)
    rows = seen.stretches()

    assert [row["first_round"] for row in rows] == [sum(one["rounds"] for one in rows[:n]) for n in range(len(rows))]
    assert seen.seconds <= 0.02 * sum(row["seconds"] for row in rows)


def test_the_quietest_process_so_far_gives_the_sentinels_typical_time() -> None:
    assert Watch(lambda: spin(1e-3), threads=1, typical_s=1e-5).sentinel_s == 1e-5
    assert Watch(lambda: spin(1e-4), threads=1, typical_s=None).sentinel_s >= 1e-4


class Marking:
    """A watch that calls the first ``disturbed`` rounds so."""

    def __init__(self, disturbed: int) -> None:
        self.number = disturbed
        self.closed: list[int] = []

    def after_round(self, rounds: int) -> None:
        pass

    def close(self, rounds: int) -> None:
        self.closed.append(rounds)

    def disturbed(self) -> list[int]:
        return list(range(self.number))


@pytest.mark.parametrize(("disturbed", "taken"), [(0, 10), (1, 12), (4, 14), (10, 20)])
def test_as_many_rounds_as_were_disturbed_are_taken_again_in_whole_pairs(disturbed: int, taken: int) -> None:
    marking = Marking(disturbed)
    samples, orders = take(
        {"eager": lambda: None, "inductor": lambda: None},
        rounds=10,
        watch=marking,  # type: ignore[arg-type]
    )

    assert len(orders) == len(samples["eager"]) == taken
    assert marking.closed[-1] == taken


def test_rounds_are_taken_again_within_the_budget_only() -> None:
    _, orders = take(
        {"eager": lambda: time.sleep(0.01)},
        rounds=4,
        deadline=time.monotonic() + 0.05,
        watch=Marking(4),  # type: ignore[arg-type]
    )

    assert len(orders) == 4


def test_a_kernel_that_keeps_no_schedstat_is_told_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    monkeypatch.setattr(watch, "_SCHEDSTAT", Path("/proc/self/no_such_file"))
    assert watch._waited_s() is None
