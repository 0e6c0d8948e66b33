"""Simulated noisy machines on which the true ratio is known: made up ones, and ones drawn from recordings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cpulab.measure.sampling import stopped_by
from cpulab.statistics import ratio_interval

if TYPE_CHECKING:
    from cpulab.config import Sampling
    from cpulab.statistics import Interval

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


RECORDINGS = Path(__file__).parents[1] / "data" / "measure" / "machines"


@dataclass(frozen=True)
class Run:
    """What a simulated benchmark sampled, process by process, and the ratio of its arms that is true."""

    above: Samples
    below: Samples
    placebo: Samples
    true_ratio: float


@dataclass(frozen=True)
class RecordedMachine:
    """A machine that behaves as a recorded one did: its bursts, drifts within a process, modes, and spread of processes.

    ``layout``: by how much the processes of one arm differ besides; ``drift``: by how much processes get slower one after
    another, which both arms share.
    """

    processes: list[dict[str, list[float]]]
    layout: float
    drift: float

    def run(self, generator: np.random.Generator, *, processes: int, rounds: int, ratio: float) -> Run:
        """Measure an arm against itself, of which one is slower by ``ratio``.

        Which of the two recorded arms is which is drawn for every process, so that the true ratio is exact.
        """
        run = Run([], [], [], ratio)
        for number in range(processes):
            one, other = (self.processes[generator.integers(len(self.processes))] for _ in range(2))
            window = self._window(generator, one, rounds)
            first, second = (np.asarray(one[arm])[window] for arm in generator.permutation(["eager", "placebo"]))
            noise = np.asarray(other["placebo"])[window] / np.asarray(other["eager"])[window]
            slower = np.exp(self.drift * number)
            shifts = np.exp(generator.normal(0, self.layout, 2))
            run.above.append((first * ratio * slower * shifts[0]).tolist())
            run.below.append((second * slower).tolist())
            run.placebo.append((first * ratio * slower * shifts[1] * noise).tolist())
        return run

    def two_arms(self, generator: np.random.Generator, *, processes: int, rounds: int) -> Run:
        """Measure the recorded eager arm against Inductor; the true ratio is that of all recorded processes."""
        centres = [np.median(np.log(one["eager"]) - np.log(one["inductor"])) for one in self.processes]
        run = Run([], [], [], float(np.exp(np.mean(centres))))
        for _ in range(processes):
            one = self.processes[generator.integers(len(self.processes))]
            # Single rounds, and not a stretch of them: of a stretch the process's own centre is not the true one.
            drawn = generator.integers(len(one["eager"]), size=rounds)
            run.above.append(np.asarray(one["eager"])[drawn].tolist())
            run.below.append(np.asarray(one["inductor"])[drawn].tolist())
            run.placebo.append(np.asarray(one["placebo"])[drawn].tolist())
        return run

    @staticmethod
    def _window(generator: np.random.Generator, process: dict[str, list[float]], rounds: int) -> slice:
        first = generator.integers(min(60, len(process["eager"])) - rounds + 1)
        return slice(first, first + rounds)


def recorded_machines(generator: np.random.Generator, number: int) -> list[RecordedMachine]:
    """Return machines drawn from the recordings of a quiet and of a shared one."""
    recordings = [json.loads((RECORDINGS / f"{name}.json").read_text()) for name in ("quiet", "shared")]
    return [
        RecordedMachine(recordings[place % 2], generator.uniform(0, 0.02), generator.uniform(-0.02, 0.02))
        for place in range(number)
    ]


def measured(run: Run, sampling: Sampling) -> tuple[Interval, Interval, str]:
    """Stop as `stopped_by` says, budget aside; return the interval of the ratio, of the placebo, and why it stopped."""
    for processes in range(2, len(run.above) + 1):
        above, below, placebo = (arm[:processes] for arm in (run.above, run.below, run.placebo))
        reason = stopped_by(sampling, processes, partial(_half_width, above, below), elapsed_s=0, next_s=0)
        if reason is not None:
            return ratio_interval(above, below), ratio_interval(placebo, above), reason
    raise AssertionError


def _half_width(above: Samples, below: Samples) -> float:
    return ratio_interval(above, below).half_width
