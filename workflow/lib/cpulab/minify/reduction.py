"""How a graph that fails is made smaller: which parts of it are tried, in which order, and what each try cost. Pure.

A candidate is a part of the graph: the nodes that it keeps, of which some are its outputs. What a kept node takes and
the candidate does not keep is an input, with the value that eager gives it. So a candidate has no unused input.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

# Sizes that a dimension is cut down to, in the order tried: one element, a vector and its tail (16 float32 in 512
# bits, 64 uint8), more than one block of a parallel loop.
SMALLER = (1, 3, 17, 67, 259, 1027, 4099)
# Inputs with no more elements than this in all are small: each dimension is only tried at size 1.
SMALL = 64


@dataclass(frozen=True)
class Node:
    """A node of the graph that computes something.

    ``op``: "aten.neg.default"; ``uses``: the inputs and nodes that it takes; ``part_of``: the node whose tuple it takes
    apart; ``value``: what it gives, a constant being any value that is neither a tensor nor a tuple of tensors.
    """

    name: str
    op: str
    uses: tuple[str, ...]
    value: Literal["tensor", "tuple", "constant"] = "tensor"
    part_of: str | None = None


@dataclass(frozen=True)
class Graph:
    """A graph that fails: inputs, nodes in order of execution, outputs; ``shapes`` of all that are tensors."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The nodes by their names; an input has none."""
        return {node.name: node for node in self.nodes}


@dataclass(frozen=True)
class Cut:
    """All dimensions of one size, in every input, cut to another: to their first or their last elements."""

    size: int
    to: int
    last: bool = False


@dataclass(frozen=True)
class Candidate:
    """A part of the graph, in order of execution; ``inputs`` are tensors. ``generated``: values from a seed."""

    kept: tuple[str, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    cuts: tuple[Cut, ...] = ()
    generated: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        """Nodes as FX counts them: inputs, ops and the output."""
        return len(self.inputs) + len(self.kept) + 1


@dataclass(frozen=True)
class Step:
    """One strategy tried at one granularity (nodes, outputs or elements changed at a time). Seconds of its queries."""

    strategy: str
    granularity: int
    nodes_before: int
    inputs_before: int
    nodes_after: int
    inputs_after: int
    success: bool
    queries: int
    seconds: float


@dataclass
class Reduction:
    """What a reduction came to: the smallest candidate that fails, or the reason why there is none.

    A reason beside a candidate says why it may not be the least.
    """

    minimal: Candidate | None
    steps: list[Step]
    reason: str | None = None

    @property
    def progress(self) -> list[dict[str, int]]:
        """Nodes and inputs after each step, against the queries until then: the points of a chart."""
        points = []
        queries = 0
        for step in self.steps:
            queries += step.queries
            points.append({"queries": queries, "nodes": step.nodes_after, "inputs": step.inputs_after})
        return points

    def rows(self) -> list[dict[str, Any]]:
        """Return the steps as plain data."""
        return [asdict(step) for step in self.steps]


class OutOfTime(Exception):
    """The time for a reduction is used up."""


def closed(graph: Graph, kept: Iterable[str], outputs: Iterable[str]) -> Candidate | None:
    """Return the part of ``kept`` that ``outputs`` need; None where nothing is left or no tensor would come out."""
    allowed = set(kept)
    # A part without its tuple has nothing to take apart: it is an input.
    allowed -= {node.name for node in graph.nodes if node.part_of is not None and node.part_of not in allowed}
    wanted = {name for name in outputs if name in allowed and graph.by_name[name].value == "tensor"}
    needed = set(wanted)
    for node in reversed(graph.nodes):
        if node.name in needed:
            needed.update(name for name in node.uses if name in allowed)
    chosen = [node for node in graph.nodes if node.name in needed]
    taken = {name for node in chosen for name in node.uses} - needed
    if not wanted or any(node.name in taken and node.value == "tuple" for node in graph.nodes):
        return None
    given = [*graph.inputs, *(node.name for node in graph.nodes if node.value == "tensor")]
    return Candidate(
        kept=tuple(node.name for node in chosen),
        outputs=tuple(node.name for node in chosen if node.name in wanted),
        inputs=tuple(name for name in given if name in taken),
    )


def with_ends(graph: Graph, kept: Iterable[str], outputs: Iterable[str]) -> Candidate | None:
    """Return ``kept``; its outputs are those of ``outputs`` that it has, and all that no node of it uses."""
    whole = set(kept)
    used = {name for node in graph.nodes if node.name in whole for name in node.uses}
    return closed(graph, whole, {*outputs, *(whole - used)})


def reduce(
    graph: Graph,
    fails: Callable[[Candidate], bool],
    *,
    guilty: str | None = None,
    generate: Callable[[Candidate], Sequence[str]] = lambda _: (),
    timeout_s: float = float("inf"),
    clock: Callable[[], float] = time.monotonic,
) -> Reduction:
    """Return the least part of ``graph`` for which ``fails`` is true.

    ``guilty``: a node that is tried alone before anything else; ``generate`` tells which inputs of a candidate are too
    large to write down. The result is 1-minimal (no single node can be left out) unless ``timeout_s`` ends it early.
    """
    search = _Search(graph, fails, clock, clock() + timeout_s)
    everything = tuple(node.name for node in graph.nodes)
    outputs = tuple(name for name in everything if name in graph.outputs)
    search.best = Candidate(everything, outputs, graph.inputs)
    try:
        if not search.attempt("the whole graph", len(everything), [search.best]):
            return Reduction(None, search.steps)
        search.parts(guilty)
        search.shapes()
        search.values(generate)
    except OutOfTime:
        reason = f"The time of {timeout_s:.0f} s was used up; this is the smallest that failed until then."
        return Reduction(search.best if search.failed else None, search.steps, reason)
    return Reduction(search.best, search.steps)


class _Search:
    """The candidate of the moment, what was tried so far, and the strategies."""

    def __init__(
        self, graph: Graph, fails: Callable[[Candidate], bool], clock: Callable[[], float], deadline: float
    ) -> None:
        self.graph = graph
        self.best: Candidate
        self.failed = False
        self.steps: list[Step] = []
        self._fails = fails
        self._known: dict[Candidate, bool] = {}
        self._clock = clock
        self._deadline = deadline

    def attempt(self, strategy: str, granularity: int, candidates: Iterable[Candidate | None]) -> bool:
        """Try candidates until one fails, which is the best from then on; one step of the table."""
        before, start, queries, success = self.best, self._clock(), 0, False
        try:
            for candidate in candidates:
                if candidate is None or (candidate == self.best and self.failed):
                    continue
                if candidate not in self._known:
                    if self._clock() > self._deadline:
                        raise OutOfTime
                    queries += 1
                    self._known[candidate] = self._fails(candidate)
                if self._known[candidate]:
                    self.best, self.failed, success = candidate, True, True
                    break
        finally:
            if queries or success:
                seconds = self._clock() - start
                self._record(strategy, granularity, before, success=success, queries=queries, seconds=seconds)
        return success

    def _record(
        self, strategy: str, granularity: int, before: Candidate, *, success: bool, queries: int, seconds: float
    ) -> None:
        """Add a row to the table; tries that come to nothing are one row with the next of their kind."""
        if self.steps:
            last = self.steps[-1]
            if not last.success and (last.strategy, last.granularity) == (strategy, granularity):
                self.steps.pop()
                queries, seconds = queries + last.queries, seconds + last.seconds
        after = self.best
        self.steps.append(
            Step(
                strategy, granularity, before.nodes, len(before.inputs), after.nodes, len(after.inputs), success,
                queries, round(seconds, 3),
            )
        )  # fmt: skip

    def parts(self, guilty: str | None) -> None:
        """Leave out nodes, inputs and outputs."""
        if guilty is not None and self._alone("guilty node alone", guilty):
            return
        self.attempt("remove unused inputs", 1, [closed(self.graph, self.best.kept, self.best.outputs)])
        last = self._truncate()
        if self._alone("one node alone", last):
            return
        outputs = self._parts_of(last)
        self.attempt("remove outputs", len(self.best.outputs), [closed(self.graph, self.best.kept, outputs)])
        while True:
            before = self.best
            self._delta("make intermediates inputs", lambda: self._units(self.best.kept), self._without_nodes)
            self._delta("remove outputs", lambda: self.best.outputs, self._without_outputs)
            if self.best == before:
                return

    def shapes(self) -> None:
        """Cut dimensions, the largest first; all of them to one element before any."""
        sizes = sorted({size for size in self._sizes() if size > 1}, reverse=True)
        if not sizes:
            return
        every = tuple(Cut(size, 1) for size in sizes)
        if self.attempt("shrink input shapes", 1, [replace(self.best, cuts=every)]):
            return
        for size in sizes:
            small = sum(self._elements(name) for name in self.best.inputs) <= SMALL
            for to in SMALLER[:1] if small else SMALLER:
                cuts = [Cut(size, to, last=last) for last in (False, True)]
                tried = [replace(self.best, cuts=(*self.best.cuts, cut)) for cut in cuts]
                if to < size and self.attempt("shrink input shapes", to, tried):
                    break

    def values(self, generate: Callable[[Candidate], Sequence[str]]) -> None:
        """Take values from a seed where there are too many to write down."""
        large = tuple(generate(self.best))
        if not large or self.attempt("seeded input values", len(large), [replace(self.best, generated=large)]):
            return
        for name in large:
            self.attempt("seeded input values", 1, [replace(self.best, generated=(*self.best.generated, name))])

    def _alone(self, strategy: str, name: str) -> bool:
        if name not in {node.name for node in self.graph.nodes}:
            return False
        parts = self._parts_of(name)
        return self.attempt(strategy, 1, [closed(self.graph, [name, *parts], parts)]) or len(self.best.kept) == 1

    def _parts_of(self, name: str) -> list[str]:
        """Return the outputs that stand for a node: itself, or the parts of its tuple."""
        parts = [node.name for node in self.graph.nodes if node.part_of == name]
        return parts if self.graph.by_name[name].value == "tuple" else [name]

    def _units(self, kept: Sequence[str]) -> list[str]:
        return [name for name in kept if self.graph.by_name[name].part_of not in kept]

    def _truncate(self) -> str:
        """Bisect for the first node with which the graph up to it fails; return that node."""
        kept, outputs = self.best.kept, self.best.outputs
        units = self._units(kept)
        passes, ends = 0, len(units)
        while ends - passes > 1:
            middle = (passes + ends) // 2
            first = set(units[:middle])
            prefix = with_ends(
                self.graph, (name for name in kept if {name, self.graph.by_name[name].part_of} & first), outputs
            )
            if self.attempt("truncate suffix", ends - middle, [prefix]) or prefix == self.best:
                ends = middle
            else:
                passes = middle
        return units[ends - 1]

    def _delta(
        self,
        strategy: str,
        items: Callable[[], Sequence[str]],
        without: Callable[[set[str]], Candidate | None],
    ) -> None:
        """Delta debugging: leave out ever smaller runs of what ``items`` gives, from the front."""
        granularity = max(1, len(items()) // 2)
        while True:
            start, success = 0, False
            while start < len(items()) and len(items()) > 1:
                chunk = set(items()[start : start + granularity])
                if self.attempt(strategy, granularity, [without(chunk)]):
                    success = True  # what followed the chunk stands in its place now
                else:
                    start += granularity
            if granularity == 1 and not success:
                return
            granularity = max(1, granularity // 2)

    def _without_nodes(self, gone: set[str]) -> Candidate | None:
        kept = [name for name in self.best.kept if name not in gone]
        return with_ends(self.graph, kept, self.best.outputs)

    def _without_outputs(self, gone: set[str]) -> Candidate | None:
        return closed(self.graph, self.best.kept, [name for name in self.best.outputs if name not in gone])

    def _sizes(self) -> list[int]:
        return [size for name in self.best.inputs for size in self.graph.shapes.get(name, ())]

    def _elements(self, name: str) -> int:
        elements = 1
        for size in self.graph.shapes.get(name, ()):
            cut = next((cut for cut in self.best.cuts if cut.size == size), None)
            elements *= size if cut is None else cut.to
        return elements
