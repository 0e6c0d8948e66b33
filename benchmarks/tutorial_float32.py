"""The tutorial's float32 program as a case file: the minimum that a user would write."""
# ruff: noqa: INP001 - a case file

from __future__ import annotations

import torch


def negate_and_maximum(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Take the maximum of ``x2`` (8390, 8) and minus ``x1`` (1, 8), through a concatenation of one tensor."""
    return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)


def inputs() -> list[torch.Tensor]:
    """Give both operands."""
    return [torch.randn(1, 8), torch.randn(8390, 8)]
