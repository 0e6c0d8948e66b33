"""A function that is the same compiled and not; for measuring.py. `cpulab bench` runs it as it runs a user's."""
# ruff: noqa: INP001 - read by its path

from __future__ import annotations

import torch

from cpulab.cases import PROGRAMS

# In this process a compiled function runs as it is.
torch.compiler.set_stance("force_eager")


def inputs() -> list[torch.Tensor]:
    """Return the inputs of the tutorial's pattern."""
    return PROGRAMS["fused_pattern"].inputs(0)


def same(*arguments: torch.Tensor) -> torch.Tensor:
    """Return (x + bias + residual) * weight + shift."""
    return PROGRAMS["fused_pattern"].function(*arguments)
