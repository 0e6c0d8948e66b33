"""Observes torch.compile from inside: the ladder, the lines' FX nodes, an edited kernel. Runs in the measured process.

``python -m cpulab.debug.worker ARGUMENTS.json ANSWER.json``; the arguments say what to do:
``program`` (of `cpulab.cases`, or of a ``script`` that holds a copy of them), ``seed``, ``ladder`` (run it), ``walk``
(record what Inductor makes of it, level by level),
``output_code`` ([original, edited] to run side by side) and ``code_objects`` (places of code generators).
"""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._dynamo.utils import counters, same
from torch._inductor import metrics
from torch._inductor.graph import GraphLowering

from cpulab.cases import PROGRAMS
from cpulab.debug import code_objects, injection
from cpulab.debug.ladder import RUNGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cpulab.cases import Program


def exception_chain(error: BaseException | None) -> list[BaseException]:
    """Return ``error`` and what it was raised for: the inner exception of a backend's, or its cause."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = getattr(error, "inner_exception", None) or error.__cause__
    return chain


def largest_error(expected: torch.Tensor, actual: torch.Tensor) -> float | None:
    """Return the largest absolute difference; None where it is not a number."""
    largest = (expected.double() - actual.double()).abs().max().item()
    return largest if math.isfinite(largest) else None


def first_diverging(expected: torch.Tensor, actual: torch.Tensor) -> str | None:
    """Return the first element of the result that differs, as Python writes it; None where shapes do, or none does."""
    if expected.shape != actual.shape:
        return None
    places = (expected != actual).nonzero()
    return f"result{places[0].tolist()}" if len(places) else None


def rung(backend: str, program: Program, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Compile and run ``program`` with ``backend`` and compare with eager; PyTorch's own counters say what ran."""
    torch.compiler.reset()
    counters.clear()
    metrics.reset()
    expected = program.function(*inputs)
    answer: dict[str, Any] = {"backend": backend, "passed": False, "exception": None, "exception_chain": ""}
    answer["largest_error"] = answer["first_diverging_output"] = None
    codes: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", codes.append):
        try:
            actual = torch.compile(program.function, backend=backend)(*inputs)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the observation
            chain = exception_chain(error)
            answer["exception"] = type(error).__name__
            answer["exception_chain"] = " <- ".join(type(one).__name__ for one in chain)
            answer["bases"] = [base.__name__ for base in type(error).__mro__]
            answer["message"] = str(error)
        else:
            exact = not expected.dtype.is_floating_point
            answer["passed"] = bool(torch.equal(actual, expected) if exact else same(expected, actual))
            answer["largest_error"] = largest_error(expected, actual)
            answer["equal"] = torch.equal(actual, expected)
            answer["first_diverging_output"] = None if answer["passed"] else first_diverging(expected, actual)
    answer["counters"] = {
        "frames.total": counters["frames"]["total"],
        "aot_autograd.total": counters["aot_autograd"]["total"],
        "aot_autograd.ok": counters["aot_autograd"]["ok"],
        "ir_nodes_pre_fusion": metrics.ir_nodes_pre_fusion,
        "generated_kernel_count": metrics.generated_kernel_count,
    }
    answer["dynamo_ran"] = counters["frames"]["total"] > 0
    answer["aot_autograd_ran"] = counters["aot_autograd"]["total"] > 0
    answer["inductor_ran"] = metrics.ir_nodes_pre_fusion > 0 or metrics.generated_kernel_count > 0
    answer["output_code"] = codes[0] if codes else None
    return answer


def programs(script: str | None) -> dict[str, Program]:
    """Return the programs of `cpulab.cases`, or those of a script with a copy of them, whose lines are then its own."""
    if script is None:
        return PROGRAMS
    found: dict[str, Program] = _module(Path(script)).PROGRAMS
    return found


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # kernels of output code, and dataclasses, are looked up there
    spec.loader.exec_module(module)
    return module


def run_output_code(path: Path, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Import an output_code.py as a module and run its ``call`` on the program's inputs, found by shape and type.

    Raises:
        ValueError: the code takes an input that the program does not have.

    """
    module = _module(path)
    taken = []
    for wanted in module.get_args():
        fitting = [one for one in inputs if one.shape == wanted.shape and one.dtype == wanted.dtype]
        if not fitting:
            raise ValueError(
                f"{path.name} takes an input of shape {tuple(wanted.shape)} that the program does not have"
            )
        taken.append(fitting[0])
    result: torch.Tensor = module.call(taken)[0]
    return result


def main(asked: Path, answer: Path) -> None:
    """Do what ``asked`` says and write ``answer``."""
    arguments = json.loads(asked.read_text())
    answered: dict[str, Any] = {}
    program = programs(arguments.get("script"))[arguments["program"]]
    inputs = program.inputs(arguments["seed"])
    if arguments.get("walk"):
        from cpulab.debug import recording

        (answered["graph"],) = recording.traces(lambda: torch.compile(program.function)(*inputs))
    if arguments.get("ladder"):
        answered["ladder"] = [rung(backend, program, inputs) for backend in RUNGS]
    if arguments.get("output_code"):
        original, edited = (run_output_code(Path(path), inputs) for path in arguments["output_code"])
        answered["output_code_is_right"] = torch.equal(original, program.function(*inputs))
        answered["edited_kernel_changes_result"] = not torch.equal(original, edited)
    if arguments.get("code_objects"):
        answered["code_objects"] = code_objects.imported(arguments["code_objects"])
    answered["generated"] = injection.generated
    answer.write_text(json.dumps(answered))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
