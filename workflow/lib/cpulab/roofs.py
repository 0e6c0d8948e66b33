"""What times say under a roof: rates, shares of a roof, and shares of a ratio. For the rules and for the report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cpulab.statistics import Interval, quantile, ratio_interval, standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpulab.statistics import Processes


def rate(amount: float, seconds: Interval) -> Interval:
    """Return how much of ``amount`` (bytes, flop) is done a second, of the time that it takes."""
    return Interval(
        amount / seconds.estimate,
        amount / seconds.high,
        amount / seconds.low if seconds.low > 0 else math.inf,
    )


def scaled(interval: Interval, factor: float) -> Interval:
    """Return ``factor`` (positive) times what an interval is of."""
    return Interval(factor * interval.estimate, factor * interval.low, factor * interval.high)


def share_of_roof(arm: Processes, roof: Processes, *, amounts: float) -> Interval:
    """Return the rate of an arm as a share of the roof's, both sampled in the same rounds.

    ``arm``, ``roof``: seconds, as `cpulab.statistics.ratio_interval` takes them; ``amounts``: bytes or flop of the arm
    over those of the roof. What slows a whole round slows both, and cancels. More than 1 is possible: a roof is
    measured, too.

    Raises:
        ValueError: as `ratio_interval`.

    """
    return scaled(ratio_interval(roof, arm), amounts)


def excess(whole: Processes, between: Processes, part: Processes) -> Interval:
    """Return how much more the second of two factors of a ratio is than the first, as their quotient.

    whole / part = (whole / between) (between / part): 1 where both factors are equal, more where the second one is
    larger. All three arms were sampled in the same rounds.

    Raises:
        ValueError: as `ratio_interval`.

    """
    return ratio_interval(_products(between, between), _products(whole, part))


def share_of_logarithm(whole: Processes, between: Processes, part: Processes) -> Interval:
    """Return what share of the logarithm of whole / part lies between ``between`` and ``part``.

    Logarithms, because factors multiply: 0.5 where both factors are equal. As in `ratio_interval` each process is
    summed up by medians of its rounds; the interval is that of `ratio_interval`, of the shares themselves, which may be
    negative and more than 1. It says nothing where whole / part is not told from 1.

    Raises:
        ValueError: as `ratio_interval`, and where a process finds no difference at all.

    """
    ratio_interval(whole, part)  # refuses what is no sample
    shares = []
    for above, middle, below in zip(whole, between, part, strict=True):
        logarithms = [np.log(np.asarray(arm, dtype=float)) for arm in (above, middle, below)]
        total = float(np.median(logarithms[0] - logarithms[2]))
        if total == 0:
            raise ValueError("a process finds no difference")
        shares.append(float(np.median(logarithms[1] - logarithms[2])) / total)
    mean = float(np.mean(shares))
    margin = quantile(0.95, len(shares)) * standard_error(shares)
    return Interval(mean, mean - margin, mean + margin)


def total(arms: Sequence[tuple[float, Processes]]) -> list[list[float]]:
    """Return the weighted sum of arms, round by round; all were sampled in the same rounds.

    Raises:
        ValueError: a process did not sample every arm in each of its rounds.

    """
    weights = [weight for weight, _ in arms]

    def weighted(values: Sequence[float]) -> float:
        return sum(weight * value for weight, value in zip(weights, values, strict=True))

    return [
        [weighted(values) for values in zip(*rounds, strict=True)]
        for rounds in zip(*(processes for _, processes in arms), strict=True)
    ]


def _products(one: Processes, other: Processes) -> list[list[float]]:
    return [
        [first * second for first, second in zip(firsts, seconds, strict=True)]
        for firsts, seconds in zip(one, other, strict=True)
    ]
