"""What `cpulab bench` says of a user's function."""

from __future__ import annotations

from typing import Any

import pytest

from cpulab.measure.bench import SAME, text, verdict
from cpulab.statistics import Interval

QUIET = Interval(1.0, 0.995, 1.005)
NOISY = Interval(1.0, 0.8, 1.2)

ANSWER: dict[str, Any] = {
    "case": "file.py:f", "verdict": "faster", "ratio": 2.0, "low": 1.9, "high": 2.1, "eager_s": 0.004,
    "inductor_s": 0.002, "placebo": {"ratio": 1.0, "low": 0.99, "high": 1.01}, "detectable": 0.021, "processes": 6,
    "samples": 720, "disturbed": 0, "stopped_by": "interval", "compiled_is_right": True,
    "first_call_s": {"cold": 9.0, "warm": [1.0, 1.2]}, "because": "", "harness_s_per_sample": 1e-5, "steady": True,
    "bimodal": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("ratio", "placebo", "says"),
    [
        (Interval(2.0, 1.9, 2.1), QUIET, "faster"),
        (Interval(0.9, 0.89, 0.91), QUIET, "slower"),
        (Interval(1.0, 0.99, 1.01), QUIET, "same"),
        # Told from 1 by its interval, and less than the noise: near enough to be the same, or not.
        (Interval(1.004, 1.001, 1.007), QUIET, "same"),
        (Interval(1.1, 1.05, 1.15), NOISY, "inconclusive"),
        (Interval(1.0, 1 - SAME - 0.01, 1.01), QUIET, "inconclusive"),
        (Interval(1.0, 0.99, 1 + SAME + 0.01), QUIET, "inconclusive"),
    ],
)
def test_the_verdict_is_what_interval_and_noise_allow(ratio: Interval, placebo: Interval, says: str) -> None:
    assert verdict(ratio, placebo) == says


def test_a_reader_is_told_the_ratio_both_times_the_noise_and_why_it_stopped() -> None:
    told = text(ANSWER)

    for words in (
        "faster: compiled takes less time", "2.000 (95 % interval 1.900 to 2.100)", "4 ms", "2 ms",
        "1.000 (95 % interval 0.990 to 1.010)", "2.1 %", "9.00 s with a cold cache, then 1.00 to 1.20 s",
        "6 processes, 720 rounds", "as narrow as asked for",
    ):  # fmt: skip
        assert words in told
    assert "  - " not in told


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"compiled_is_right": False}, "The compiled result is wrong"),
        ({"compiled_is_right": None}, "Eager does not give the same result twice"),
        ({"steady": False}, "still getting faster or slower"),
        ({"bimodal": ["eager"]}, "The times of eager have more than one mode"),
        ({"disturbed": 30, "because": "threads waited"}, "30 rounds; for example threads waited"),
        ({"high": None}, "1.900 to any"),
    ],
)
def test_what_to_distrust_is_told(changes: dict[str, Any], words: str) -> None:
    assert words in text(ANSWER | changes)


@pytest.mark.parametrize(("seconds", "words"), [(2.5, "2.5 s"), (0.0125, "12.5 ms"), (7.5e-6, "7.5 us")])
def test_times_have_the_unit_that_suits_them(seconds: float, words: str) -> None:
    assert words in text(ANSWER | {"eager_s": seconds})
