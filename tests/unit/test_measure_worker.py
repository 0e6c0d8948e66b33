"""How one measured process takes its rounds; runs where torch is not installed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from cpulab.measure.worker import take

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
