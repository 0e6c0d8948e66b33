"""The tutorial's pattern, and the same with a known ratio of eager to compiled; for measuring.py.

`cpulab bench` runs them as it runs a user's. What a call through torch.compile costs besides the compiled code is some
per cent of the pattern's time, and no known ratio: so the two of known ratio are not compiled but replaced.
"""
# ruff: noqa: INP001 - read by its path

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from cpulab.cases import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable

# By how much longer `slowed` takes where it should be compiled.
SLOWER = 0.05

_compile = torch.compile


def inputs() -> list[torch.Tensor]:
    """Return the inputs of the tutorial's pattern."""
    return PROGRAMS["fused_pattern"].inputs(0)


def pattern(*arguments: torch.Tensor) -> torch.Tensor:
    """Return (x + bias + residual) * weight + shift: what the tutorial compiles to one kernel."""
    return PROGRAMS["fused_pattern"].function(*arguments)


def same(*arguments: torch.Tensor) -> torch.Tensor:
    """Compute the pattern; "compiled" it is this function."""
    return pattern(*arguments)


def slowed(*arguments: torch.Tensor) -> torch.Tensor:
    """Compute the pattern; "compiled" it is this function, which then stays busy for a twentieth of its own time."""
    return pattern(*arguments)


def _busy_longer(*arguments: torch.Tensor) -> torch.Tensor:
    start = time.perf_counter()
    result = slowed(*arguments)
    end = start + (1 + SLOWER) * (time.perf_counter() - start)
    while time.perf_counter() < end:
        pass
    return result


def _replaced(function: Callable[..., Any], *settings: Any, **more: Any) -> Any:
    known = {same: same, slowed: _busy_longer}
    return known[function] if function in known else _compile(function, *settings, **more)


torch.compile = _replaced  # type: ignore[assignment]
