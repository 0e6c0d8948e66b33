"""Reduces the graph of a user's function to the least that still fails. Runs in the measured process.

``python -m cpulab.minify.reduce_worker ARGUMENTS.json ANSWER.json``; the arguments: ``target`` {file, function},
``seed``, ``direction`` ("forward" | "backward"), ``test`` ("accuracy" | "exception" | "crash" | "hang"), ``exception``
(a class's name), ``isolate`` (each candidate in a forked child), ``folder`` (of the program that is written), and
optional ``guilty`` (a node to try first), ``timeout_s``, ``candidate_timeout_s``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Before PyTorch reads them. Threads, of compile workers or of NumPy's OpenBLAS, are lost in a fork; a changed code
# generator is not in the keys of the graph caches.
os.environ |= {
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
    "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
}

import torch
from torch._inductor import config

from cpulab.explain import case, comparison, shadow
from cpulab.minify import capture, forking, reduction, standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cpulab.minify.capture import Captured
    from cpulab.minify.reduction import Candidate, Cut

TIMEOUT_S = 300.0
CANDIDATE_TIMEOUT_S = 60.0
# A hang is told from slow compiling by waiting, for each candidate that hangs.
HANG_TIMEOUT_S = 20.0

_CAPTURED = "captured.pt"


@dataclass(frozen=True)
class Asked:
    """What this process is to reduce, as the module says."""

    target: dict[str, str]
    seed: int
    direction: str
    test: str
    folder: Path
    exception: str | None = None
    isolate: bool = False
    guilty: str | None = None
    timeout_s: float = TIMEOUT_S
    candidate_timeout_s: float | None = None

    @property
    def patience_s(self) -> float:
        """How long one candidate may take."""
        return self.candidate_timeout_s or (HANG_TIMEOUT_S if self.test == "hang" else CANDIDATE_TIMEOUT_S)

    @property
    def forked(self) -> bool:
        """Candidates are run in children."""
        return self.isolate or self.test in {"crash", "hang"}


# --- what runs in a child, or here ----------------------------------------------------------------


def look(asked: Asked) -> dict[str, Any]:
    """Capture the graphs and keep them below the folder; answer what `reduction` must know of each."""
    try:
        function = case.load(asked.target["file"], asked.target["function"])
        inputs = case.inputs(asked.target["file"], asked.target["function"], asked.seed)
    except case.CaseInvalid as problem:
        return {"reason": str(problem)}
    try:
        # Numbers that Inductor draws itself are others than those of eager.
        with config.patch(fallback_random=asked.test == "accuracy"):
            graphs, left_out = capture.captured(function, inputs, direction=asked.direction, seed=asked.seed)
    except Exception as problem:  # noqa: BLE001 - whatever it is, there is no graph
        return {"reason": f"nothing to minify: no graph comes to Inductor ({type(problem).__name__}: {problem})"}
    torch.save(graphs, asked.folder / _CAPTURED)
    kept.cache_clear()
    return {
        "left_out": left_out,
        "graphs": [
            {
                "inputs": graph.graph.inputs,
                "nodes": [vars(node) for node in graph.graph.nodes],
                "outputs": graph.graph.outputs,
                "shapes": graph.graph.shapes,
            }
            for graph in graphs
        ],
    }


@cache
def kept(folder: Path) -> list[Captured]:
    """Return the captured graphs; read once a process."""
    graphs: list[Captured] = torch.load(folder / _CAPTURED, weights_only=False)
    return graphs


@dataclass(frozen=True)
class Built:
    """A candidate as source, and its inputs as tensors and as expressions (of those that come from a seed)."""

    source: str
    inputs: dict[str, torch.Tensor]
    expressions: dict[str, str]

    def fresh(self) -> list[torch.Tensor]:
        """Return new copies of the inputs."""
        return [capture.copied(value) for value in self.inputs.values()]

    def function(self, source: str | None = None) -> Callable[..., Any]:
        """Execute the source and return its function."""
        namespace: dict[str, Any] = {"torch": torch}
        exec(compile(source or self.source, "<candidate>", "exec"), namespace)  # noqa: S102 - our own rendering
        function: Callable[..., Any] = namespace[standalone.FUNCTION]
        return function


def build(graph: Captured, candidate: Candidate, seed: int) -> Built:
    """Make a candidate: its lines, and the values that eager gives to its inputs."""
    case.seed_everything(seed)
    lines = graph.lines.values()
    values = capture.evaluate(
        lines, {name: capture.copied(value) for name, value in graph.values.items()}, candidate.inputs
    )
    values = {name: _cut(values[name], candidate.cuts) for name in candidate.inputs}
    expressions = {name: standalone.generated(values[name]) for name in candidate.generated}
    values |= {name: eval(text, {"torch": torch}) for name, text in expressions.items()}  # noqa: S307
    kept_lines = [graph.lines[name] for name in candidate.kept]
    if candidate.cuts:
        kept_lines = [_resized(line, candidate.cuts) for line in kept_lines]
    used = {name for node in graph.graph.nodes if node.name in candidate.kept for name in node.uses}
    constants = [f"{name} = {text}" for name, text in graph.literals.items() if name in used - {*candidate.kept}]
    source = standalone.function_source(kept_lines, candidate.inputs, candidate.outputs, constants)
    return Built(source, values, expressions)


def examine(asked: Asked, place: int, candidate: Candidate) -> dict[str, Any]:
    """Run a candidate by eager and compiled; answer what differs that is wrong, and the classes of what is raised."""
    graph = kept(asked.folder)[place]
    try:
        built = build(graph, candidate, asked.seed)
        with torch.no_grad():
            given = built.fresh()
            case.seed_everything(asked.seed)
            expected = built.function()(*given)
    except Exception as problem:  # noqa: BLE001 - a candidate that eager refuses is none
        return {"invalid": f"{type(problem).__name__}: {problem}"}
    torch.compiler.reset()
    compiled_given = built.fresh()
    patches = {"fallback_random": True} if graph.random and asked.test == "accuracy" else {}
    try:
        with torch.no_grad(), config.patch(patches):
            case.seed_everything(asked.seed)
            actual = torch.compile(built.function(), fullgraph=True, dynamic=False)(*compiled_given)
    except Exception as problem:  # noqa: BLE001 - what is raised is the observation
        return {"raised": sorted({base.__name__ for one in _chain(problem) for base in type(one).__mro__})}
    finally:
        torch.compiler.reset()
    pairs = (expected, actual), (given, compiled_given)
    found = _wrong(*pairs, None)
    if found:  # dear, and only this tells rounding from a fault
        found = _wrong(*pairs, _observed(built, asked.seed))
    return {"differences": sorted(found)}


def large(asked: Asked, place: int, candidate: Candidate) -> dict[str, Any]:
    """Answer which inputs of a candidate are too large to write down."""
    built = build(kept(asked.folder)[place], candidate, asked.seed)
    return {"large": [name for name, value in built.inputs.items() if not standalone.is_written(value)]}


def save(asked: Asked, place: int, candidate: Candidate) -> dict[str, Any]:
    """Write the program of a candidate and answer its file."""
    graph = kept(asked.folder)[place]
    built = build(graph, candidate, asked.seed)
    ops = [node.op for node in graph.graph.nodes if node.name in candidate.kept]
    shapes = [f"{value.dtype} {tuple(value.shape)}".removeprefix("torch.") for value in built.inputs.values()]
    given = ", ".join(shapes) if 0 < len(shapes) < 3 else f"{len(shapes)} inputs"
    try:
        inputs = [
            (name, built.expressions.get(name) or standalone.written(value)) for name, value in built.inputs.items()
        ]
    except standalone.TooLarge as problem:
        return {"reason": f"the smallest graph is not written down: an input has {problem}"}
    text = standalone.program(
        title=f"{ops[0] if len(ops) == 1 else f'{len(ops)} ops'} of {given}.",
        source=built.source,
        inputs=inputs,
        settings=_settings(random=graph.random and asked.test == "accuracy"),
        seed=asked.seed,
        ulps=max(comparison.OUTPUT_ULPS, _observed(built, asked.seed, perturbed=False).terms ** 0.5),
    )
    file = asked.folder / "minimal.py"
    file.write_text(text)
    return {"file": str(file), "ops": ops, "inputs": shapes}


def _settings(*, random: bool) -> list[str]:
    """Return what of Inductor's configuration this process has otherwise than by default, as far as a case knows it."""
    lines = [] if config.cpp.simdlen is None else [f"config.cpp.simdlen = {config.cpp.simdlen}"]
    if config.emulate_precision_casts:
        lines.append("config.emulate_precision_casts = True")
    return [*lines, "config.fallback_random = True"] if random else lines


def _chain(error: BaseException | None) -> list[BaseException]:
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return chain


@dataclass(frozen=True)
class Observed:
    """What is known of a candidate's right results: the terms of its largest sum, and the evidence."""

    terms: int = 1
    outputs: comparison.Evidence | None = None
    inputs: comparison.Evidence | None = None


def _observed(built: Built, seed: int, *, perturbed: bool = True) -> Observed:
    """Run a candidate beside float64; nothing is known where that cannot be."""
    mode = shadow.Shadow(perturbed=perturbed)
    given = built.fresh()
    try:
        with torch.no_grad(), mode:
            case.seed_everything(seed)
            results = built.function()(*given)
        return Observed(mode.facts.terms, mode.evidence(list(results)), mode.evidence(given))
    except Exception:  # noqa: BLE001 - an op that float64 has not
        return Observed()


def _wrong(outputs: tuple[Any, Any], inputs: tuple[Any, Any], known: Observed | None) -> set[str]:
    """Return the names of what differs and is wrong, by what is ``known``."""
    known = known or Observed()
    found = comparison.compare(*outputs, terms=known.terms, evidence=known.outputs, strides=False)
    found += comparison.inputs_after_call(*inputs, terms=known.terms, evidence=known.inputs)
    return {one["name"] for one in found if one["wrong"]}


def _cut(value: torch.Tensor, cuts: Sequence[Cut]) -> torch.Tensor:
    """Return a tensor with its dimensions cut, packed: in the same order of strides, expanded where it was."""
    if not cuts or not value.numel():
        return value
    strides = value.stride()
    by_size = {cut.size: cut for cut in cuts}
    small = value
    for dimension, size in enumerate(value.shape):
        if cut := by_size.get(size):
            small = small.narrow(dimension, size - cut.to if cut.last else 0, cut.to)
    step = min((stride for stride in strides if stride), default=1)
    packed = [0] * small.dim()
    for dimension in sorted(range(small.dim()), key=lambda one: strides[one]):
        if strides[dimension]:
            packed[dimension] = step
            step *= small.shape[dimension]
    result = torch.empty_strided(small.shape, packed, dtype=value.dtype)
    # What is expanded is written once.
    once = [slice(None) if stride else slice(0, 1) for stride in strides]
    result[tuple(once)].copy_(small[tuple(once)])
    return result


def _resized(line: capture.Line, cuts: Sequence[Cut]) -> capture.Line:
    """Return a line whose list of sizes, if it has one, is cut as the inputs are."""
    if not any(f".{op}." in line.text for op in ("view", "expand", "full", "reshape", "_unsafe_view", "repeat")):
        return line
    opening, closing = line.text.find("["), line.text.find("]")
    sizes = line.text[opening + 1 : closing].split(", ")
    if opening < 0 or not all(size.isdecimal() for size in sizes):
        return line
    smaller = {str(cut.size): str(cut.to) for cut in cuts}
    text = ", ".join(smaller.get(size, size) for size in sizes)
    return capture.Line(line.name, line.text[: opening + 1] + text + line.text[closing:], line.definitions)


# --- what runs here --------------------------------------------------------------------------------


class Runner:
    """Runs the functions above: here, or each in a child forked from this process, which then computes nothing."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.lost: list[str] = []
        if asked.forked:
            warm_up()
        self.threads = forking.threads()

    def __call__(self, function: Callable[..., dict[str, Any]], *arguments: Any, timeout_s: float) -> dict[str, Any]:
        """Return what ``function`` answers, or {"ended": how} where its child died or took too long."""
        run = partial(function, self.asked, *arguments)
        if not self.asked.forked:
            return run()
        ended = forking.in_child(run, timeout_s=timeout_s, output=self.asked.folder / "candidates.log")
        return ended.answer if ended.how == "answered" else {"ended": ended.how, "signal": ended.signal}

    def fails(self, place: int, wanted: set[str], candidate: Candidate) -> bool:
        """Tell whether a candidate fails the test; for accuracy by a difference of a name that ``wanted`` has."""
        answer = self(examine, place, candidate, timeout_s=self.asked.patience_s)
        if self.asked.test == "crash":
            return answer.get("ended") == "died"
        if self.asked.test == "hang":
            return answer.get("ended") == "timed_out"
        if "ended" in answer:
            self.lost.append(answer["ended"])
        if self.asked.test == "exception":
            return self.asked.exception in answer.get("raised", ()) if self.asked.exception else "raised" in answer
        names = set(answer.get("differences", ()))
        found = bool(names & wanted) if wanted else bool(names)
        if found and not wanted:
            wanted |= names
        return found

    def large(self, place: int, candidate: Candidate) -> list[str]:
        """Return the inputs of a candidate that are too large to write down."""
        found: list[str] = self(large, place, candidate, timeout_s=self.asked.patience_s).get("large", [])
        return found


def warm_up() -> None:
    """Import what compiling needs by compiling, so that children need not; run nothing of it."""
    from torch._inductor.compile_fx import compile_fx

    def only_compile(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Any:
        compile_fx(graph, examples)
        return graph

    torch.hub.tqdm.monitor_interval = 0  # no thread for bars of progress
    try:
        with torch.no_grad():
            torch.compile(lambda x: x + 1, backend=only_compile)(torch.zeros(2))
    except Exception:  # noqa: BLE001, S110 - a fault may break this too; its own candidates will tell
        pass
    torch.compiler.reset()


def reduce(asked: Asked) -> dict[str, Any]:
    """Return the least graph that fails, as the module says."""
    start = time.monotonic()
    run = Runner(asked)
    looked = run(look, timeout_s=asked.timeout_s)
    nothing: dict[str, Any] = {"minimal": None, "steps": [], "progress": [], "reason": None, "graphs": 0}
    nothing["threads_at_fork"] = run.threads
    if "graphs" not in looked:
        return {**nothing, "reason": looked.get("reason") or _ended(asked, looked)}
    graphs = [_graph(one) for one in looked["graphs"]]
    nothing["graphs"] = len(graphs)
    for place, graph in enumerate(graphs):
        if not graph.outputs:
            continue
        wanted: set[str] = set()
        reduced = reduction.reduce(
            graph,
            partial(run.fails, place, wanted),
            guilty=asked.guilty,
            generate=partial(run.large, place),
            timeout_s=asked.timeout_s - (time.monotonic() - start),
        )
        if reduced.minimal is None and reduced.reason is None:
            continue
        answer = {**nothing, "steps": reduced.rows(), "progress": reduced.progress, "reason": reduced.reason}
        answer |= {"differences": sorted(wanted), "graph": place}
        if reduced.minimal is not None:
            saved = run(save, place, reduced.minimal, timeout_s=asked.patience_s)
            counts = {"nodes": reduced.minimal.nodes, "inputs": len(reduced.minimal.inputs)}
            if "file" in saved:
                answer["minimal"] = {**counts, "ops": saved["ops"], "file": saved["file"], "shapes": saved["inputs"]}
            else:
                answer["reason"] = saved.get("reason", "the smallest graph could not be written down")
        return answer
    return {**nothing, "reason": _nothing(asked, len(graphs), looked["left_out"], run.lost)}


def _graph(one: dict[str, Any]) -> reduction.Graph:
    nodes = tuple(reduction.Node(**{**node, "uses": tuple(node["uses"])}) for node in one["nodes"])
    shapes = {name: tuple(shape) for name, shape in one["shapes"].items()}
    return reduction.Graph(tuple(one["inputs"]), nodes, tuple(one["outputs"]), shapes)


def _ended(asked: Asked, looked: dict[str, Any]) -> str:
    """Say why there is no graph where the child that was to capture it gave no answer."""
    if looked.get("ended") == "timed_out":
        return f"the time of {asked.timeout_s:.0f} s was used up before there was a graph"
    died = looked.get("signal") or looked.get("problem") or "without a word"
    return f"nothing to minify: the function itself ends the process ({died})"


def _nothing(asked: Asked, graphs: int, left_out: Sequence[str], lost: Sequence[str]) -> str:
    if not graphs:
        what = f"the {asked.direction} has no graph" if not left_out else f"it has {left_out[0]}"
        return f"nothing to minify: {what}"
    which = "the graph that Inductor gets does" if graphs == 1 else f"none of the {graphs} graphs does"
    reason = f"nothing to minify: alone, {which} not fail"
    if left_out:
        reason += f"; {len(left_out)} more could not be written down ({left_out[0]})"
    return reason + (f"; {len(lost)} ended without a result" if lost else "")


def main(asked: Path, answer: Path) -> None:
    """Do what ``asked`` says and write ``answer``."""
    arguments = json.loads(asked.read_text())
    folder = Path(arguments.pop("folder", answer.parent)).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    answer.write_text(json.dumps(reduce(Asked(**arguments, folder=folder))))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
