"""When sampling stops, and how long a process may take."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from simulated_machine import Run, measured, recorded_machines, world

from cpulab.config import Sampling
from cpulab.measure import bench
from cpulab.measure.bench import verdict
from cpulab.measure.sampling import stopped_by, time_allowed
from cpulab.statistics import ratio_interval

DATA = Path(__file__).parents[1] / "data" / "measure"
SAMPLING = Sampling(budget_s=100, min_processes=3, max_processes=5, warmup=1, rounds=4, half_width=0.02)

NARROW = [[1.001], [1.002], [1.0], [1.001], [1.002]]
WIDE = [[1.0], [1.5], [1.2], [1.1], [1.4]]


def stop(eager: list[list[float]], *, elapsed_s: float = 10, next_s: float = 5, **changes: float) -> str | None:
    sampling = dataclasses.replace(SAMPLING, **changes)
    return asked(sampling, eager, [[1.0]] * len(eager), elapsed_s=elapsed_s, next_s=next_s)


def asked(
    sampling: Sampling, eager: list[list[float]], other: list[list[float]], *, elapsed_s: float = 0, next_s: float = 0
) -> str | None:
    def half_width() -> float:
        return ratio_interval(eager, other).half_width

    return stopped_by(sampling, len(eager), half_width, elapsed_s=elapsed_s, next_s=next_s)


def test_sampling_stops_at_the_least_number_of_processes_when_the_interval_is_narrow() -> None:
    assert stop(NARROW[:3]) == "interval"


def test_sampling_never_stops_before_the_least_number_of_processes() -> None:
    assert stop(NARROW[:2]) is None
    assert stop(WIDE[:1], elapsed_s=1000) is None


def test_sampling_goes_on_while_the_interval_is_wide_and_the_budget_lasts() -> None:
    assert stop(WIDE[:3]) is None


def test_how_narrow_is_narrow_is_the_presets_choice() -> None:
    assert stop(NARROW[:3], half_width=0.001) is None
    assert stop(WIDE[:3], half_width=0.9) == "interval"


def test_sampling_stops_at_the_largest_number_of_processes() -> None:
    assert stop(WIDE) == "processes"


def test_sampling_stops_when_the_next_process_would_overrun_the_budget() -> None:
    assert stop(WIDE[:3], elapsed_s=80, next_s=20) is None
    assert stop(WIDE[:3], elapsed_s=80, next_s=21) == "budget"


def test_the_interval_is_named_when_the_budget_is_spent_as_well() -> None:
    assert stop(NARROW[:3], elapsed_s=1000) == "interval"


def test_two_recorded_processes_of_a_busy_machine_do_not_give_a_narrow_interval() -> None:
    answers = [json.loads((DATA / f"fused_pattern_{cache}.json").read_text()) for cache in ("cold", "warm")]
    eager, inductor = ([answer["arms"][arm]["values"] for answer in answers] for arm in ("eager", "inductor"))
    sampling = dataclasses.replace(SAMPLING, min_processes=2)

    assert asked(sampling, eager, inductor) is None
    assert asked(sampling, eager, eager) == "interval"


def test_the_processes_that_are_due_in_any_case_share_what_is_left_of_the_budget() -> None:
    assert time_allowed(SAMPLING, 3, elapsed_s=0) == pytest.approx(100 / 3)
    assert time_allowed(SAMPLING, 2, elapsed_s=40) == pytest.approx(30)
    assert time_allowed(SAMPLING, 1, elapsed_s=40) == pytest.approx(60)


def test_a_further_process_may_use_all_that_is_left() -> None:
    assert time_allowed(SAMPLING, 0, elapsed_s=90) == pytest.approx(10)
    assert time_allowed(SAMPLING, -1, elapsed_s=90) == pytest.approx(10)


def test_a_spent_budget_allows_nothing_more() -> None:
    assert time_allowed(SAMPLING, 1, elapsed_s=130) == 0


@pytest.mark.parametrize("least", [5, 6])
def test_stopping_at_the_first_narrow_interval_leaves_it_true(least: int) -> None:
    generator = np.random.default_rng(least)
    sampling = dataclasses.replace(SAMPLING, min_processes=least, max_processes=10)
    machines, held = 600, 0
    for _ in range(machines):
        above, below = world(generator, processes=10, rounds=20, ratio=2.0, layout=0.02)
        held += measured(Run(above, below, below, 2.0), sampling)[0].holds(2.0)

    assert 0.93 <= held / machines <= 0.98


# The bounds of docs/measuring.md, on machines drawn from recordings of a quiet and of a shared one.
MACHINES = 100


def test_an_arm_against_itself_is_declared_different_in_one_of_twenty_runs_at_most() -> None:
    generator = np.random.default_rng(20)
    verdicts = Counter(
        verdict(*measured(machine.run(generator, processes=20, rounds=40, ratio=1.0), bench.SAMPLING)[:2])
        for machine in recorded_machines(generator, MACHINES)
    )

    assert verdicts["faster"] + verdicts["slower"] <= MACHINES / 20
    assert verdicts["same"] >= MACHINES / 2


def test_the_interval_holds_the_true_ratio_in_93_to_97_of_100_runs() -> None:
    generator = np.random.default_rng(21)
    held = runs = 0
    for machine in recorded_machines(generator, MACHINES):
        for run in (
            *(machine.run(generator, processes=20, rounds=40, ratio=1.3) for _ in range(5)),
            *(machine.two_arms(generator, processes=20, rounds=60) for _ in range(5)),
        ):
            held += measured(run, bench.SAMPLING)[0].holds(run.true_ratio)
            runs += 1

    assert 0.93 <= held / runs <= 0.97


def test_a_slow_down_of_five_percent_is_found_in_nine_of_ten_runs_and_never_taken_for_a_gain() -> None:
    generator = np.random.default_rng(22)
    verdicts = Counter(
        verdict(*measured(machine.run(generator, processes=20, rounds=40, ratio=1 / 1.05), bench.SAMPLING)[:2])
        for machine in recorded_machines(generator, MACHINES)
    )

    assert verdicts["slower"] >= 0.9 * MACHINES
    assert verdicts["faster"] == 0
