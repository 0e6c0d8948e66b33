"""What is measured: a network or one of the small functions, with its inputs. Runs in the measured process."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Unfit(Exception):
    """A user's case that cannot be timed; the message says why in one sentence."""


@dataclass(frozen=True)
class Subject:
    """A function and its arguments; ``facts`` are observations about what was really built.

    ``arms``: what else can be measured beside eager and Inductor, by name.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    positional: Sequence[Any] = ()
    arms: Mapping[str, Callable[[], Any]] = field(default_factory=dict)

    def call(self) -> Any:
        """Call the function in eager mode."""
        return self.function(*self.positional, **self.arguments)


def build(asked: Mapping[str, Any]) -> Subject:
    """Build the subject that ``asked["kind"]`` names, of those in ``_BUILDERS``; the other keys are its builder's."""
    return _BUILDERS[asked["kind"]](asked)


def _model(asked: Mapping[str, Any]) -> Subject:
    from cpulab import models

    network, weights = models.build(
        asked["model"], layers=asked["layers"], attention=asked["attention"], seed=asked["seed"]
    )
    tokens = models.inputs(network, batch=asked["batch"], sequence_length=asked["sequence_length"], seed=asked["seed"])
    batch, sequence_length = tokens["input_ids"].shape
    facts = {"batch": batch, "sequence_length": sequence_length, "weights": weights, **models.describe(network)}
    return Subject(network, tokens, facts)


def _program(asked: Mapping[str, Any]) -> Subject:
    from cpulab.cases import PROGRAMS

    program = PROGRAMS[asked["program"]]
    inputs = program.inputs(asked["seed"])
    names = list(inspect.signature(program.function).parameters)
    rows, columns = inputs[0].shape
    return Subject(program.function, dict(zip(names, inputs, strict=True)), {"rows": rows, "columns": columns})


def _case(asked: Mapping[str, Any]) -> Subject:
    """Build a user's function from ``file``, ``function`` and ``seed``, after two calls of it in eager mode.

    Raises:
        Unfit: it cannot be loaded or called, or a call changes its inputs, so that no call is like the one before.

    """
    import torch
    from torch.utils import _pytree as pytree

    from cpulab.explain import case
    from cpulab.measure import correctness

    try:
        function = case.load(asked["file"], asked["function"])
        inputs = case.inputs(asked["file"], asked["function"], asked["seed"])
    except case.CaseInvalid as reason:
        raise Unfit(str(reason)) from reason
    tensors = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    versions = _versions(tensors)
    try:
        with torch.no_grad():
            first, second = function(*inputs), function(*inputs)
    except Exception as error:
        text = " ".join(str(error).split())
        raise Unfit(f"eager raises {type(error).__name__}: {text[:300]}") from error
    if versions != _versions(tensors):
        raise Unfit(f"{asked['function']} changes its inputs, so that no call is like the one before")
    repeats = correctness.compare(first, second, lambda: first).compiled_is_right
    return Subject(function, {}, {"repeats": repeats}, positional=inputs)


def _versions(tensors: Sequence[Any]) -> list[int]:
    """Return how often each tensor was changed in place; inference tensors do not count it."""
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]  # noqa: SLF001 - no other way


def _roofline(asked: Mapping[str, Any]) -> Subject:
    from cpulab.roofline import subjects

    return {"machine": subjects.machine, "pattern": subjects.pattern, "linear": subjects.linear}[asked["kind"]](asked)


_BUILDERS = {
    "model": _model, "program": _program, "case": _case,
    "machine": _roofline, "pattern": _roofline, "linear": _roofline,
}  # fmt: skip
