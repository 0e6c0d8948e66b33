"""The graphs that AOTAutograd hands to Inductor: captured with their real inputs, evaluated, changed and compiled.

Runs in the measured process. A graph here is one as Inductor's own minifier sees it: after decomposition and
partitioning, before Inductor's post-grad passes.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor import config
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.graph import GraphLowering
from torch._prims_common import clone_preserve_strides
from torch.utils._python_dispatch import _disable_current_modes

from cpulab.explain import gradients
from cpulab.explain.shadow import Shadow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from torch.fx import Graph, GraphModule, Node

    from cpulab.explain.comparison import Evidence

# A candidate's graph must be compiled, not found; compiled C++ is found by its text, which is right.
NO_GRAPH_CACHES = {"fx_graph_cache": False, "fx_graph_remote_cache": False, "force_disable_caches": False}


@dataclass(frozen=True)
class Captured:
    """One graph, and its inputs as they were before it first ran. ``inputs`` are in the placeholders' order."""

    graph: GraphModule
    inputs: list[Any]
    is_backward: bool

    @property
    def nodes(self) -> list[Node]:
        """The nodes that compute a value, in topological order."""
        return [node for node in self.graph.graph.nodes if node.op == "call_function"]


def capture(function: Callable[..., Any], inputs: Sequence[Any], *, backward: bool) -> list[Captured]:
    """Return the graphs of ``function`` at ``inputs``, in the order in which they run; Inductor compiles nothing.

    ``backward``: gradients are asked for, too (`cpulab.explain.gradients.backward`).
    """
    found: list[Captured] = []

    def inner_compile(graph: GraphModule, _examples: Sequence[Any], **options: Any) -> Callable[..., Any]:
        kept = own(graph)

        def run(arguments: Sequence[Any]) -> Any:
            arguments = list(arguments)
            found.append(Captured(kept, copied(arguments), bool(options.get("is_backward"))))
            with torch.no_grad():
                return torch.fx.Interpreter(graph).run(*arguments)

        run._boxed_call = True  # type: ignore[attr-defined] # noqa: SLF001 - how AOTAutograd asks
        return run

    torch.compiler.reset()
    with _fresh():
        result = torch.compile(function, backend=functools.partial(compile_fx, inner_compile=inner_compile))(*inputs)
        if backward:
            gradients.backward(result)
    torch.compiler.reset()
    return found


@contextlib.contextmanager
def _fresh() -> Iterator[None]:
    with config.patch(NO_GRAPH_CACHES), torch._functorch.config.patch(enable_autograd_cache=False):  # noqa: SLF001
        yield


def tensors(value: Any) -> list[torch.Tensor]:
    """Return the tensors that ``value`` holds, in order."""
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]  # noqa: SLF001


def copied(values: Any) -> Any:
    """Return ``values`` with copies of their tensors, strides kept and history left behind."""
    return torch.utils._pytree.tree_map_only(  # noqa: SLF001
        torch.Tensor, lambda one: clone_preserve_strides(one.detach()), values
    )


# --- evaluating ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Values:
    """What every node of a graph gives in eager, by name, and what is known of it beside that (`Shadow`).

    ``of``: the value as it was when it was computed.
    """

    of: dict[str, Any]
    evidence: dict[str, Evidence]
    terms: int


def values(graph: GraphModule, inputs: Sequence[Any]) -> Values:
    """Run ``graph`` in eager, node by node."""
    found: dict[str, Any] = {}
    live: dict[str, Any] = {}
    mode = Shadow(perturbed=True)

    class Watched(torch.fx.Interpreter):  # type: ignore[misc] # torch is not installed beside mypy
        def run_node(self, n: Node) -> Any:
            with _watchable(n):
                live[n.name] = value = super().run_node(n)
            with _disable_current_modes():
                found[n.name] = copied(value)
            return value

    arguments = copied(list(inputs))
    with torch.no_grad(), mode:
        Watched(graph).run(*arguments)
    evidence = {name: mode.evidence([value]) for name, value in live.items() if isinstance(value, torch.Tensor)}
    return Values(found, evidence, mode.facts.terms)


def _watchable(node: Node) -> contextlib.AbstractContextManager[Any]:
    # A mode has no say in how a higher-order operator runs.
    is_op = not isinstance(node.target, torch._ops.HigherOrderOperator)  # noqa: SLF001
    return contextlib.nullcontext() if is_op else _disable_current_modes()


def evaluated(node: Node, known: Mapping[str, Any]) -> tuple[Any, Evidence, int]:
    """Return what ``node`` gives in eager from the values ``known`` of its arguments, and the rest as of `Values`."""
    arguments, options = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: copied(known[one.name]))
    mode = Shadow(perturbed=True)
    with torch.no_grad(), mode, _watchable(node):
        value = node.target(*arguments, **options)
    return value, mode.evidence(tensors(value)), mode.facts.terms


# --- changing ------------------------------------------------------------------------------------


@dataclass
class Cut:
    """A graph under construction whose inputs are known values of another's nodes.

    ``outputs``: (name, expected value) of each output.
    """

    known: Mapping[str, Any]
    graph: Graph = field(default_factory=torch.fx.Graph)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[tuple[str, Any]] = field(default_factory=list)
    _made: dict[str, Node] = field(default_factory=dict)
    _results: list[Node] = field(default_factory=list)

    def value(self, node: Node) -> Any:
        """Return an input of the graph with the known value of ``node``; a number stands for itself."""
        known = self.known[node.name]
        if not isinstance(known, torch.Tensor):
            return known
        placeholder = self.given(node.name)
        placeholder.meta = dict(node.meta)
        return placeholder

    def given(self, name: str) -> Node:
        """Return an input of the graph with the value known by ``name``."""
        if name not in self._made:
            # Inputs come before all else, in the order in which they are asked for.
            first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
            with self.graph.inserting_before(first) if first is not None else contextlib.nullcontext():
                self._made[name] = self.graph.placeholder(f"{name}_value")
            self.inputs.append(self.known[name])
        return self._made[name]

    def computed(self, node: Node) -> Node:
        """Compute ``node`` from known values of its arguments; for a part of a result, from those of the whole."""
        if is_part(node):
            whole, place = node.args
            made = self.graph.call_function(operator.getitem, (self.computed(whole), place))
        else:
            arguments, options = torch.fx.node.map_arg((node.args, node.kwargs), self.value)
            made = self.graph.call_function(node.target, arguments, options)
        made.meta = dict(node.meta)
        return made

    def output(self, name: str, made: Node, expected: Any) -> None:
        """Let ``made`` be an output, expected to be ``expected``."""
        self._results.append(made)
        self.outputs.append((name, expected))

    def finish(self) -> GraphModule:
        """Return the graph as a module."""
        self.graph.output(tuple(self._results))
        return torch.fx.GraphModule(torch.nn.Module(), self.graph)


def is_pure(node: Node) -> bool:
    """Tell whether ``node`` changes none of its arguments."""
    schema = getattr(node.target, "_schema", None)
    return schema is None or not schema.is_mutable


def without_randomness(captured: Captured) -> Captured:
    """Return the graph with random numbers, once drawn, as inputs in place of the nodes that draw them."""
    tagged = [node for node in captured.nodes if _may_draw(node)]
    if not tagged:
        return captured
    known = values(captured.graph, captured.inputs).of
    drawing = {node.name for node in tagged if not _gives_again(node, known)}
    graph, inputs = replaced(captured, drawing, known)
    return Captured(graph, inputs, captured.is_backward)


def _may_draw(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or str(node.target).startswith(
        "prims.inductor_"
    )


def _gives_again(node: Node, known: Mapping[str, Any]) -> bool:
    """Tell whether ``node`` draws nothing after all, as attention without dropout."""
    again = tensors(evaluated(node, known)[0])
    return all(torch.equal(one, two) for one, two in zip(tensors(known[node.name]), again, strict=True))


def is_part(node: Node) -> bool:
    """Tell whether ``node`` takes one of several results of another."""
    return node.op == "call_function" and node.target is operator.getitem


def own(graph: GraphModule) -> GraphModule:
    """Return a graph that may be changed; its constants are those of ``graph``."""
    return torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))


def with_outputs(captured: Captured, names: Sequence[str]) -> GraphModule:
    """Return the graph with the values of the nodes ``names`` in place of its outputs."""
    changed = own(captured.graph)
    by_name = {node.name: node for node in changed.graph.nodes}
    (output,) = (node for node in changed.graph.nodes if node.op == "output")
    output.args = (tuple(by_name[name] for name in names),)
    output.meta = {}
    changed.graph.eliminate_dead_code()
    changed.recompile()
    return changed


def replaced(captured: Captured, names: Collection[str], known: Mapping[str, Any]) -> tuple[GraphModule, list[Any]]:
    """Return the graph with the known values of the nodes ``names`` as inputs in place of them, and all its inputs."""
    changed = own(captured.graph)
    inputs = list(captured.inputs)
    last = [node for node in changed.graph.nodes if node.op == "placeholder"]
    for node in list(changed.graph.nodes):
        if node.name not in names:
            continue
        for one in [user for user in node.users if is_part(user)] or [node]:
            with changed.graph.inserting_after(last[-1]) if last else changed.graph.inserting_before():
                placeholder = changed.graph.placeholder(f"{one.name}_value")
            placeholder.meta = dict(one.meta)
            one.replace_all_uses_with(placeholder)
            last.append(placeholder)
            inputs.append(known[one.name])
    changed.graph.eliminate_dead_code()
    changed.recompile()
    return changed, inputs


# --- compiling -----------------------------------------------------------------------------------


def run_compiled(
    graph: GraphModule, inputs: Sequence[Any], *, is_backward: bool, codes: list[str] | None = None
) -> list[Any]:
    """Compile ``graph`` with Inductor, run it on copies of ``inputs`` and return its outputs.

    ``codes``: the output code is appended to it, also where compiling or running it fails.
    """
    codes = codes if codes is not None else []
    graph, inputs = owned(graph, inputs)
    with _fresh(), torch.no_grad(), silent(), mock.patch.object(GraphLowering, "save_output_code", codes.append):
        outputs: list[Any] = list(compile_fx_inner(graph, inputs, is_backward=is_backward)(list(inputs)))
    return outputs


def owned(graph: GraphModule, inputs: Sequence[Any]) -> tuple[GraphModule, list[Any]]:
    """Return copies of both, for a compiler that changes its graph and kernels that change their inputs."""
    return own(graph), copied(list(inputs))


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Let PyTorch log nothing."""
    # Each candidate that does not compile would be logged with its traceback.
    logger = logging.getLogger("torch")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
