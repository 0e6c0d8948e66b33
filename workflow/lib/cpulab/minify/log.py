"""What the FX minifier (torch._functorch.fx_minifier) says on stderr, read back as its steps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import zip_longest

_STARTED = re.compile(r"Started off with (\d+) nodes")
_STRATEGY = re.compile(
    r"Strategy: (?P<name>.+) \(G: (?P<granularity>\d+)\) \((?P<nodes>\d+) nodes, (?P<inputs>\d+) inputs\)"
)
_SUCCESS = re.compile(r"SUCCESS: Went from \d+ to (?P<now>\d+) (?P<what>nodes|inputs|outputs)")
_TAKEN_BACK = "WARNING: Something went wrong, not applying this minification"
_QUERIES = re.compile(r"Made (\d+) queries")
_FINISHED = "Wrote minimal repro out to "
_ERROR = "RuntimeError: "

# The minifier's own ways to end without a minimal graph, each a RuntimeError.
GIVEN_UP = (
    "Input graph did not fail the tester",
    "Success raised but no progress made?",
    "Uh oh, something went wrong :( Final graph is not failing",
)


@dataclass
class Step:
    """One strategy tried on the graph of the moment. Nodes are those of the FX graph, inputs and output too.

    ``nodes_after`` is None where the log ends before it says.
    """

    strategy: str
    granularity: int
    nodes_before: int
    inputs_before: int
    nodes_after: int | None
    success: bool


@dataclass
class Minification:
    """One run of the minifier.

    ``started_with``: nodes of the graph it was given, None when that one did not fail; ``given_up``: its own
    reason to end without a minimal graph.
    """

    started_with: int | None = None
    steps: list[Step] = field(default_factory=list)
    queries: int | None = None
    finished: bool = False
    given_up: str | None = None

    @property
    def node_counts(self) -> list[int]:
        """Nodes at the start and after each success."""
        start = [] if self.started_with is None else [self.started_with]
        return start + [step.nodes_after for step in self.steps if step.success and step.nodes_after is not None]

    @property
    def tried(self) -> list[str]:
        """Strategies that were tried, in the order of their first use."""
        return list(dict.fromkeys(step.strategy for step in self.steps))

    @property
    def succeeded(self) -> list[str]:
        """Strategies that made the graph smaller, in the order of their first success."""
        return list(dict.fromkeys(step.strategy for step in self.steps if step.success))


def parse(text: str) -> Minification:
    """Read the minifier's stderr. What its children say is indented with ">>" there, and passed over."""
    run = Minification()
    for line in text.splitlines():
        if header := _STRATEGY.fullmatch(line):
            nodes, inputs = int(header["nodes"]), int(header["inputs"])
            run.steps.append(Step(header["name"], int(header["granularity"]), nodes, inputs, None, success=False))
        elif run.steps and (success := _SUCCESS.fullmatch(line)):
            run.steps[-1].success = True
            if success["what"] == "nodes":
                run.steps[-1].nodes_after = int(success["now"])
        elif run.steps and line == _TAKEN_BACK:
            run.steps[-1].success = False
        elif started := _STARTED.fullmatch(line):
            run.started_with = int(started[1])
        elif queries := _QUERIES.fullmatch(line):
            run.queries = int(queries[1])
        elif line.startswith(_FINISHED):
            run.finished = True
        elif line.startswith(_ERROR) and line.removeprefix(_ERROR) in GIVEN_UP:
            run.given_up = line.removeprefix(_ERROR)
    for step, following in zip_longest(run.steps, run.steps[1:]):
        if not step.success:
            step.nodes_after = step.nodes_before
        elif step.nodes_after is None and following is not None:  # fewer outputs or more inputs: no word on nodes
            step.nodes_after = following.nodes_before
    return run
