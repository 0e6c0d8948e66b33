"""Records, while Inductor generates code, which FX node each line of a kernel is for. Runs in the measured process.

Two places know one half each. While a node of the FX graph is lowered, the loop bodies it creates are its own: each
op that such a body emits into Inductor's IR belongs to that FX node. While C++ is generated,
``V.interpreter.current_node`` is the op of the IR whose lines are being written. So both are watched, and each line
gets a comment with the answer.
"""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import Loops
from torch._inductor.loop_body import LightTracer
from torch._inductor.utils import DeferredLineBase, IndentedBuffer
from torch._inductor.virtualized import V

from cpulab.debug import links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FX = "cpulab_fx_node"


def marked_output_code(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> str:
    """Return the output code of ``function``, each line of its kernels marked; nothing is compiled or run."""
    codes: list[str] = []

    def generate_only(graph: GraphLowering) -> SimpleNamespace:
        codes.append(graph.codegen()[0].value)
        return SimpleNamespace(call=lambda _args: None)

    torch.compiler.reset()
    with (
        _recording(),
        mock.patch.object(GraphLowering, "compile_to_module", generate_only),
        # What is made here must not be found in a cache by a later compile.
        torch.compiler.config.patch(force_disable_caches=True),
    ):
        try:
            torch.compile(function)(*inputs)
        except Exception:
            # Code that returns nothing may be an error to its caller; an error before it is one to us.
            if not codes:
                raise
    torch.compiler.reset()
    return codes[0]


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    lowering: list[torch.fx.Node] = []  # the FX nodes whose loop bodies are being traced, innermost last
    made, traced, written = Loops.__post_init__, LightTracer.create_node, IndentedBuffer.writeline

    def post_init(self: Loops) -> None:
        made(self)
        node = getattr(V.graph, "current_node", None)
        if node is not None and node.op == "call_function":
            object.__setattr__(self, "inner_fn", _attributed(self.inner_fn, node, lowering))  # a frozen dataclass

    def create_node(self: LightTracer, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = traced(self, *args, **kwargs)
        node.meta[_FX] = lowering[-1] if lowering else None
        return node

    def writeline(self: IndentedBuffer, line: Any) -> None:
        op = getattr(V.interpreter, "current_node", None)
        text = line.line if isinstance(line, DeferredLineBase) else line
        if op is not None and isinstance(text, str) and text.strip() and not links.is_marked(text):
            fx = _fx_node(op)
            text = f"{text}{links.mark(f'ops.{op.target}', *_named(fx))}"
            line = line._new_line(text) if isinstance(line, DeferredLineBase) else text  # noqa: SLF001 - its only way
        written(self, line)

    with (
        mock.patch.object(Loops, "__post_init__", post_init),
        mock.patch.object(LightTracer, "create_node", create_node),
        mock.patch.object(IndentedBuffer, "writeline", writeline),
    ):
        yield


def _attributed(inner_fn: Callable[..., Any], node: torch.fx.Node, lowering: list[torch.fx.Node]) -> Callable[..., Any]:
    @functools.wraps(inner_fn)
    def attributed(*args: Any, **kwargs: Any) -> Any:
        lowering.append(node)
        try:
            return inner_fn(*args, **kwargs)
        finally:
            lowering.pop()

    return attributed


def _fx_node(op: torch.fx.Node) -> torch.fx.Node | None:
    """Return the FX node behind one op of the IR: for a load the producer of what it reads."""
    match op.target:
        case "load":
            return _producer(op.args[1])
        case "store" | "store_reduction":
            # What is stored is the value of the op that computed it; a copy has none but its load's.
            value = op.args[3]
            return _producer(op.args[1]) or (_fx_node(value) if isinstance(value, torch.fx.Node) else None)
        case "reduction" | "scan" | "sort" if op.meta.get(_FX) is None:
            # Emitted by the buffer that it is stored in, not by the loop body of an FX node.
            stores = [user for user in op.users if str(user.target).startswith("store")]
            return _producer(stores[0].args[1]) if stores else None
        case _:
            return op.meta.get(_FX)


def _producer(buffer: str) -> torch.fx.Node | None:
    if buffer in V.graph.graph_inputs:
        return next((node for node in V.graph.graph.nodes if node.op == "placeholder" and node.target == buffer), None)
    found = V.graph.try_get_buffer(buffer)
    if found is None:
        return None
    # A buffer that is one of several results has no origin node, but still one origin.
    node, from_nodes = found.get_origin_node(), [*found.get_origins()]
    return node or (from_nodes[0] if len(from_nodes) == 1 else None)


def _named(node: torch.fx.Node | None) -> tuple[str | None, str | None]:
    if node is None:
        return None, None
    if node.op != "call_function":
        return node.name, None
    target = node.target
    return node.name, str(target) if isinstance(target, torch._ops.OpOverload) else torch.typename(target)  # noqa: SLF001
