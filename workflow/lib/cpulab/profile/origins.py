"""Which ATen operators each kernel of a compiled graph computes. Runs in the measured process."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import TYPE_CHECKING, Any
from unittest import mock

from torch._inductor import ir
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.virtualized import V

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import torch.fx

# "torch.ops.mkl._mkl_linear.default", "extern_kernels.addmm": how generated code calls what it does not generate.
_EXTERNAL = re.compile(r"(?:torch\.ops\.(\w+)|extern_kernels)\.(\w+)(?:\.\w+)?")

_OVERLOAD = re.compile(r"(\w+)\.(\w+)\.\w+")


class Origins:
    """What every kernel of the graphs compiled meanwhile is made of.

    Generated code names the FX nodes behind its calls in comments, but for C++ kernels it does not, and what it names
    holds the nodes behind the inputs too. So it is asked for as the code is generated: the nodes that a fused kernel
    descends from, less those that the buffers it reads descend from; of a kernel that is not generated, its own node.
    Each is told by the operator that it was in the program, before decomposition (its ``original_aten``).
    """

    def __init__(self) -> None:
        self._found: Counter[tuple[str, str]] = Counter()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each operator that a kernel takes the place of; ``nodes``: how often, over all its calls."""
        return [{"kernel": kernel, "name": name, "nodes": nodes} for (kernel, name), nodes in self._found.items()]

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        """Note the origins of each call of a kernel in the code that is generated meanwhile."""
        fused: Callable[..., None] = CppScheduling.codegen_comment
        external: Callable[..., None] = ir.ExternKernel.codegen_comment

        def of_fused(scheduling: Any, nodes: Any, kernel_name: str | None = None) -> None:
            # As the kernel names itself in a profile.
            self._note(f"graph_{V.graph.graph_id}_{kernel_name}", _own(nodes))
            fused(scheduling, nodes, kernel_name)

        def of_external(kernel: Any, wrapper: Any, kernel_name: str | None = None) -> None:
            called = _EXTERNAL.fullmatch(kernel_name or kernel.try_get_kernel_name() or "")
            if called is not None:
                self._note(f"{called[1] or 'aten'}::{called[2]}", _last(kernel.get_origins()))
            external(kernel, wrapper, kernel_name)

        with (
            mock.patch.object(CppScheduling, "codegen_comment", of_fused),
            mock.patch.object(ir.ExternKernel, "codegen_comment", of_external),
        ):
            yield

    def _note(self, kernel: str, nodes: Iterable[torch.fx.Node]) -> None:
        self._found.update((kernel, name) for node in nodes if (name := _operator(node)) is not None)


def _own(scheduled: Sequence[Any]) -> set[torch.fx.Node]:
    """Return the FX nodes that a kernel of these scheduler nodes descends from, and none of its inputs does."""
    made = [one.node for one in scheduled if one.node is not None]
    written = {one.get_name() for one in made}
    read = {dependency.name for one in scheduled for dependency in one.read_writes.reads} - written
    inputs = [V.graph.name_to_buffer[name] for name in read if name in V.graph.name_to_buffer]
    return {node for one in made for node in one.get_origins()} - {node for one in inputs for node in one.get_origins()}


def _last(nodes: Collection[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return of nodes and their ancestors the one that comes last in their graph; none of none."""
    graph = next((node.graph for node in nodes), None)
    return [node for node in graph.nodes if node in nodes][-1:] if graph is not None else []


def _operator(node: torch.fx.Node) -> str | None:
    """Return the operator that ``node`` was before decomposition ("aten::add"); None where it calls none."""
    operator = _OVERLOAD.fullmatch(str(node.meta.get("original_aten") or node.target))
    return f"{operator[1]}::{operator[2]}" if operator is not None else None
