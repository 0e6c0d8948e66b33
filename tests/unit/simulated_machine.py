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


def pairs(
    generator: np.random.Generator, *, pairs: int, ratio: float, layouts: tuple[float, float], drift: float = 0.0
) -> tuple[Samples, Samples]:
    """Simulate two arms whose true ratio is ``ratio``, each sampled by fresh processes: below, above, above, below, ...

    ``layouts``: by how much the processes of the numerator and of the denominator differ; ``drift``: the share by which
    the machine gets slower from process to process, beside a random walk of 1 %. Within a process 12 samples with 1 % of
    noise, and bursts as in `world`.
    """
    walk = np.cumsum(generator.normal(0, 0.01, 2 * pairs)) + drift * np.arange(2 * pairs)
    above, below = [], []
    for pair in range(pairs):
        # Blocks of two mirrored pairs, each block the mirror image of the one before.
        order = (below, above) if pair % 4 in {0, 3} else (above, below)
        for place, arm in enumerate(order):
            is_above = arm is above
            bursts = (generator.random(12) < 0.1) * generator.exponential(0.7, 12)
            centre = walk[2 * pair + place] + generator.normal(0, layouts[0 if is_above else 1])
            times = np.exp(centre + bursts + generator.normal(0, 0.01, 12)) * (ratio if is_above else 1)
            arm.append(times.tolist())
    return above, below
