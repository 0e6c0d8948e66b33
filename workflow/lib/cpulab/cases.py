"""The tutorial's small functions and their inputs, re-implemented. Runs in the measured process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS, COLUMNS = 16384, 512


@dataclass(frozen=True)
class Program:
    """A function and the maker of its inputs (from a seed)."""

    function: Callable[..., torch.Tensor]
    inputs: Callable[[int], list[torch.Tensor]]


def negate_and_maximum(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Take the maximum of ``x2`` (8390, 8) and minus ``x1`` (1, 8), through a concatenation of one tensor."""
    return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)


def _uint8_inputs(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(256, shape, dtype=torch.uint8, generator=generator) for shape in ((1, 8), (8390, 8))]


def _float32_inputs(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator) for shape in ((1, 8), (8390, 8))]


def add_add_mul_add(
    x: torch.Tensor, bias: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, shift: torch.Tensor
) -> torch.Tensor:
    """Return (x + bias + residual) * weight + shift; ``x``, ``residual``: (16384, 512), the others (1, 512)."""
    return (x + bias + residual) * weight + shift


def _pattern_inputs(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.rand(1, COLUMNS, generator=generator) for _ in range(3)]
    return [
        torch.rand(ROWS, COLUMNS, generator=generator), rows[0], torch.zeros(ROWS, COLUMNS), rows[1], rows[2],
    ]  # fmt: skip


PROGRAMS = {
    "uint8": Program(negate_and_maximum, _uint8_inputs),
    "float32": Program(negate_and_maximum, _float32_inputs),
    "fused_pattern": Program(add_add_mul_add, _pattern_inputs),
}
