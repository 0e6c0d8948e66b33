"""Eager again with another choice where PyTorch leaves one open: the sign of a zero, what does not fit, what is unset.

Where the results of two choices differ, the program hangs on what is not defined. Runs in the measured process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from cpulab.explain.shadow import conversion, is_view, name_of, unfit

if TYPE_CHECKING:
    from collections.abc import Callable

    # Changes an op's results in place: the op, its arguments, its results.
    Choice = Callable[[Any, Any, Any], None]


class Variant(TorchDispatchMode):  # type: ignore[misc] # torch is not installed beside mypy
    """Runs the program with ``choose`` applied to what every op computes (not to views of what is there)."""

    def __init__(self, choose: Choice) -> None:
        super().__init__()
        self._choose = choose

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if not is_view(func):
            with torch.no_grad():
                self._choose(func, args, out)
        return out


def zeros(sign: float) -> Choice:
    """Give every float zero that is computed the sign of ``sign``."""

    def choose(_func: Any, _args: Any, out: Any) -> None:
        for one in _dense(out):
            if one.is_floating_point() and one.numel():
                one.masked_fill_(one == 0, 0.0 * sign)

    return choose


def conversions(place: int) -> Choice:
    """Turn floats that do not fit an integer type into the least (``place`` 0), the largest (1) or zero (2)."""

    def choose(func: Any, args: Any, out: Any) -> None:
        source = conversion(func, args, out)
        if source is not None:
            limits = torch.iinfo(out.dtype)
            out.masked_fill_(unfit(source, out.dtype).expand(out.shape), (limits.min, limits.max, 0)[place])

    return choose


def unset(value: int) -> Choice:
    """Fill memory that an op hands out without setting it."""

    def choose(func: Any, _args: Any, out: Any) -> None:
        if name_of(func).startswith(("empty", "new_empty")):
            for one in _dense(out):
                one.fill_(value)

    return choose


CHOICES: dict[str, list[Choice]] = {
    "zeros": [zeros(1.0), zeros(-1.0)],
    "conversions": [conversions(0), conversions(1), conversions(2)],
    "unset": [unset(1), unset(2)],
}


def _dense(out: Any) -> list[Tensor]:
    leaves = pytree.tree_leaves(out)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.layout == torch.strided]
