"""The order of the arms in the rounds."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

import pytest

from cpulab.measure.order import balanced_orders

ARMS = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_every_round_takes_every_arm_once(number: int) -> None:
    assert all(sorted(order) == ARMS[:number] for order in balanced_orders(ARMS[:number]))


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_every_second_round_is_the_mirror_image_of_the_one_before(number: int) -> None:
    orders = balanced_orders(ARMS[:number])

    assert len(orders) == 2 * number
    assert orders[1::2] == [order[::-1] for order in orders[::2]]


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_each_arm_stands_equally_often_at_each_place(number: int) -> None:
    places = Counter(place for order in balanced_orders(ARMS[:number]) for place in enumerate(order))

    assert set(places.values()) == {2}
    assert len(places) == number**2


@pytest.mark.parametrize("number", [2, 3, 4, 5])
def test_each_arm_follows_each_other_one_equally_often(number: int) -> None:
    followers = Counter(pair for order in balanced_orders(ARMS[:number]) for pair in pairwise(order))

    assert set(followers.values()) == {2}
    assert len(followers) == number * (number - 1)


def test_a_steady_drift_cancels_between_any_two_arms_in_each_mirrored_pair_of_rounds() -> None:
    orders = balanced_orders(ARMS[:3])

    for there, back in zip(orders[::2], orders[1::2], strict=True):
        for one, other in combinations(there, 2):
            assert (there.index(one) - there.index(other)) + (back.index(one) - back.index(other)) == 0
