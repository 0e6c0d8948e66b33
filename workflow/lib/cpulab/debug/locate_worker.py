"""Names the op at fault: the node of the graph whose compiled result differs though what goes in agrees.

``python -m cpulab.debug.locate_worker ARGUMENTS.json ANSWER.json`` in the measured environment; see `main`.

Eager execution, node by node, says what every node of the graph that Inductor gets should give. Then every node is
compiled with those values as its inputs, so that none inherits another's error. Of the nodes that are wrong then, the
guilty one is the first of a least set whose right values make the whole program right: a fault in storing shows in
every node that is stored, but only what the program itself stores spoils it. An integer's value is asked for as C++
holds it, too, by widening it: one that was not cast back to its type is right again once it is stored.
"""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cpulab.debug import artefacts, links, post_aot, recording
from cpulab.explain import case, comparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.fx import GraphModule, Node

    from cpulab.debug.post_aot import Captured, Cut

# Larger sets of suspects are not reduced: each takes a compilation.
SUSPECTS = 12
# Where compiling all nodes at once shows nothing, so many are compiled one by one.
ONE_BY_ONE = 40

_WIDE = torch.int64
_LOW = frozenset({torch.float16, torch.bfloat16})
_IN_REGISTERS = " in a register"
_GCC_ERROR = re.compile(r"^(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? error: ", re.MULTILINE)
_FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in .+\n\s*(?P<code>\S.*)$', re.MULTILINE)
_STORES = frozenset({"ops.store", "ops.store_reduction"})
_MOVES = _STORES | {"ops.load", "ops.constant", "ops.get_index"}

NOBODY: dict[str, Any] = {
    "guilty": None,
    "op": None,
    "confirmed_alone": False,
    "kernel": None,
    "chain": [],
    "lines": [],
}


def main(asked: Path, answer: Path) -> None:
    """Answer {target: {file, function}, seed, direction: "forward" or "backward", seconds: limit} with one object.

    ``nodes``: [{name, target, diverges, error, inputs_diverge, diverges_alone}], None where it is not known;
    ``guilty``, ``op``: name and target of the node at fault, None when it is nobody; ``confirmed_alone``: that node,
    compiled by itself, is wrong; ``kernel``: {name, line, cpp}; ``chain``: [{level, text, file, line, guilty}] from the
    user's line to that of C++; ``lines``: of the whole kernel, [{kernel, line, cpp, fx, ir, aten, guilty}];
    ``exception``: the class of the compile error; ``how``: how it was found.
    """
    arguments = json.loads(asked.read_text())
    target = arguments["target"]
    function = case.load(target["file"], target["function"])
    inputs = case.inputs(target["file"], target["function"], arguments["seed"])
    backward = arguments.get("direction") == "backward"
    graphs = post_aot.capture(function, inputs, backward=backward)
    found = [
        locate(one, deadline=time.monotonic() + arguments.get("seconds", 120))
        for one in graphs
        if one.is_backward == backward
    ]
    guilty = [one for one in found if one["guilty"] is not None]
    first = guilty[0] if guilty else found[0] if found else {**NOBODY, "nodes": [], "exception": None, "how": None}
    answer.write_text(json.dumps(first, allow_nan=False))


def locate(captured: Captured, *, deadline: float) -> dict[str, Any]:
    """Return what `main` answers, for one graph. ``deadline``: by time.monotonic(); then what is known must do."""
    return _Search(post_aot.without_randomness(captured), deadline).answer()


@dataclass
class _Failure:
    """What a compiled graph did: the exception it raised, or names of wrong outputs with their largest errors."""

    exception: BaseException | None = None
    wrong: dict[str, float | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.exception is not None or bool(self.wrong)


class _Search:
    def __init__(self, captured: Captured, deadline: float) -> None:
        self.captured = captured
        self.deadline = deadline
        self.values = post_aot.values(captured.graph, captured.inputs)
        self.known = self.values.of
        # What makes no tensor can be no output; its value is known to whoever uses it.
        self.nodes = [node for node in captured.nodes if isinstance(self.known[node.name], torch.Tensor)]
        self.codes: list[str] = []
        self._low = any(one.dtype in _LOW for one in post_aot.tensors(list(self.known.values())))
        self._by_itself: dict[str, tuple[comparison.Evidence, int]] = {}

    # --- the whole answer

    def answer(self) -> dict[str, Any]:
        output = self.captured.graph.graph.output_node()
        returned = [node.name for node in output.all_input_nodes if isinstance(self.known[node.name], torch.Tensor)]
        failure = self._run(self.captured.graph, self.captured.inputs, self._returned(), codes=self.codes)
        answer = {**NOBODY, "exception": None, "how": None}
        if not failure or not returned:
            return {**answer, "nodes": [self._described(node) for node in self.nodes]}
        if failure.exception is not None:
            answer["exception"] = type(failure.exception).__name__
        elif self._low and self._right_with_rounding():
            how = "the program is right with emulate_precision_casts: what is not rounded between ops is the difference"
            return {**answer, "nodes": [self._described(node) for node in self.nodes], "how": how}
        together = self._together() if failure.exception is None else None
        suspects = self._suspects()
        alone = {node.name: error for node, error in suspects}
        answer["nodes"] = [self._described(node, together, alone) for node in self.nodes]
        guilty, answer["how"] = self._guilty([node for node, _ in suspects], failure)
        if guilty is not None:
            whole = guilty.args[0] if post_aot.is_part(guilty) else guilty
            answer |= {
                "guilty": whole.name,
                "op": str(whole.target),
                "confirmed_alone": guilty.name in alone and bool(self._alone([guilty])),
                **self._links(whole, failure),
            }
        return answer

    def _described(
        self, node: Node, together: dict[str, float | None] | None = None, alone: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        row = {"name": node.name, "target": str(node.target), "diverges": None, "error": None, "inputs_diverge": None}
        if together is not None:
            row["diverges"] = node.name in together
            row["inputs_diverge"] = any(one.name in together for one in _sources(node))
            row["error"] = together.get(node.name)
        elif alone is not None:
            row["error"] = alone.get(node.name)
        return {**row, "diverges_alone": None if alone is None else node.name in alone}

    # --- running and comparing

    def _returned(self) -> list[tuple[str, Any]]:
        (results,) = self.captured.graph.graph.output_node().args
        return [(one.name, self.known[one.name]) if hasattr(one, "name") else ("", one) for one in results]

    def _run(
        self,
        graph: GraphModule,
        inputs: Sequence[Any],
        expected: Sequence[tuple[str, Any]],
        *,
        codes: list[str] | None = None,
        alone: bool = False,
    ) -> _Failure:
        """Compile and run ``graph`` and compare with what is ``expected``; ``alone``: every node has right inputs."""
        try:
            found = post_aot.run_compiled(graph, inputs, is_backward=self.captured.is_backward, codes=codes)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the observation
            return _Failure(exception=error)
        failure = _Failure()
        for (name, right), one in zip(expected, found, strict=True):
            if not isinstance(right, torch.Tensor):
                continue
            differences = self._differences(name, right, one, alone=alone)
            if differences:
                failure.wrong[name] = max(
                    (each["largest_error"] for each in differences if each["largest_error"] is not None), default=None
                )
        return failure

    def _differences(self, name: str, right: torch.Tensor, found: torch.Tensor, *, alone: bool) -> list[dict[str, Any]]:
        if torch.equal(right, found):
            return []
        evidence, terms = self.values.evidence[name.removesuffix(_IN_REGISTERS)], self.values.terms
        if alone:
            evidence, terms = self._alone_evidence(self._node(name))
        return _wrong(right, found, evidence, terms)

    def _node(self, name: str) -> Node:
        name = name.removesuffix(_IN_REGISTERS)
        return next(node for node in self.captured.graph.graph.nodes if node.name == name)

    def _alone_evidence(self, node: Node) -> tuple[comparison.Evidence, int]:
        """Return what is known of the right value of ``node`` where that of its arguments is right."""
        if node.name not in self._by_itself:
            _, evidence, terms = post_aot.evaluated(node, self.known)
            self._by_itself[node.name] = evidence, terms
        return self._by_itself[node.name]

    def _right_with_rounding(self) -> bool:
        with torch._inductor.config.patch(emulate_precision_casts=True):  # noqa: SLF001
            return not self._run(self.captured.graph, self.captured.inputs, self._returned())

    # --- all nodes at once, in the program's own connections

    def _together(self) -> dict[str, float | None] | None:
        names = [node.name for node in self.nodes]
        failure = self._run(
            post_aot.with_outputs(self.captured, names), self.captured.inputs, [(one, self.known[one]) for one in names]
        )
        return failure.wrong if failure.exception is None else None

    # --- every node from right values

    def _cut(self, nodes: Sequence[Node]) -> tuple[Cut, list[Node]]:
        cut = post_aot.Cut(self.known)
        made = []
        for node in nodes:
            one = cut.computed(node)
            made.append(one)
            cut.output(node.name, one, self.known[node.name])
            dtype = self.known[node.name].dtype
            if dtype != _WIDE and not dtype.is_floating_point and not dtype.is_complex:
                wide = cut.graph.call_function(torch.ops.prims.convert_element_type.default, (one, _WIDE))
                cut.output(f"{node.name}{_IN_REGISTERS}", wide, self.known[node.name].to(_WIDE))
        return cut, made

    def _alone(self, nodes: Sequence[Node]) -> _Failure:
        cut, _ = self._cut(nodes)
        return self._run(cut.finish(), cut.inputs, cut.outputs, alone=True)

    def _suspects(self) -> list[tuple[Node, float | None]]:
        """Return the nodes that are wrong from right values, in topological order, with their largest errors."""
        found: dict[str, float | None] = {}
        left = [node for node in self.nodes if post_aot.is_pure(node)]
        while left and len(found) < SUSPECTS:
            cut, made = self._cut(left)
            graph = cut.finish()
            codes: list[str] = []
            failure = self._run(graph, cut.inputs, cut.outputs, codes=codes, alone=True)
            if failure.exception is None:
                found |= {name.removesuffix(_IN_REGISTERS): error for name, error in failure.wrong.items()}
                break
            named = self._at_error(failure.exception, graph, cut.inputs, codes)
            broken = next((node for node, one in zip(left, made, strict=True) if one.name == named), None)
            if broken is None:
                break
            found[broken.name] = None
            left.remove(broken)
        # What does not show in one graph of all may do so by itself.
        found = found or self._one_by_one(self.nodes)
        return [(node, found[node.name]) for node in self.nodes if node.name in found]

    def _one_by_one(self, nodes: Sequence[Node]) -> dict[str, float | None]:
        found: dict[str, float | None] = {}
        for node in nodes[:ONE_BY_ONE]:
            if self._late():
                break
            failure = self._alone([node])
            if failure:
                found[node.name] = next(iter(failure.wrong.values()), None)
        return found

    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    # --- which of them spoils the program

    def _heals(self, nodes: Sequence[Node]) -> bool:
        names = {node.name for node in nodes}
        graph, inputs = post_aot.replaced(self.captured, names, self.known)
        return not self._run(graph, inputs, self._returned())

    def _guilty(self, suspects: list[Node], failure: _Failure) -> tuple[Node | None, str | None]:
        if not suspects:
            return self._by_prefix(failure)
        if len(suspects) > SUSPECTS or not self._heals(suspects):
            return suspects[0], "it is wrong from right values"
        needed = list(suspects)
        for node in suspects:
            if len(needed) == 1 or self._late():
                break
            without = [one for one in needed if one is not node]
            if self._heals(without):
                needed = without
        return needed[0], "it is wrong from right values, and its right value makes the program right"

    def _by_prefix(self, failure: _Failure) -> tuple[Node | None, str | None]:
        """Return the node that is wrong first when the program is compiled up to it and no further."""
        for node in self.nodes[:ONE_BY_ONE]:
            if self._late():
                break
            # With what it is made of, so that it is not taken for wrong where it is right for what it got.
            made_of = dict.fromkeys(one.name for one in _sources(node) if one in self.nodes)
            names = [*made_of, node.name]
            graph = post_aot.with_outputs(self.captured, names)
            try:
                found = post_aot.run_compiled(graph, self.captured.inputs, is_backward=self.captured.is_backward)
            except Exception:  # noqa: BLE001 - whatever it is, it is the observation
                if failure.exception is not None:
                    return node, "the program up to it does not compile, the node by itself does"
                continue
            if failure.exception is None and not self._follows(node, dict(zip(names, found, strict=True))):
                return node, "the program up to it is wrong, the node by itself is not"
        return None, None

    def _follows(self, node: Node, found: dict[str, Any]) -> bool:
        """Tell whether the value found for ``node`` is what eager makes of those found for its arguments."""
        if post_aot.is_part(node):
            return True
        right, evidence, terms = post_aot.evaluated(node, {**self.known, **found})
        return not _wrong(right, found[node.name], evidence, terms)

    # --- from the user's line to that of C++

    def _marked(self, graph: GraphModule, inputs: Sequence[Any]) -> list[artefacts.Kernel]:
        graph, inputs = post_aot.owned(graph, inputs)
        code = recording.marked_graph_code(graph, inputs, is_backward=self.captured.is_backward)
        return artefacts.kernels(code)

    def _at_error(
        self, error: BaseException, graph: GraphModule, inputs: Sequence[Any], codes: Sequence[str]
    ) -> str | None:
        """Return the name of the node for which the line was generated that the compiler complains of."""
        places = _GCC_ERROR.finditer(str(error))
        marked = None
        for place in places:
            for kernel in _complained_of(place["file"], codes):
                marked = marked if marked is not None else self._marked(graph, inputs)
                for link in links.links(kernel, marked):
                    if link.line == int(place["line"]) and link.fx is not None:
                        return link.fx
        return None

    def _stores_wrong(self, node: Node) -> bool:
        """Tell whether a right value of ``node`` is wrong once stored, whichever op leaves it as it is."""
        known = self.known[node.name]
        if not isinstance(known, torch.Tensor) or known.dtype == torch.bool:
            return False
        cut = post_aot.Cut({"value": known, "zeros": torch.zeros_like(known), "ones": torch.ones_like(known)})
        value, zeros, ones = (cut.given(name) for name in ("value", "zeros", "ones"))
        for op, other in ((torch.ops.aten.add.Tensor, zeros), (torch.ops.aten.mul.Tensor, ones)):
            cut.output(node.name, cut.graph.call_function(op, (value, other)), known)
        found = post_aot.run_compiled(cut.finish(), cut.inputs, is_backward=self.captured.is_backward)
        return all(comparison.differs(known, one) for one in found)

    def _links(self, guilty: Node, failure: _Failure) -> dict[str, Any]:
        """Return ``kernel``, ``chain`` and ``lines`` for the node at fault."""
        torch_line = _users_line(guilty)
        chain = [torch_line] if torch_line is not None else []
        operands = [*map(str, guilty.args), *(f"{name}={value}" for name, value in guilty.kwargs.items())]
        chain.append(_level("aten", f"{guilty.name} = {guilty.target}({', '.join(operands)})"))
        if not self.codes:
            return {"chain": [{**one, "guilty": one["level"] == "aten"} for one in chain]}
        marked = self._marked(self.captured.graph, self.captured.inputs)
        for kernel in artefacts.kernels(self.codes[0]):
            found = links.links(kernel, marked)
            own = [link for link in found if link.fx == guilty.name]
            if not own:
                continue
            complained = {int(one["line"]) for one in _GCC_ERROR.finditer(str(failure.exception))}
            computing = [link for link in own if link.ir not in _MOVES] or own
            storing = [link for link in own if link.ir in _STORES]
            if storing and not complained and self._stores_wrong(guilty):
                computing = storing
            at = next((link for link in own if link.line in complained), computing[0])
            chain += [_level("ops", str(at.ir)), _level("cpp", at.cpp, kernel.name, at.line)]
            lines = [
                {"kernel": kernel.name, "line": one.line, "cpp": one.cpp, "fx": one.fx, "ir": one.ir, "aten": one.aten,
                 "guilty": one.fx == guilty.name and one.ir == at.ir}
                for one in found
            ]  # fmt: skip
            return {
                "kernel": {"name": kernel.name, "line": at.line, "cpp": at.cpp},
                "chain": [{**one, "guilty": one["level"] == "cpp"} for one in chain],
                "lines": lines,
            }
        return {"chain": [{**one, "guilty": one["level"] == "aten"} for one in chain]}


def _sources(node: Node) -> Iterator[Node]:
    """Give the nodes whose values ``node`` is made of; for a part of a result, those of the whole."""
    for one in node.all_input_nodes:
        if post_aot.is_part(node):
            yield from _sources(one)
        else:
            yield one


def _wrong(right: Any, found: Any, evidence: comparison.Evidence, terms: int) -> list[dict[str, Any]]:
    """Return how ``found`` differs from ``right`` beyond what is known to be no fault."""
    differences = comparison.compare(right, found, evidence=evidence, terms=terms, strides=False)
    return [one for one in differences if one["wrong"]]


def _complained_of(file: str, codes: Sequence[str]) -> list[artefacts.Kernel]:
    """Return the kernels in ``codes`` that are the C++ ``file`` which the compiler read."""
    kernels = [kernel for code in codes for kernel in artefacts.kernels(code)]
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError:
        return kernels if len(kernels) == 1 else []
    return [kernel for kernel in kernels if kernel.source.strip() in text]


def _users_line(node: Node) -> dict[str, Any] | None:
    frames = [*_FRAME.finditer(node.meta.get("stack_trace") or "")]
    if not frames:
        return None
    last = frames[-1]
    return _level("torch", last["code"], Path(last["file"]).name, int(last["line"]))


def _level(level: str, text: str, file: str | None = None, line: int | None = None) -> dict[str, Any]:
    return {"level": level, "text": text, "file": file, "line": line}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
