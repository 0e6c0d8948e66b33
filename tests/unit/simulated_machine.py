"""A simulated noisy machine on which the true ratio is known."""

from __future__ import annotations

import numpy as np

Samples = list[list[float]]


def world(
    generator: np.random.Generator, *, processes: int, rounds: int, ratio: float, layout: float = 0.01
) -> tuple[Samples, Samples]:
    """Simulate two arms whose true ratio is ``ratio``.

    Between processes a spread of ``layout`` in the ratio (memory layout) and of 20 % in both arms; within one a random
    walk and a steady drift that both arms share, 1 % of noise a sample, and bursts that hit one sample in ten and last
    for 70 % of it on average. The arms of a round stand in mirrored order.
    """
    slots = 2 * rounds
    above, below = [], []
    for _ in range(processes):
        drift = np.cumsum(generator.normal(0, 0.01, slots)) + generator.normal(0, 0.01) * np.arange(slots)
        bursts = (generator.random(slots) < 0.1) * generator.exponential(0.7, slots)
        times = np.exp(generator.normal(0, 0.2) + drift + bursts + generator.normal(0, 0.01, slots)).reshape(rounds, 2)
        times[1::2] = times[1::2, ::-1].copy()
        above.append((ratio * np.exp(generator.normal(0, layout)) * times[:, 0]).tolist())
        below.append(times[:, 1].tolist())
    return above, below
