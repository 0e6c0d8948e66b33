"""The gradients of a case: of which tensors, and of what. Runs in the measured process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from cpulab.explain.comparison import leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def sources(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Tensor]:
    """Return the leaf tensors that require grad and that ``function`` may use: its arguments, its module's parameters.

    A plain function's modules and tensors are those among its globals and in its closure.
    """
    found = {f"inputs{path}": leaf for path, leaf in leaves(list(arguments)) if _wants_grad(leaf)}
    for name, value in _reachable(function):
        if isinstance(value, torch.nn.Module):
            found |= {f"{name}.{path}".lstrip("."): one for path, one in value.named_parameters() if _wants_grad(one)}
        elif _wants_grad(value):
            found[name] = value
    return found


def _reachable(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(function, torch.nn.Module):
        yield "", function
        return
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        yield "self", owner
    plain = getattr(function, "__func__", function)
    if getattr(plain, "__code__", None) is None:
        return
    yield from list(plain.__globals__.items())
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        yield name, cell.cell_contents


def backward(result: Any) -> bool:
    """Run the backward of ``result``'s float outputs; False where none has a history.

    Each output's gradient is a fixed pattern of 1, 1.25, 1.5 and 1.75 (exact in every dtype): of a plain sum, many
    gradients cancel, such as softmax's.
    """
    outputs = [
        leaf
        for _, leaf in leaves(result)
        if isinstance(leaf, Tensor) and leaf.requires_grad and (leaf.is_floating_point() or leaf.is_complex())
    ]
    # The same tensor twice has one history.
    outputs = list({id(one): one for one in outputs}.values())
    if not outputs:
        return False
    torch.autograd.backward(outputs, [_pattern(one) for one in outputs])
    return True


def collected(found: dict[str, Tensor]) -> dict[str, Tensor | None]:
    """Return the gradient of each source; None where none arrived."""
    return {name: one.grad for name, one in found.items()}


def _pattern(output: Tensor) -> Tensor:
    steps = torch.arange(output.numel(), dtype=torch.float32) % 4
    return (1 + steps / 4).to(output.dtype).reshape(output.shape)


def _wants_grad(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad and value.is_leaf
