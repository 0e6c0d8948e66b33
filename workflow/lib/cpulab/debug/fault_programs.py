"""Small programs that show the registered faults; a case file. Runs in the measured process."""

from __future__ import annotations

import torch


def maximum_with_negated_uint8(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Take the maximum of uint8 ``x2`` and minus ``x1``, of which there is one row."""
    return torch.maximum(x2, torch.neg(x1))


def maximum_with_negated(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Take the maximum of ``x2`` halved and minus ``x1``, and add 1."""
    return torch.maximum(x2 / 2, torch.neg(x1)) + 1


def widened_sum_of_uint8(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Add two uint8, which wraps around at 256, and go on in int16."""
    return (a + b).to(torch.int16) * 3


def root_of_absolute(x: torch.Tensor) -> torch.Tensor:
    """Return the square root of the absolute value of ``x`` doubled."""
    return torch.sqrt(torch.abs(x * 2))


def sums_of_rows(x: torch.Tensor) -> torch.Tensor:
    """Add the squares in each row, whose length is no multiple of a vector's."""
    return (x * x).sum(dim=1) + 1


def product_of_exponentials(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply two exponentials; the number of elements is no multiple of a vector's."""
    return torch.exp(x) * torch.exp(y)


def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Multiply ``y`` by the sigmoid of ``x``, and add 1."""
    return torch.sigmoid(x) * y + 1


def maximum_with_nan(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Take the maximum of ``x`` doubled and ``y``, which is not a number here and there."""
    return torch.maximum(x * 2, y) - 1


def product_of_int64(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply two int64 whose product needs more than 32 bits, and add 1."""
    return (a + 1) * b - 1


def doubled_cosine(x: torch.Tensor) -> torch.Tensor:
    """Return twice the cosine: there is a minus in its gradient alone."""
    return torch.cos(x) * 2


INPUTS = {
    "maximum_with_negated_uint8": lambda: [torch.randint(256, (n, 8), dtype=torch.uint8) for n in (1, 37)],
    "maximum_with_negated": lambda: [torch.randn(n, 8) for n in (1, 37)],
    "widened_sum_of_uint8": lambda: [torch.randint(256, (40,), dtype=torch.uint8) for _ in range(2)],
    "root_of_absolute": lambda: [torch.randn(5, 37)],
    "sums_of_rows": lambda: [torch.randn(5, 37)],
    "product_of_exponentials": lambda: [torch.randn(37), torch.randn(37)],
    "gated": lambda: [torch.randn(5, 37), torch.randn(5, 37)],
    "maximum_with_nan": lambda: [torch.randn(64), torch.tensor([1.0, float("nan"), -2.0, 3.0] * 16)],
    "product_of_int64": lambda: [torch.randint(2**20, 2**30, (40,)) for _ in range(2)],
    "doubled_cosine": lambda: [torch.randn(64, requires_grad=True)],
}
