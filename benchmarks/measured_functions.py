"""The tutorial's pattern, and a function of which the true ratio of eager to compiled is known; for measuring.py.

`cpulab bench` runs them as it runs a user's.
"""
# ruff: noqa: INP001 - read by its path

from __future__ import annotations

import time

import torch

from cpulab.cases import PROGRAMS

# By how much compiled is the slower one in `slowed`.
SLOWER = 0.05


def inputs() -> list[torch.Tensor]:
    """Return the inputs of the tutorial's pattern."""
    return PROGRAMS["fused_pattern"].inputs(0)


def pattern(*arguments: torch.Tensor) -> torch.Tensor:
    """Return (x + bias + residual) * weight + shift: what the tutorial compiles to one kernel."""
    return PROGRAMS["fused_pattern"].function(*arguments)


def slowed(*arguments: torch.Tensor) -> torch.Tensor:
    """Compute the pattern eagerly whether compiled or not, and when compiled stay busy for 5 % longer."""
    return _slowed(arguments, SLOWER if torch.compiler.is_compiling() else 0.0)


@torch.compiler.disable
def _slowed(arguments: tuple[torch.Tensor, ...], by: float) -> torch.Tensor:
    start = time.perf_counter()
    result = pattern(*arguments)
    end = start + (1 + by) * (time.perf_counter() - start)
    while time.perf_counter() < end:
        pass
    return result
