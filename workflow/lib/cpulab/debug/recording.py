"""Records, while Inductor generates code, which FX node each line of a kernel is for. Runs in the measured process.

Two places know one half each. While a node of the FX graph is lowered, the loop bodies it creates are its own: each
op that such a body emits into Inductor's IR belongs to that FX node. While C++ is generated,
``V.interpreter.current_node`` is the op of the IR whose lines are being written. So both are watched, and each line
gets a comment with the answer.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.debug import DebugFormatter
from torch._inductor.graph import GraphLowering
from torch._inductor.ir import Loops
from torch._inductor.loop_body import LightTracer, LoopBodyBlock
from torch._inductor.scheduler import BaseSchedulerNode, FusedSchedulerNode
from torch._inductor.utils import DeferredLineBase, IndentedBuffer
from torch._inductor.virtualized import V

from cpulab.debug import links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_FX = "cpulab_fx_node"
_OP = "cpulab_op"


def marked_graph_code(graph: torch.fx.GraphModule, inputs: Sequence[Any], *, is_backward: bool) -> str:
    """Return the output code of a graph as Inductor gets it, each line of its kernels marked; ``graph`` is changed."""
    with _generating_only() as codes:
        try:
            compile_fx_inner(graph, inputs, is_backward=is_backward)
        except Exception:
            # Code that returns nothing may be an error to its caller; an error before it is one to us.
            if not codes:
                raise
    return codes[0]


@contextlib.contextmanager
def _generating_only() -> Iterator[list[str]]:
    codes: list[str] = []

    def generate_only(graph: GraphLowering) -> SimpleNamespace:
        codes.append(graph.codegen()[0].value)
        return SimpleNamespace(call=lambda _args: None)

    with (
        _recording(),
        mock.patch.object(GraphLowering, "compile_to_module", generate_only),
        # What is made here must not be found in a cache by a later compile.
        torch.compiler.config.patch(force_disable_caches=True),
    ):
        yield codes


def traces(run: Callable[[], object]) -> list[dict[str, Any]]:
    """Return what Inductor makes of every graph that ``run`` compiles, level by level; each graph is run in eager.

    Of each: ``is_backward``; ``fx``, ``ir_pre``, ``ir_post``, ``code``: what TORCH_COMPILE_DEBUG=1 dumps of it, all but
    the first with marks; ``mappings``: Inductor's own provenance_tracking_node_mappings. What ``run`` raises after a
    graph was compiled ends it, no more.
    """
    found: list[dict[str, Any]] = []
    dumped: dict[str, str] = {}

    def generate_only(graph: GraphLowering) -> SimpleNamespace:
        eager = copy.deepcopy(graph.orig_gm)
        text = eager.print_readable(print_output=False)
        code = graph.codegen()[0].value
        found.append(
            {"is_backward": bool(graph.is_backward), "fx": text, "code": code, **dumped,
             "mappings": torch._inductor.debug.dump_inductor_provenance_info()}  # noqa: SLF001
        )  # fmt: skip
        return SimpleNamespace(call=lambda arguments: torch.fx.Interpreter(eager).run(*arguments))

    def dump(name: str) -> Callable[[Any], None]:
        return lambda nodes: dumped.update({name: DebugFormatter._write_ir(nodes)})  # noqa: SLF001

    torch.compiler.reset()
    with (
        _recording(),
        _marked_ir(),
        mock.patch.object(torch._inductor.debug, "log_ir_pre_fusion", dump("ir_pre")),  # noqa: SLF001
        mock.patch.object(torch._inductor.debug, "log_ir_post_fusion", dump("ir_post")),  # noqa: SLF001
        mock.patch.object(GraphLowering, "compile_to_module", generate_only),
        torch._inductor.config.patch({"trace.provenance_tracking_level": 1}),  # noqa: SLF001
        torch.compiler.config.patch(force_disable_caches=True),
    ):
        try:
            run()
        except Exception:
            if not found:
                raise
    torch.compiler.reset()
    return found


@contextlib.contextmanager
def _marked_ir() -> Iterator[None]:
    """Let the text of Inductor's IR say, op by op, which FX node it is for, and of each node, what its origins are."""
    block, node, fused = LoopBodyBlock.debug_str, BaseSchedulerNode.debug_str, FusedSchedulerNode.debug_str

    def block_text(self: LoopBodyBlock, name: str = "block") -> str:
        ops = {op.name: op for op in self.graph.nodes if op.op == "call_method" and _OP in op.meta}
        lines = []
        for line in block(self, name).split("\n"):
            op = ops.get(line.strip().partition(" = ")[0])
            is_op = op is not None and f"= ops.{op.target}(" in line
            lines.append(
                f"{line}{links.mark(f'ops.{op.target}', *_named(_fx_node(op)), op.meta[_OP])}" if op and is_op else line
            )
        return "\n".join(lines)

    def with_origins(original: Callable[[Any], str]) -> Callable[[Any], str]:
        def text(self: Any) -> str:
            head, _, rest = original(self).partition("\n")
            members = [one for one in self.get_nodes() if one.node is not None]
            origins = sorted({origin.name for one in members for origin in one.node.get_origins()})
            names = ",".join(one.get_name() for one in members)
            return f"{head}{links.mark(names, ','.join(origins), None)}\n{rest}"

        return text

    with (
        mock.patch.object(LoopBodyBlock, "debug_str", block_text),
        mock.patch.object(BaseSchedulerNode, "debug_str", with_origins(node)),
        mock.patch.object(FusedSchedulerNode, "debug_str", with_origins(fused)),
    ):
        yield


@contextlib.contextmanager
def _recording() -> Iterator[None]:
    lowering: list[torch.fx.Node] = []  # the FX nodes whose loop bodies are being traced, innermost last
    ops = itertools.count(1)
    made, traced, written = Loops.__post_init__, LightTracer.create_node, IndentedBuffer.writeline

    def post_init(self: Loops) -> None:
        made(self)
        node = getattr(V.graph, "current_node", None)
        if node is not None and node.op == "call_function":
            object.__setattr__(self, "inner_fn", _attributed(self.inner_fn, node, lowering))  # a frozen dataclass

    def create_node(self: LightTracer, *args: Any, **kwargs: Any) -> torch.fx.Node:
        node = traced(self, *args, **kwargs)
        # A body whose loops are merged or reordered is traced anew, from the ops of the old one.
        old = getattr(V.interpreter, "current_node", None)
        inherited = old.meta if old is not None and _OP in old.meta else {}
        node.meta[_FX] = lowering[-1] if lowering else inherited.get(_FX)
        node.meta[_OP] = inherited[_OP] if inherited else next(ops)
        return node

    def writeline(self: IndentedBuffer, line: Any) -> None:
        op = getattr(V.interpreter, "current_node", None)
        text = line.line if isinstance(line, DeferredLineBase) else line
        if op is not None and isinstance(text, str) and text.strip() and not links.is_marked(text):
            fx = _fx_node(op)
            text = f"{text}{links.mark(f'ops.{op.target}', *_named(fx), op.meta.get(_OP))}"
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
