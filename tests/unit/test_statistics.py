"""Intervals of ratios and times from several processes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from simulated_machine import pairs, world

from cpulab.statistics import (
    Interval,
    centre,
    detectable,
    is_bimodal,
    is_resolved,
    noise_floor,
    outliers,
    placebo_between_processes,
    ratio_between_processes,
    ratio_interval,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Samples = list[list[float]]


@pytest.mark.parametrize("rounds", [4, 20])
@pytest.mark.parametrize("processes", [2, 3, 5, 8])
def test_without_stopping_early_the_interval_is_a_little_too_careful(processes: int, rounds: int) -> None:
    generator = np.random.default_rng([processes, rounds])
    machines = 1000
    held = sum(
        ratio_interval(*world(generator, processes=processes, rounds=rounds, ratio=1.44)).holds(1.44)
        for _ in range(machines)
    )

    # The quantile is that of 96.5 %: what stopping at a narrow interval costs is paid in advance.
    assert 0.945 <= held / machines <= 0.985


def test_arms_that_always_differ_by_the_same_factor_give_that_factor_exactly() -> None:
    interval = ratio_interval([[2.0, 4.0], [6.0, 8.0]], [[1.0, 2.0], [3.0, 4.0]])

    assert interval == pytest.approx((2.0, 2.0, 2.0))


def test_the_interval_is_students_t_over_the_logarithms_of_the_processes() -> None:
    interval = ratio_interval([[1.0], [math.exp(0.2)]], [[1.0], [1.0]])

    # Mean 0.1, standard error 0.1, and t of one degree of freedom at 98.25 % is 18.171.
    assert interval.estimate == pytest.approx(math.exp(0.1))
    assert math.log(interval.high) == pytest.approx(0.1 + 1.8171, abs=1e-4)
    assert math.log(interval.low) == pytest.approx(0.1 - 1.8171, abs=1e-4)


def test_less_confidence_gives_a_narrower_interval() -> None:
    arms = [[1.0], [1.1], [1.3]], [[1.0], [1.0], [1.0]]

    assert ratio_interval(*arms, confidence=0.5).half_width < ratio_interval(*arms).half_width / 3


def test_the_inverse_ratio_has_the_inverse_interval() -> None:
    above, below = [[1.0, 1.2], [1.3, 1.5], [1.1, 1.0]], [[0.5, 0.7], [0.6, 0.6], [0.5, 0.4]]
    there, back = ratio_interval(above, below), ratio_interval(below, above)

    assert (1 / back.estimate, 1 / back.high, 1 / back.low) == pytest.approx(there)


def test_what_slows_a_whole_round_does_not_show() -> None:
    slow = [1.0, 3.0, 10.0, 2.0]
    arms = [[2 * value for value in slow], slow[::-1]], [slow, [value / 2 for value in slow[::-1]]]

    assert ratio_interval(*arms) == pytest.approx((2.0, 2.0, 2.0))


def test_a_burst_in_one_sample_does_not_move_a_process() -> None:
    assert ratio_interval([[1.0, 1.0, 9.0], [1.0, 1.0, 1.0]], [[1.0] * 3] * 2) == pytest.approx((1.0, 1.0, 1.0))


def test_more_rounds_of_the_same_processes_do_not_hide_that_the_processes_differ() -> None:
    few = ratio_interval([[1.0], [1.1], [1.2]], [[1.0]] * 3)
    many = ratio_interval([[1.0] * 100, [1.1] * 100, [1.2] * 100], [[1.0] * 100] * 3)

    assert many == pytest.approx(few)


def test_the_typical_time_is_the_geometric_mean_of_the_processes_medians() -> None:
    interval = centre([[1.0, 1.0, 50.0], [4.0, 0.1, 4.0]])

    assert interval.estimate == pytest.approx(2.0)
    assert interval.holds(1.0)
    assert interval.holds(4.0)


def test_the_half_width_is_the_larger_side_as_a_share_of_the_estimate() -> None:
    assert Interval(2.0, 1.0, 2.2).half_width == pytest.approx(0.5)
    assert Interval(2.0, 1.9, 3.0).half_width == pytest.approx(0.5)


def test_an_interval_holds_its_ends_and_nothing_beyond() -> None:
    interval = Interval(2.0, 1.0, 3.0)

    assert [interval.holds(value) for value in (0.9, 1.0, 3.0, 3.1)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("above", "below", "problem"),
    [
        ([], [], "there are only 0"),
        ([[1.0]], [[1.0]], "there are only 1"),
        ([[1.0], [1.0]], [[1.0]], "2 processes sampled one arm and 1 the other"),
        ([[1.0], []], [[1.0], []], "no sample"),
        ([[1.0], [1.0, 2.0]], [[1.0], [1.0]], "2 samples of one arm and 1 of the other"),
        ([[1.0], [0.0]], [[1.0], [1.0]], "not a positive number"),
        ([[1.0], [1.0]], [[1.0], [math.nan]], "not a positive number"),
        ([[1.0], [math.inf]], [[1.0], [1.0]], "not a positive number"),
    ],
)
def test_samples_that_give_no_interval_are_refused(above: Samples, below: Samples, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ratio_interval(above, below)


# Processes of both arms alike; of one arm noisier, as threads that the kernel may move are; a machine that gets slower.
MACHINES: dict[str, Any] = {
    "alike": {"layouts": (0.01, 0.01)},
    "one arm noisier": {"layouts": (0.1, 0.01)},
    "drifting": {"layouts": (0.03, 0.01), "drift": 0.02},
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [2, 4, 8])
def test_the_interval_of_pairs_of_processes_is_a_little_too_careful_too(number: int, machine: str) -> None:
    generator = np.random.default_rng(number)
    machines = 600
    held = sum(
        ratio_between_processes(*pairs(generator, pairs=number, ratio=1.3, **MACHINES[machine])).holds(1.3)
        for _ in range(machines)
    )

    # A drift that alternates between pairs widens the interval: too careful, and never too narrow.
    assert 0.94 <= held / machines <= (1 if machine == "drifting" else 0.985)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("number", [2, 4, 8])
def test_an_effect_that_is_not_there_is_hardly_ever_beyond_the_noise_between_processes(
    number: int, machine: str
) -> None:
    generator = np.random.default_rng(number)
    machines, beyond = 600, 0
    for _ in range(machines):
        arms = pairs(generator, pairs=number, ratio=1.0, **MACHINES[machine])
        ratio, noise = ratio_between_processes(*arms), placebo_between_processes(*arms)
        is_beyond = abs(math.log(ratio.estimate)) > max(math.log(noise.high), -math.log(noise.low))
        beyond += not ratio.holds(1) and is_beyond

    assert beyond / machines <= 0.04


def test_the_placebo_of_processes_has_the_spread_of_their_ratio_whichever_arm_is_the_noisier() -> None:
    generator = np.random.default_rng(7)
    for layouts in ((0.1, 0.01), (0.01, 0.1)):
        found = [pairs(generator, pairs=8, ratio=1.3, layouts=layouts) for _ in range(500)]
        widths = [
            np.mean([math.log(one.high / one.low) for one in (statistic(*arms) for arms in found)])
            for statistic in (ratio_between_processes, placebo_between_processes)
        ]
        assert widths[0] == pytest.approx(widths[1], rel=0.1)


def test_each_process_counts_by_its_median_however_many_samples_it_took() -> None:
    interval = ratio_between_processes([[2.0, 2.0, 9.0], [4.0]], [[1.0, 1.0, 7.0, 0.1, 1.0], [2.0, 2.0]])

    assert interval == pytest.approx((2.0, 2.0, 2.0))


def test_the_placebo_takes_an_arm_over_itself_and_a_steady_drift_out_of_both() -> None:
    # Slower by a tenth a process: denominator, numerator, numerator, denominator, then the mirror image.
    slower = [[1.1**place] for place in range(8)]
    denominator = [slower[place] for place in (0, 3, 5, 6)]
    numerator = [[3 * slower[place][0]] for place in (1, 2, 4, 7)]

    assert ratio_between_processes(numerator, denominator).estimate == pytest.approx(3.0)
    assert placebo_between_processes(numerator, denominator).estimate == pytest.approx(1.0)


def test_a_difference_between_the_processes_of_either_arm_is_noise() -> None:
    same, other = [[1.0], [1.0]], [[1.0], [1.2]]

    assert placebo_between_processes(same, same) == pytest.approx((1.0, 1.0, 1.0))
    assert placebo_between_processes(other, same).high > 1.2
    assert placebo_between_processes(same, other).low < 1 / 1.2


@pytest.mark.parametrize("statistic", [ratio_between_processes, placebo_between_processes])
@pytest.mark.parametrize(
    ("above", "below", "problem"),
    [
        ([], [], "there are only 0"),
        ([[1.0], [1.0]], [[1.0]], "2 processes sampled one arm and 1 the other"),
        ([[1.0], []], [[1.0], [1.0]], "no sample"),
        ([[1.0], [1.0]], [[1.0], [-1.0]], "not a positive number"),
    ],
)
def test_pairs_of_processes_that_give_no_interval_are_refused(
    statistic: Callable[..., Interval], above: Samples, below: Samples, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        statistic(above, below)


def test_a_placebo_takes_whole_blocks() -> None:
    with pytest.raises(ValueError, match="3 pairs of processes are not blocks of two"):
        placebo_between_processes([[1.0]] * 3, [[1.0]] * 3)


def test_the_noise_floor_is_the_farther_end_of_the_placebos_interval() -> None:
    assert noise_floor(Interval(1.0, 0.98, 1.05)) == pytest.approx(0.05)
    assert noise_floor(Interval(1.0, 0.8, 1.05)) == pytest.approx(0.25)
    assert noise_floor(Interval(1.0, 0.0, 1.0)) == math.inf


@pytest.mark.parametrize(
    ("ratio", "placebo", "resolved"),
    [
        (Interval(1.1, 1.05, 1.15), Interval(1.0, 0.99, 1.01), True),
        (Interval(0.9, 0.85, 0.95), Interval(1.0, 0.99, 1.01), True),
        (Interval(1.1, 0.99, 1.2), Interval(1.0, 0.99, 1.01), False),
        (Interval(1.1, 1.05, 1.15), Interval(1.0, 0.85, 1.01), False),
    ],
)
def test_a_ratio_is_resolved_by_its_interval_and_beyond_the_noise(
    ratio: Interval, placebo: Interval, resolved: bool
) -> None:
    assert is_resolved(ratio, placebo) is resolved


def test_an_effect_of_the_detectable_size_is_resolved_in_four_of_five_runs() -> None:
    generator = np.random.default_rng(3)
    spread, processes = 0.01, 8
    effects = [
        detectable([[math.exp(x)] for x in generator.normal(0, spread, processes)], [[1.0]] * processes)
        for _ in range(400)
    ]
    effect = float(np.median(effects))
    found = sum(
        not ratio_interval(
            [[math.exp(x)] for x in generator.normal(math.log1p(effect), spread, processes)], [[1.0]] * processes
        ).holds(1)
        for _ in range(1000)
    )

    assert 0.72 <= found / 1000 <= 0.88


def test_pairs_of_processes_have_a_detectable_effect_too() -> None:
    arms = [[1.0], [1.02], [1.01]], [[1.0, 1.0], [1.0], [1.0]]

    assert detectable(*arms, paired=False) == pytest.approx(detectable([[1.0], [1.02], [1.01]], [[1.0]] * 3))


def test_a_sample_far_from_all_others_is_flagged_and_ordinary_scatter_is_not() -> None:
    values = np.exp(np.random.default_rng(0).normal(0, 0.05, 60)).tolist()

    assert outliers(values) == []
    assert outliers([*values, 3.0, 0.2]) == [60, 61]
    assert outliers([1.0, 1.0, 1.0, 1.0]) == []


def test_two_modes_are_flagged_and_one_is_not() -> None:
    generator = np.random.default_rng(0)
    one, other = (np.exp(generator.normal(centre, 0.02, 30)).tolist() for centre in (0, 0.3))

    assert not is_bimodal(one)
    assert is_bimodal(one + other)
    assert not is_bimodal([1.0, 2.0, 1.0])
