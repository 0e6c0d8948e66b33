"""What samples of several processes say: a ratio or a time, with its 95 % interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

if TYPE_CHECKING:
    from collections.abc import Sequence

    Processes = Sequence[Sequence[float]]


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

    It is t with two processes too, with its one degree of freedom: wide (12.7 standard errors), and true. A two-level
    bootstrap (process, then round) looks better and is not: from two processes of 20 rounds its intervals hold the true
    ratio of a simulated machine in 83 % of cases instead of 95 %, because two values say nearly nothing about the
    spread they come from. More processes are the remedy, not another formula.

    Raises:
        ValueError: fewer than two processes, a process without a round, a round that lacks an arm, a value that is not
            a positive number.

    """
    if len(numerator) != len(denominator):
        raise ValueError(f"{len(numerator)} processes sampled one arm and {len(denominator)} the other")
    centres = []
    for above, below in zip(_checked(numerator), _checked(denominator), strict=True):
        if len(above) != len(below):
            raise ValueError(f"a process took {len(above)} samples of one arm and {len(below)} of the other")
        centres.append(float(np.median(np.log(above) - np.log(below))))
    return _over_processes(centres, confidence)


def centre(processes: Processes, confidence: float = 0.95) -> Interval:
    """Return the typical value of one arm: over processes, of each process's median.

    The estimate is the geometric mean of the medians and the interval as in `ratio_interval`. Nothing cancels here, so
    that drift between processes is in it: it is much wider than that of a ratio.

    Raises:
        ValueError: as `ratio_interval`.

    """
    return _over_processes([float(np.log(np.median(values))) for values in _checked(processes)], confidence)


def _checked(processes: Processes) -> list[np.ndarray]:
    if len(processes) < 2:
        raise ValueError(f"{len(processes)} processes give no interval: it takes two")
    arrays = [np.asarray(values, dtype=float) for values in processes]
    for values in arrays:
        if values.size == 0:
            raise ValueError("a process took no sample")
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError("a sample is not a positive number")
    return arrays


def _over_processes(logarithms: Sequence[float], confidence: float) -> Interval:
    mean = float(np.mean(logarithms))
    error = float(np.std(logarithms, ddof=1)) / math.sqrt(len(logarithms))
    margin = float(stats.t.ppf((1 + confidence) / 2, df=len(logarithms) - 1)) * error
    # A margin beyond the range of a float means "unknown above": infinity, not an overflow.
    with np.errstate(over="ignore"):
        return Interval(math.exp(mean), float(np.exp(mean - margin)), float(np.exp(mean + margin)))
