"""Rates, shares of a roof and shares of a ratio, of samples whose answer is known."""

from __future__ import annotations

import math
import random

import pytest

from cpulab.roofs import excess, rate, scaled, share_of_logarithm, share_of_roof, total
from cpulab.statistics import Interval, ratio_interval


def drifting(factor: float, processes: int = 4, rounds: int = 6) -> list[list[float]]:
    """Return an arm that takes ``factor`` seconds on a machine that is slower in each round and process."""
    return [[factor * (1 + process) * (1 + number) for number in range(rounds)] for process in range(processes)]


def noisy(factor: float, seed: int) -> list[list[float]]:
    generator = random.Random(seed)  # noqa: S311 - a simulation
    return [[factor * math.exp(generator.gauss(0, 0.05)) for _ in range(20)] for _ in range(6)]


def test_a_rate_is_the_amount_over_the_time_and_its_ends_change_places() -> None:
    assert rate(100, Interval(2, 1, 4)) == (50, 25, 100)


def test_a_time_that_may_be_anything_gives_a_rate_without_an_upper_end() -> None:
    assert rate(100, Interval(2, 0, math.inf)) == (50, 0, math.inf)


def test_what_an_interval_is_of_can_be_scaled() -> None:
    assert scaled(Interval(2, 1, 4), 3) == (6, 3, 12)


def test_the_share_of_a_roof_is_that_of_the_rates_whatever_the_machine_does_meanwhile() -> None:
    # 90 bytes in 6 s under 30 bytes in 1 s: 15 of 30 bytes a second.
    share = share_of_roof(drifting(6), drifting(1), amounts=90 / 30)
    assert share == pytest.approx((0.5, 0.5, 0.5))


def test_a_share_of_a_roof_has_the_interval_of_the_ratio() -> None:
    arm, roof = noisy(2, 1), noisy(1, 2)
    share, ratio = share_of_roof(arm, roof, amounts=1), ratio_interval(roof, arm)
    assert share == pytest.approx(ratio)
    assert share.low < 0.5 < share.high


@pytest.mark.parametrize(
    ("arms", "found", "part"),
    [
        # whole / between times between / part: 2 times 2, 1 times 4, 4 times 1, 2 times 4.
        ((4, 2, 1), 1, 0.5),
        ((4, 4, 1), 4, 1),
        ((4, 1, 1), 1 / 4, 0),
        ((8, 4, 1), 2, 2 / 3),
    ],
)
def test_the_second_factor_is_set_against_the_first_and_against_the_whole(
    arms: tuple[float, ...], found: float, part: float
) -> None:
    samples = [drifting(factor) for factor in arms]
    assert excess(*samples) == pytest.approx((found,) * 3)
    assert share_of_logarithm(*samples) == pytest.approx((part,) * 3)


def test_a_share_of_a_ratio_has_an_interval_that_noise_makes_wide() -> None:
    share = share_of_logarithm(noisy(8, 1), noisy(4, 2), noisy(1, 3))
    assert share.low < 2 / 3 < share.high
    assert 0.005 < share.high - share.low < 0.1


def test_shares_of_no_difference_and_of_one_process_are_refused() -> None:
    with pytest.raises(ValueError, match="a process finds no difference"):
        share_of_logarithm(drifting(1), drifting(2), drifting(1))
    with pytest.raises(ValueError, match="an interval takes two processes"):
        share_of_logarithm([[4.0]], [[2.0]], [[1.0]])


def test_a_total_is_the_weighted_sum_of_each_round() -> None:
    assert total([(3, [[1.0, 2.0], [4.0]]), (1, [[10.0, 20.0], [40.0]])]) == [[13.0, 26.0], [52.0]]


def test_a_total_of_arms_from_different_rounds_is_refused() -> None:
    for other in ([[1.0]], [[1.0, 2.0], [3.0]]):
        with pytest.raises(ValueError, match=r"shorter|longer"):
            total([(1, [[1.0, 2.0]]), (1, other)])
