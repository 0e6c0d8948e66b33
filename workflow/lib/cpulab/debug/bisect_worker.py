"""Asks PyTorch's own CompilerBisector which backend, subsystem and lowering is at fault.

``python -m cpulab.debug.bisect_worker ARGUMENTS.json ANSWER.json`` in the measured environment; see `main`.

The bisector switches parts off and tries again: backends one after the other, then in the faulty one its passes, some
settings, and the lowerings, of which it gives the first ones to Inductor and the others to eager. So it names the
lowering whose coming in spoils the result, which for a wrong value is the op that uses it where the op that made it
hands it on in a register. Code generation is no subsystem of its: a fault there is named by the op's lowering.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.graph import GraphLowering

from cpulab.debug import post_aot
from cpulab.explain import case, comparison, gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

LOWERINGS = "lowerings"


class OutOfTime(Exception):
    """The bisector has asked for one more run than there is time for."""


def main(asked: Path, answer: Path) -> None:
    """Answer {target: {file, function}, seed, direction: "forward" or "backward", seconds: limit} with one object.

    ``backend``, ``subsystem``, ``bisect_number``, ``lowering``: the fields of the bisector's answer, the last its
    debug_info, None where it has none; ``op``: target of the lowering that it names; ``runs``, ``seconds``; ``said``:
    its answer in words, also where that is that nothing is wrong.
    """
    arguments = json.loads(asked.read_text())
    target = arguments["target"]
    names = target["file"], target["function"]
    backward = arguments.get("direction") == "backward"
    found = bisect(
        case.load(*names),
        lambda: case.inputs(*names, arguments["seed"]),
        backward=backward,
        seconds=arguments.get("seconds", 120),
    )
    answer.write_text(json.dumps(found))


def bisect(
    function: Callable[..., Any], inputs: Callable[[], list[Any]], *, backward: bool, seconds: float
) -> dict[str, Any]:
    """Return what `main` answers; ``inputs`` makes them anew."""
    answer: dict[str, Any] = dict.fromkeys(("backend", "subsystem", "bisect_number", "lowering", "op"))
    wanted, evidence, terms = _expected(function, inputs(), backward=backward)
    start = time.monotonic()
    runs = 0

    def is_right() -> bool:
        nonlocal runs
        if time.monotonic() - start > seconds:
            raise OutOfTime
        runs += 1
        torch.compiler.reset()
        arguments = inputs()
        try:
            found = _results(torch.compile(function), function, arguments, backward=backward)
        except Exception:  # noqa: BLE001 - whatever it is, it is wrong
            return False
        differences = comparison.compare(wanted, found, evidence=evidence, terms=terms, strides=False)
        return not any(one["wrong"] for one in differences)

    said = "it found nothing wrong"
    with _numbered() as lowered, post_aot.silent(), contextlib.redirect_stdout(io.StringIO()):
        try:
            result = _stepped(is_right)
        except OutOfTime:
            result, said = None, f"it was stopped after {seconds:.0f} s and {runs} runs"
        except RuntimeError as error:
            result, said = None, f"it gave up: {error}"
    if result is not None:
        answer |= {
            "backend": result.backend,
            "subsystem": result.subsystem,
            "bisect_number": result.bisect_number,
            "lowering": result.debug_info,
        }
        said = f"the backend {result.backend}"
        if result.subsystem is None:
            said += ", none of its subsystems"
        elif result.subsystem == LOWERINGS:
            answer["op"] = lowered.get((result.bisect_number, result.debug_info))
            said += f", the lowering {result.debug_info}" + (f" ({answer['op']})" if answer["op"] else "")
        else:
            said += f", {result.subsystem}"
    return {**answer, "runs": runs, "seconds": round(time.monotonic() - start, 3), "said": said}


def _stepped(is_right: Callable[[], bool]) -> Any:
    """Bisect as PyTorch's command line does, one run at a time.

    In one go it cleans up when its frame is gone, and a caught compile error keeps that alive: the process would go on
    compiling for the last backend that was tried.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.multiple(CompilerBisector, in_process_cache=folder, bisection_enabled=True),
    ):
        while True:
            try:
                return CompilerBisector.do_bisect(is_right, cli_interface=True)
            except SystemExit:
                continue


def _expected(function: Callable[..., Any], arguments: list[Any], *, backward: bool) -> tuple[Any, Any, int]:
    """Return eager's results and what is known of them."""
    from cpulab.explain.shadow import Shadow

    mode = Shadow(perturbed=True)
    with mode:
        wanted = _results(function, function, arguments, backward=backward)
    return wanted, mode.evidence([leaf for _, leaf in comparison.leaves(wanted)]), mode.facts.terms


def _results(
    called: Callable[..., Any], function: Callable[..., Any], arguments: Sequence[Any], *, backward: bool
) -> tuple[Any, Any]:
    """Return the result, and the gradients of everything that ``function`` may use where they are asked for."""
    sources = gradients.sources(function, arguments) if backward else {}
    for one in sources.values():
        one.grad = None
    result = called(*arguments)
    if backward:
        gradients.backward(result)
    return result, gradients.collected(sources)


@contextlib.contextmanager
def _numbered() -> Iterator[dict[tuple[int, str], str]]:
    """Give, for each lowering that the bisector counted (number, name of the node), the op."""
    lowered: dict[tuple[int, str], str] = {}
    run_node, disable = GraphLowering.run_node, CompilerBisector.disable_subsystem
    current: list[torch.fx.Node] = []

    def noted(self: GraphLowering, node: torch.fx.Node) -> Any:
        current.append(node)
        try:
            return run_node(self, node)
        finally:
            current.pop()

    def counted(backend: str, subsystem: str, debug_info: Callable[[], str] | None = None) -> bool:
        number = CompilerBisector.get_system_counter(subsystem, increment=False)
        if subsystem == LOWERINGS and current:
            lowered[number, repr(current[-1])] = str(current[-1].target)
        return bool(disable(backend, subsystem, debug_info))

    with (
        mock.patch.object(GraphLowering, "run_node", noted),
        mock.patch.object(CompilerBisector, "disable_subsystem", counted),
    ):
        yield lowered


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
