"""The graphs that Inductor gets for a function, as Python source, one line a node. Runs in the measured process."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._functorch.aot_autograd import make_boxed_func
from torch._inductor.compile_fx import compile_fx
from torch._ops import HigherOrderOperator, OpOverload

from cpulab.explain import gradients
from cpulab.explain.case import seed_everything
from cpulab.minify.reduction import Graph, Node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


@dataclass(frozen=True)
class Line:
    """The source of one node: an assignment to its name; before it, what it needs that is no node, such as a body."""

    name: str
    text: str
    definitions: tuple[str, ...] = ()


@dataclass
class Captured:
    """One graph that Inductor got, and the tensors it was called with (by input name).

    ``lines``: of all its nodes, in order; ``literals``: values of nodes that are neither tensors nor tuples of them.
    """

    direction: str
    graph: Graph
    lines: dict[str, Line]
    literals: dict[str, str]
    values: dict[str, torch.Tensor]
    random: bool


def captured(
    function: Callable[..., Any], inputs: Sequence[Any], *, direction: str, seed: int
) -> tuple[list[Captured], list[str]]:
    """Run ``function`` with its graphs executed by eager; return those of ``direction`` and why others are left out."""
    found: list[tuple[torch.fx.GraphModule, list[Any], bool]] = []

    def record(graph: torch.fx.GraphModule, _examples: Sequence[Any], **options: Any) -> Any:
        backward = bool(options.get("is_backward"))
        place = len(found)
        found.append((graph, [], backward))

        def run(*given: Any) -> Any:
            if not found[place][1]:
                found[place] = (graph, [copied(one) for one in given], backward)
            return graph(*given)

        return make_boxed_func(run)

    def backend(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
        return compile_fx(graph, examples, inner_compile=record)

    torch.compiler.reset()
    seed_everything(seed)
    results = torch.compile(function, backend=backend, dynamic=False)(*inputs)
    if direction == "backward":
        gradients.backward(results)
    torch.compiler.reset()
    graphs: list[Captured] = []
    left_out: list[str] = []
    for graph, given, backward in found:
        if backward != (direction == "backward"):
            continue
        if len(given) != len([node for node in graph.graph.nodes if node.op == "placeholder"]):
            left_out.append("a graph that was not run")
            continue
        try:
            graphs.append(_described(graph, given, direction, seed))
        except Unwritable as problem:
            left_out.append(str(problem))
    return graphs, left_out


class Unwritable(Exception):
    """A graph that cannot be written as source; the message names what in it cannot."""


def copied(value: Any) -> Any:
    """Return a tensor's copy with its values, strides and storage offset, and nothing shared; all else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if value.layout != torch.strided or value.is_quantized:
        return value.clone()
    return storage_of(value).clone().as_strided(value.size(), value.stride(), value.storage_offset())


def storage_of(value: torch.Tensor) -> torch.Tensor:
    """Return the elements of a tensor's storage up to its last one, as a flat tensor."""
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    reach = sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    length = value.storage_offset() + reach + 1 if value.numel() else value.storage_offset()
    return value.as_strided((length,), (1,), 0)


def evaluate(lines: Iterable[Line], given: dict[str, Any], wanted: Iterable[str]) -> dict[str, Any]:
    """Execute lines one by one; return copies of what ``wanted`` names, as they are when they are first there."""
    wanted = set(wanted)
    namespace = dict(given) | {"torch": torch}
    values = {name: copied(value) for name, value in given.items() if name in wanted}
    with torch.no_grad():
        for line in lines:
            for definition in line.definitions:
                exec(definition, namespace)  # noqa: S102 - our own rendering of the user's graph
            exec(line.text, namespace)  # noqa: S102
            if line.name in wanted:
                values[line.name] = copied(namespace[line.name])
    return values


def _described(module: torch.fx.GraphModule, given: Sequence[Any], direction: str, seed: int) -> Captured:
    """Write a graph down, and run it once for what kind of value each node has."""
    inputs: list[str] = []
    values: dict[str, Any] = {}
    arguments = iter(given)
    lines: dict[str, Line] = {}
    uses: dict[str, tuple[str, ...]] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append(node.name)
            values[node.name] = next(arguments)
        elif node.op == "get_attr" and isinstance(value := _attribute(module, node.target), torch.Tensor):
            inputs.append(node.name)
            values[node.name] = copied(value)
        elif node.op == "call_function":
            lines[node.name] = Line(node.name, f"{node.name} = {call(node)}", tuple(_definitions(module, node)))
            uses[node.name] = tuple(dict.fromkeys(one.name for one in node.all_input_nodes if one.op != "get_attr"
                                                  or one.name in values))  # fmt: skip
        elif node.op not in {"get_attr", "output"}:
            raise Unwritable(f"a graph with {node.op} {node.target}")
    seed_everything(seed)
    results = evaluate(lines.values(), {name: copied(value) for name, value in values.items()}, lines)
    everything = values | results
    nodes = [
        Node(
            node.name,
            named(node.target),
            uses[node.name],
            _kind(results[node.name]),
            node.args[0].name if node.target is operator.getitem else None,
        )
        for node in module.graph.nodes
        if node.name in lines
    ]
    # A node that changes its operand is wanted for that, whether or not it is returned.
    changing = [node.name for node in module.graph.nodes if node.name in lines and _changes_operand(node)]
    returned = [node.name for node in module.graph.output_node().all_input_nodes]
    outputs = [name for name in dict.fromkeys([*returned, *changing]) if isinstance(results.get(name), torch.Tensor)]
    graph = Graph(
        inputs=tuple(name for name in inputs if isinstance(values[name], torch.Tensor)),
        nodes=tuple(nodes),
        outputs=tuple(outputs),
        shapes={name: tuple(value.shape) for name, value in everything.items() if isinstance(value, torch.Tensor)},
    )
    literals = {
        name: rendered(value)
        for name, value in everything.items()
        if not isinstance(value, torch.Tensor) and (name in values or _kind(value) == "constant")
    }
    random = any(torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) for node in module.graph.nodes)
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    return Captured(direction, graph, lines, literals, tensors, random)


def _kind(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return "tensor"
    parts = value if isinstance(value, (tuple, list)) else ()
    return "tuple" if any(isinstance(part, torch.Tensor) for part in parts) else "constant"


def _changes_operand(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module


def _definitions(module: torch.fx.GraphModule, node: torch.fx.Node) -> Iterator[str]:
    """Give the functions that ``node`` calls, such as the two branches of a condition, as source."""
    for one in node.all_input_nodes:
        if one.op == "get_attr" and isinstance(body := _attribute(module, one.target), torch.fx.GraphModule):
            yield "\n".join(_function(one.name, body))


def _function(name: str, body: torch.fx.GraphModule) -> list[str]:
    parameters = [node.name for node in body.graph.nodes if node.op == "placeholder"]
    lines = [f"def {name}({', '.join(parameters)}):"]
    for node in body.graph.nodes:
        if node.op == "call_function":
            inner = [line for text in _definitions(body, node) for line in text.splitlines()]
            lines += [f"    {line}" for line in [*inner, f"{node.name} = {call(node)}"]]
        elif node.op == "output":
            lines.append(f"    return {rendered(node.args[0])}")
        elif node.op == "get_attr" and not isinstance(_attribute(body, node.target), torch.fx.GraphModule):
            raise Unwritable(f"the constant {node.target} inside {name}")
    return lines


def call(node: torch.fx.Node) -> str:
    """Return the source of what a node computes."""
    if node.target is operator.getitem:
        return f"{rendered(node.args[0])}[{rendered(node.args[1])}]"
    arguments = [*(rendered(one) for one in node.args), *(f"{key}={rendered(one)}" for key, one in node.kwargs.items())]
    return f"{_callable(node.target)}({', '.join(arguments)})"


def named(target: Any) -> str:
    """Return an op as users of the dispatcher write it: aten.neg.default."""
    return "getitem" if target is operator.getitem else _callable(target).removeprefix("torch.ops.")


def _callable(target: Any) -> str:
    if isinstance(target, OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    module, name = (str(getattr(target, one, "")) for one in ("__module__", "__qualname__"))
    if module.split(".")[0] == "torch":
        return f"{module}.{name}"
    raise Unwritable(f"a call of {target}")


def rendered(value: Any) -> str:
    """Return an argument of a node, or a constant, as source.

    Raises:
        Unwritable: it has no literal.

    """
    if isinstance(value, torch.fx.Node):
        return str(value.name)
    if isinstance(value, (list, tuple)):
        parts = ", ".join(rendered(one) for one in value)
        if isinstance(value, list):
            return f"[{parts}]"
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    if isinstance(value, slice):
        return f"slice({rendered(value.start)}, {rendered(value.stop)}, {rendered(value.step)})"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    raise Unwritable(f"a constant of {type(value).__name__}")


def number(value: float) -> str:
    """Return a float as source that gives the same float."""
    text = repr(value)
    return text if text[-1].isdigit() else f'float("{text}")'
