"""Numbers as a reader wants them."""

from __future__ import annotations

import math

import pytest

from cpulab.report.quantities import GROUP, NO_BREAK, interval, quantity, ranges, significant


def plain(text: str) -> str:
    return text.replace(NO_BREAK, " ").replace(GROUP, " ")


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (0.00578, "s", "5.78 ms"),
        (0.802102, "s", "802 ms"),
        (6.6, "s", "6.60 s"),
        (61.23, "s", "61.2 s"),
        (4.7e-7, "s", "470 ns"),
        (0.9996, "ms", "1.00 ms"),
        (1.13e9, "byte", "1.13 GB"),
        (785, "byte", "785 B"),
        (362, "count", "362"),
        (5, None, "5"),
        (24582914, "count", "24 582 914"),
        (2.3594, "ratio", "2.36"),
        (12.5, "%", "12.5 %"),
        (0, "s", "0 s"),
        (3, "node", "3 node"),
    ],
)
def test_a_quantity_has_three_digits_and_the_unit_that_fits(value: float, unit: str | None, said: str) -> None:
    if unit == "node":
        assert plain(quantity(value, unit, 1)) == said
    else:
        assert plain(quantity(value, unit)) == said


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "said"),
    [
        (1.2083, 1.1791, 1.2389, "ratio", "1.21 (1.18 to 1.24)"),
        (1.2083, 1.1951, 1.2212, "ratio", "1.208 (1.195 to 1.221)"),
        (6.612, 6.551, 6.684, "s", "6.61 s (6.55 to 6.68)"),
        (0.33995, 0.331, 0.349, "s", "340 ms (331 to 349)"),
        (2.5001, 2.4999, 2.5003, "ratio", "2.5001 (2.4999 to 2.5003)"),
        (802.1, 640.0, 990.0, "ms", "802 ms (640 to 990)"),
        (1.2, 0.4, None, "ratio", "1.2 (0.4 or more)"),
        (1.2, 0.4, math.inf, "ratio", "1.2 (0.4 or more)"),
        (0.087, 0.002, 39854.6, "s", "87 ms (2 or more)"),
        (1.2, None, None, "ratio", "1.20"),
        (6658.96, 6606.46, 6711.87, "ms", "6659 ms (6606 to 6712)"),
        (66589.6, 66064.6, 67118.7, "ms", "66 590 ms (66 065 to 67 119)"),
    ],
)
def test_an_interval_has_the_digits_that_its_width_leaves(
    value: float, low: float | None, high: float | None, unit: str, said: str
) -> None:
    assert plain(interval(value, low, high, unit)) == said


def test_no_digit_before_the_point_is_rounded_away() -> None:
    assert significant(4711.4) == "4711"
    assert significant(float("nan")) == "nan"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([0, 1, 2, 3], "0-3"), ([3, 0, 1, 8], "0-1,3,8"), ([5], "5"), ([], ""), (range(32), "0-31")],
)
def test_cpus_are_named_as_numactl_takes_them(numbers: list[int], said: str) -> None:
    assert ranges(numbers) == said
