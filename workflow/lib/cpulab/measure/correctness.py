"""Whether a compiled result is right: by eager, and where they differ by float64. Runs in the measured process."""

from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

# Largest difference allowed, as a share of the largest magnitude eager computes (a network's outputs may all be small).
# For float32 the tutorial's own tolerance; for the others about the same number of units in the last place.
RELATIVE_TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 1e-4,
    torch.float16: 1e-2,
    torch.bfloat16: 5e-2,
}

# Where eager and compiled differ by more, compiled may be this many times as far from float64 as eager is:
# the factor of PyTorch's own accuracy check (torch._dynamo.utils.same).
NO_WORSE = 2.0


@dataclass(frozen=True)
class Correctness:
    """How a compiled result compares with eager's: of the tensor that differs most for its tolerance.

    Errors are largest absolute differences, None where they are not measured or not finite. ``tolerance``: the error
    that still counts as equal; ``scale``: the largest magnitude in eager's tensor; ``oracle``: what decided, "eager" or
    "float64"; ``eager_error`` and ``compiled_error``: distances from the float64 reference, where that decided.
    """

    compiled_is_right: bool
    largest_error: float | None
    tolerance: float
    scale: float
    oracle: str
    eager_error: float | None = None
    compiled_error: float | None = None


def compare(eager: Any, compiled: Any, reference: Callable[[], Any]) -> Correctness:
    """Compare two results (tensors, or any nesting of them); ``reference`` computes the same in float64 when asked.

    Tensors of integers and booleans are to be equal exactly. Shapes, types and the places of NaN and infinity are to be
    the same.
    """
    ours, theirs = _tensors(eager), _tensors(compiled)
    if [(one.shape, one.dtype) for one in ours] != [(other.shape, other.dtype) for other in theirs]:
        return Correctness(False, None, 0.0, 0.0, "eager")
    each = [_against_eager(one, other) for one, other in zip(ours, theirs, strict=True)]
    worst = max(each, key=lambda one: (not one.compiled_is_right, _by_tolerance(one)))
    if worst.compiled_is_right:
        return worst
    exactly = [one for one, tensor in zip(each, ours, strict=True) if not tensor.is_floating_point()]
    wrong = next((one for one in exactly if not one.compiled_is_right), None)
    if wrong is not None:
        return wrong
    judged = [
        seen if seen.compiled_is_right else _against_float64(seen, exact, one, other)
        for seen, exact, one, other in zip(each, _tensors(reference()), ours, theirs, strict=True)
    ]
    return max(judged, key=lambda one: (not one.compiled_is_right, one.oracle == "float64", _by_tolerance(one)))


def _against_eager(eager: torch.Tensor, compiled: torch.Tensor) -> Correctness:
    scale = _magnitude(eager)
    tolerance = RELATIVE_TOLERANCE.get(eager.dtype, 0.0) * scale
    error = _largest_error(eager, compiled)
    return Correctness(error <= tolerance, _finite(error), tolerance, scale, "eager")


def _against_float64(
    seen: Correctness, exact: torch.Tensor, eager: torch.Tensor, compiled: torch.Tensor
) -> Correctness:
    eager_error, compiled_error = _largest_error(exact, eager), _largest_error(exact, compiled)
    return dataclasses.replace(
        seen,
        compiled_is_right=math.isfinite(compiled_error) and compiled_error <= NO_WORSE * eager_error,
        oracle="float64",
        eager_error=_finite(eager_error),
        compiled_error=_finite(compiled_error),
    )


def _by_tolerance(seen: Correctness) -> float:
    """Order by how many times its tolerance a tensor is off."""
    if seen.largest_error is None:
        return math.inf
    return seen.largest_error / seen.tolerance if seen.tolerance else seen.largest_error


def in_float64(function: Callable[..., Any], arguments: Mapping[str, Any], positional: Sequence[Any] = ()) -> Any:
    """Call ``function`` with every floating-point tensor in float64, its own parameters too if it is a module."""
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).double()
    wide, wide_positional = pytree.tree_map_only(
        torch.Tensor,
        lambda tensor: tensor.double() if tensor.is_floating_point() else tensor,
        (dict(arguments), list(positional)),
    )
    return function(*wide_positional, **wide)


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _magnitude(tensor: torch.Tensor) -> float:
    wide = tensor.double().abs()
    return float(torch.where(wide.isfinite(), wide, 0.0).max()) if wide.numel() else 0.0


def _largest_error(expected: torch.Tensor, found: torch.Tensor) -> float:
    """Return the largest absolute difference; infinite where one has a NaN or an infinity that the other has not."""
    if not expected.numel():
        return 0.0
    exact, value = expected.double(), found.double()
    same = (expected == found) | (exact.isnan() & value.isnan())
    # Integers that differ may be equal in float64: they are one apart at least.
    least = 0.0 if expected.is_floating_point() else 1.0
    difference = torch.where(same, 0.0, (exact - value).abs().clamp(min=least))
    return float(difference.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
