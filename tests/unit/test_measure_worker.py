"""How one measured process takes its rounds; runs where torch is not installed."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING

import pytest

from cpulab.measure.worker import PATIENCE, calls_per_sample, is_steady, take, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable


def arms(log: list[str], seconds: float = 0.0) -> dict[str, Callable[[], None]]:
    def arm(name: str) -> Callable[[], None]:
        def call() -> None:
            log.append(name)
            time.sleep(seconds)

        return call

    return {name: arm(name) for name in ("eager", "inductor", "placebo")}


def test_every_arm_gives_one_sample_a_round_in_the_order_that_is_reported() -> None:
    log: list[str] = []
    samples, orders = take(arms(log), rounds=6)

    assert {name: len(values) for name, values in samples.items()} == {"eager": 6, "inductor": 6, "placebo": 6}
    assert log == [name for order in orders for name in order]
    assert len({tuple(order) for order in orders}) == 6


def test_a_sample_is_the_seconds_of_its_own_call() -> None:
    slow = {"quick": lambda: None, "slow": lambda: time.sleep(0.02)}
    samples, _ = take(slow, rounds=2)

    assert min(samples["slow"]) >= 0.02
    assert min(samples["quick"]) < 0.01


def test_a_later_process_goes_on_in_the_cycle_of_orders_where_the_last_one_stopped() -> None:
    _, whole = take(arms([]), rounds=10)
    _, first = take(arms([]), rounds=4)
    _, second = take(arms([]), rounds=6, first_round=4)

    assert first + second == whole


def test_slow_rounds_stop_at_the_deadline_after_whole_mirrored_pairs() -> None:
    samples, orders = take(arms([], seconds=0.01), rounds=40, deadline=time.monotonic() + 0.2)

    assert len(orders) % 2 == 0
    assert 2 <= len(orders) <= 6
    assert {len(values) for values in samples.values()} == {len(orders)}


@pytest.mark.parametrize("ahead_s", [0.0, -100.0])
def test_one_mirrored_pair_is_taken_whatever_the_deadline(ahead_s: float) -> None:
    _, orders = take(arms([]), rounds=8, deadline=time.monotonic() + ahead_s)

    assert len(orders) == 2
    assert orders[1] == orders[0][::-1]


def test_no_round_is_no_sample() -> None:
    assert take(arms([]), rounds=0) == ({"eager": [], "inductor": [], "placebo": []}, [])


def test_a_process_that_gets_faster_warms_up_until_it_no_longer_does() -> None:
    times = [0.06, 0.05, 0.042, 0.035, 0.028, 0.022, 0.016]
    cold = iter(times)
    samples: dict[str, list[float]] = {"eager": []}
    rounds, steady = warm_up({"eager": lambda: time.sleep(next(cold, 0.01))}, samples, least=3)

    assert steady
    assert rounds >= len(times)
    assert len(samples["eager"]) == rounds


def test_a_steady_process_takes_the_least_warm_up() -> None:
    samples: dict[str, list[float]] = {"eager": [0.1]}

    # Long enough for a twentieth of it to be more than a sleep is late by.
    assert warm_up({"eager": lambda: time.sleep(0.1)}, samples, least=2) == (2, True)


def test_a_process_that_never_is_steady_is_measured_as_it_is_and_says_so() -> None:
    slower = count(1)
    samples: dict[str, list[float]] = {"eager": []}
    rounds, steady = warm_up({"eager": lambda: time.sleep(0.001 * next(slower))}, samples, least=1)

    assert (rounds, steady) == (PATIENCE, False)


def test_warming_up_stops_at_the_deadline_after_its_least_rounds() -> None:
    slower = count(1)
    arm = {"eager": lambda: time.sleep(0.002 * next(slower))}

    assert warm_up(arm, {"eager": []}, least=2, deadline=time.monotonic() - 1) == (2, False)


@pytest.mark.parametrize(
    ("samples", "window", "steady"),
    [
        ([1.0, 1.0], 1, True),
        ([1.0], 1, False),
        ([1.2, 1.0], 1, False),
        ([1.0, 1.2], 1, False),
        ([1.0, 1.3, 0.8, 1.1, 0.8, 1.2, 0.7, 1.0], 4, True),
        ([2.0, 2.1, 1.9, 2.0, 1.0, 1.1, 0.9, 1.0], 4, False),
    ],
)
def test_steady_is_as_fast_as_before_within_the_scatter(samples: list[float], window: int, steady: bool) -> None:
    assert is_steady(samples, window) is steady


def test_a_short_arm_is_called_often_enough_for_a_sample_to_be_long() -> None:
    assert calls_per_sample({"eager": [1e-5] * 3, "inductor": [5e-6] * 3}) == 100
    assert calls_per_sample({"eager": [0.1], "inductor": [0.2]}) == 1


def test_a_sample_of_several_calls_is_the_time_of_one() -> None:
    samples, _ = take({"eager": lambda: time.sleep(0.002)}, rounds=2, calls=5)

    assert all(0.002 <= value < 0.008 for value in samples["eager"])
