"""What samples of several processes say: a ratio or a time with its 95 % interval, and what to distrust in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import diptest
import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    Processes = Sequence[Sequence[float]]

# Of the probability that an interval may miss, the share that its quantile spends. Sampling looks at the interval
# after every process and stops at the first narrow one, which is narrow by chance too often: a quantile of 95 % then
# holds the true ratio in as little as 91 % of simulated machines (docs/measuring.md), and this one in 93 to 97 %.
SPENT = 0.7

# A sample this many interquartile ranges outside the quartiles is an outlier: J. W. Tukey, "Exploratory Data Analysis",
# 1977, "far out".
FAR_OUT = 3.0

# Samples count as bimodal where unimodal ones would dip as much in one of a hundred cases.
DIP = 0.01


class Interval(NamedTuple):
    """An estimate, and the interval that holds the true value with the confidence asked for."""

    estimate: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """The larger of its two sides as a share of the estimate."""
        return max(self.high / self.estimate - 1, 1 - self.low / self.estimate)

    def holds(self, value: float) -> bool:
        """Tell whether ``value`` is in the interval."""
        return self.low <= value <= self.high


def ratio_interval(numerator: Processes, denominator: Processes, confidence: float = 0.95) -> Interval:
    """Return numerator over denominator, two arms sampled by the same processes in the same rounds.

    ``numerator[p][i]`` and ``denominator[p][i]`` are positive and were taken in round ``i`` of process ``p``.

    Two levels. Within a process the logarithm of each round's ratio is taken, so that what slows a whole round (drift,
    a neighbour) cancels, and the process is summed up by the median of its rounds, so that a burst that hits one arm
    does not move it. Between processes the medians are independent: each process draws its own memory layout and thread
    placement once, so that more rounds cannot average that away, and rounds are no replicates of it. The interval is
    therefore Student's t over processes, the highest level of repetition, as in T. Kalibera and R. Jones, "Rigorous
    Benchmarking in Reasonable Time", ISMM 2013, doi:10.1145/2464157.2464160; on logarithms, so that the interval of the
    inverse ratio is the inverse interval.

    The quantile is a little larger than t's own at 95 %, because sampling stops when the interval is narrow (`SPENT`).
    Stein's two-stage rule ("A Two-Sample Test for a Linear Hypothesis whose Power is Independent of the Variance",
    Annals of Mathematical Statistics 16, 1945) would be exact, and would not notice a machine that becomes noisy later.

    It is t with two processes too, with its one degree of freedom: wide (18 standard errors), and true. A two-level
    bootstrap (process, then round) looks better and is not: from two processes of 20 rounds its intervals hold the true
    ratio of a simulated machine in 83 % of cases instead of 95 %, because two values say nearly nothing about the
    spread they come from. More processes are the remedy, not another formula.

    Raises:
        ValueError: fewer than two processes, a process without a round, a round that lacks an arm, a value that is not
            a positive number.

    """
    return _over_processes(_log_ratios(numerator, denominator), confidence)


def ratio_between_processes(numerator: Processes, denominator: Processes, confidence: float = 0.95) -> Interval:
    """Return numerator over denominator, two arms sampled by different processes that ran in pairs.

    ``numerator[i]`` and ``denominator[i]`` are the positive samples of the two processes of pair ``i``, which ran one
    after the other, as many as each took. No round holds both arms, so that no sample has a partner: each process is
    summed up by its median, and a pair by the logarithm of the ratio of its two medians. The interval is Student's t
    over pairs, as in `ratio_interval`.

    Pairs, and not two independent groups of processes: what slows the machine for minutes slows both processes of a
    pair and cancels, and where nothing does, pairing costs degrees of freedom and no truth. Pairs share no process, so
    that they are replicates. With the arms in balanced order within the pairs, what is left of a steady drift has
    alternating signs: it widens the interval and does not move it. Simulated in tests/unit/test_statistics.py.

    Raises:
        ValueError: fewer than two pairs, a process without partner or sample, a value that is not a positive number.

    """
    return _over_processes(_log_ratios_of_pairs(numerator, denominator), confidence)


def placebo_between_processes(numerator: Processes, denominator: Processes, confidence: float = 0.95) -> Interval:
    """Return an arm over itself, from different processes: the noise floor of `ratio_between_processes`.

    Of the same samples, in blocks of two pairs: the two processes of one arm in a block differ by noise alone. The
    denominator's first is taken over its second, and the numerator's second over its first, so that a steady drift is
    balanced here as well as in the ratio. A ratio has the noise of one process of each arm in every pair, and so have
    these on average, whichever of the arms is the noisier.

    Raises:
        ValueError: as `ratio_between_processes`, and for an odd number of pairs.

    """
    if len(numerator) % 2:
        raise ValueError(f"{len(numerator)} pairs of processes are not blocks of two")
    above, below = _log_medians_of_pairs(numerator, denominator)
    noise = [above[first + 1] - above[first] for first in range(0, len(above), 2)]
    noise += [below[first] - below[first + 1] for first in range(0, len(below), 2)]
    return _over_processes(noise, confidence)


def detectable(numerator: Processes, denominator: Processes, *, paired: bool = True, power: float = 0.8) -> float:
    """Return the smallest effect, as a share, that a run like this one resolves from none with probability ``power``.

    That is the quantile of the interval and t's of the power, times the standard error (J. Cohen, "Statistical Power
    Analysis for the Behavioral Sciences", 1988). ``paired``: the samples are those of `ratio_interval`, else of
    `ratio_between_processes`.

    Raises:
        ValueError: as those.

    """
    logarithms = _log_ratios(numerator, denominator) if paired else _log_ratios_of_pairs(numerator, denominator)
    quantiles = quantile(0.95, len(logarithms)) + float(stats.t.ppf(power, df=len(logarithms) - 1))
    with np.errstate(over="ignore"):
        return float(np.expm1(quantiles * standard_error(logarithms)))


def noise_floor(placebo: Interval) -> float:
    """Return by what share two equal arms may differ here: the farther end of their interval from 1."""
    return math.expm1(max(math.log(placebo.high), -math.log(placebo.low) if placebo.low > 0 else math.inf))


def is_resolved(ratio: Interval, placebo: Interval) -> bool:
    """Tell whether a ratio is told from 1: by its own interval, and beyond the noise floor."""
    return not ratio.holds(1) and abs(math.log(ratio.estimate)) > math.log1p(noise_floor(placebo))


def outliers(values: Sequence[float]) -> list[int]:
    """Return the places of samples far outside the others (`FAR_OUT`), on logarithms."""
    logarithms = np.log(values)
    low, high = np.quantile(logarithms, [0.25, 0.75])
    reach = FAR_OUT * (high - low)
    return [int(place) for place in np.flatnonzero((logarithms < low - reach) | (logarithms > high + reach))]


def is_bimodal(values: Sequence[float]) -> bool:
    """Tell whether samples have more than one mode: the dip test, which asks for four samples at least.

    J. A. Hartigan and P. M. Hartigan, "The Dip Test of Unimodality", Annals of Statistics 13, 1985; on logarithms.
    """
    return len(values) >= 4 and bool(diptest.diptest(np.log(values))[1] < DIP)


def _log_ratios(numerator: Processes, denominator: Processes) -> list[float]:
    """Return for each process the median over its rounds of the logarithm of the ratio."""
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} processes sampled one arm and {len(denominator)} the other")
    centres = []
    for above, below in zip(_checked(numerator), _checked(denominator), strict=True):
        if len(above) != len(below):
            raise ValueError(f"a process took {len(above)} samples of one arm and {len(below)} of the other")
        centres.append(float(np.median(np.log(above) - np.log(below))))
    return centres


def _log_ratios_of_pairs(numerator: Processes, denominator: Processes) -> list[float]:
    above, below = _log_medians_of_pairs(numerator, denominator)
    return [one - other for one, other in zip(above, below, strict=True)]


def _log_medians_of_pairs(numerator: Processes, denominator: Processes) -> tuple[list[float], list[float]]:
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} processes sampled one arm and {len(denominator)} the other")
    return _log_medians(numerator), _log_medians(denominator)


def _log_medians(processes: Processes) -> list[float]:
    return [float(np.log(np.median(values))) for values in _checked(processes)]


def centre(processes: Processes, confidence: float = 0.95) -> Interval:
    """Return the typical value of one arm: over processes, of each process's median.

    The estimate is the geometric mean of the medians and the interval as in `ratio_interval`. Nothing cancels here, so
    that drift between processes is in it: it is much wider than that of a ratio.

    Raises:
        ValueError: as `ratio_interval`.

    """
    return _over_processes(_log_medians(processes), confidence)


def _checked(processes: Processes) -> list[np.ndarray]:
    if len(processes) < 2:
        raise ValueError(f"an interval takes two processes, and there are only {len(processes)}")
    arrays = [np.asarray(values, dtype=float) for values in processes]
    for values in arrays:
        if values.size == 0:
            raise ValueError("a process took no sample")
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError("a sample is not a positive number")
    return arrays


def _over_processes(logarithms: Sequence[float], confidence: float) -> Interval:
    mean = float(np.mean(logarithms))
    margin = quantile(confidence, len(logarithms)) * standard_error(logarithms)
    # A margin beyond the range of a float means "unknown above": infinity, not an overflow.
    with np.errstate(over="ignore"):
        return Interval(math.exp(mean), float(np.exp(mean - margin)), float(np.exp(mean + margin)))


def standard_error(logarithms: Sequence[float]) -> float:
    """Return the standard error of the mean."""
    return float(np.std(logarithms, ddof=1)) / math.sqrt(len(logarithms))


def quantile(confidence: float, processes: int) -> float:
    """Return how many standard errors an interval reaches to either side: t's, with `SPENT`."""
    return float(stats.t.ppf(1 - SPENT * (1 - confidence) / 2, df=processes - 1))
