"""When enough has been sampled: how many processes, and how long each of them may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpulab.config import Sampling

StoppedBy = Literal["interval", "processes", "budget"]


def stopped_by(
    sampling: Sampling,
    processes: int,
    half_width: Callable[[], float],
    *,
    elapsed_s: float,
    next_s: float,
) -> StoppedBy | None:
    """Return why no further process is to be measured after ``processes`` of them, or None when one is.

    ``half_width``: of the widest interval asked for, as a share of its ratio; looked at once there are enough processes
    to have one. ``elapsed_s``: since the first process began; ``next_s``: about how long the next ones would take,
    that is, as long as the last ones.

    Looking at the interval again and again and stopping at the first narrow one favours intervals that are narrow by
    chance. The quantile of the intervals pays for it in advance (`cpulab.statistics.SPENT`); what is left is the risk
    of a first look at very few processes. Hence ``min_processes``, and a longer budget is no substitute for it.
    """
    if processes < sampling.min_processes:
        return None
    if half_width() <= sampling.half_width:
        return "interval"
    if processes >= sampling.max_processes:
        return "processes"
    if elapsed_s + next_s > sampling.budget_s:
        return "budget"
    return None


def time_allowed(sampling: Sampling, still_due: int, *, elapsed_s: float) -> float:
    """Return the seconds the next process may take after ``elapsed_s``.

    The ``still_due`` processes that are taken in any case share what is left of the budget; one that is not may use all
    of it.
    """
    return max(0.0, sampling.budget_s - elapsed_s) / max(1, still_due)
