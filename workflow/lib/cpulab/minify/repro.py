"""The script that the minifier leaves: the graph in it, how a run of it ended, how it is made portable."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpulab.host.launch import Completed
    from cpulab.step import Bench

# Of the process that wrote the script: its cache folder and an address in its memory.
_OF_ONE_PROCESS = re.compile(
    r"^os\.environ\['(?:TORCHINDUCTOR_CACHE_DIR|_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR)'\] = .*\n",
    re.MULTILINE,
)
_ACCURACY_ERROR = "torch._dynamo.debug_utils.AccuracyError"
# torch._dynamo.utils.same says by one of these lines that two results differ.
_DIFFERENCE = re.compile(
    r"^E\d{4} .*?\] ((?:RMSE \(res-fp64\)|Accuracy failed|dtype mismatch|Length mismatch).*)$", re.MULTILINE
)
# torch._dynamo.debug_utils.same_two_models takes a compiled graph that crashes for one that agrees.
_NOT_COMPARED = "ran into a runtime exception which is likely an unrelated issue"
_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True)
class Graph:
    """The FX graph of a repro: its ops in order, its inputs, its nodes (inputs and the output count)."""

    ops: list[str]
    inputs: int
    nodes: int


def graph(text: str) -> Graph:
    """Read the graph that a repro script defines.

    Raises:
        ValueError: it has no class Repro with a method forward.

    """
    forward = next(
        (
            method
            for node in ast.parse(text).body
            if isinstance(node, ast.ClassDef) and node.name == "Repro"
            for method in node.body
            if isinstance(method, ast.FunctionDef) and method.name == "forward"
        ),
        None,
    )
    if forward is None:
        raise ValueError(f"no class Repro with a method forward in {text[:200]!r}")
    # FX writes one assignment a node; "x = None" only frees a value.
    values = [
        statement.value
        for statement in forward.body
        if isinstance(statement, ast.Assign)
        and not (isinstance(statement.value, ast.Constant) and statement.value.value is None)
    ]
    inputs = len(forward.args.args) - 1
    ops = [_op(value) for value in values if not isinstance(value, ast.Attribute)]
    return Graph(ops, inputs, inputs + len(values) + 1)


def _op(value: ast.expr) -> str:
    """Return the op of one node: "neg" for torch.ops.aten.neg.default(x)."""
    if isinstance(value, ast.Subscript):
        return "getitem"
    if not isinstance(value, ast.Call):
        return ast.unparse(value)
    path = ast.unparse(value.func).split(".")
    return path[-2] if path[:2] == ["torch", "ops"] else path[-1]


def folders(bench: Bench) -> dict[str, str]:
    """Return this machine's folders that a process of ``bench`` may name, and what stands for each (see `portable`)."""
    return {
        str(bench.scratch.resolve()): ".",
        str(bench.results.resolve()): "results",
        str(LIBRARY): "workflow/lib",
        str(Path(bench.environment.python).parent.parent): "environment",
    }


def portable(text: str, folders: Mapping[str, str]) -> str:
    """Return a script or a log without this machine's folders (folder -> what stands for it) and process."""
    text = _OF_ONE_PROCESS.sub("", text)
    for folder in sorted(folders, key=len, reverse=True):
        text = text.replace(folder, folders[folder])
    return text


@dataclass(frozen=True)
class Ending:
    """How a script that compares compiled with eager ended.

    ``exception``: the exception line of its last traceback; ``difference``: what the comparison said;
    ``compared``: the compiled graph ran, so that there was something to compare.
    """

    exit_status: int
    exception: str | None
    difference: str | None
    compared: bool

    @property
    def is_accuracy_failure(self) -> bool:
        """It failed because the results differ, and for no other reason."""
        raised = self.exception is not None and self.exception.split(":")[0] == _ACCURACY_ERROR
        return self.exit_status != 0 and raised and self.difference is not None

    @property
    def is_pass(self) -> bool:
        """It ran, compared, and found the results to agree."""
        return self.exit_status == 0 and self.exception is None and self.compared


def ending(completed: Completed) -> Ending:
    """Read how a run of a program under the minifier, or of a repro script, ended."""
    found = _DIFFERENCE.search(completed.stderr)
    return Ending(
        exit_status=completed.returncode,
        exception=_exception(completed.stderr),
        difference=found[1] if found else None,
        compared=_NOT_COMPARED not in completed.stderr,
    )


def _exception(stderr: str) -> str | None:
    lines = stderr.splitlines()
    if _TRACEBACK not in lines:
        return None
    last = len(lines) - 1 - lines[::-1].index(_TRACEBACK)
    return next((line for line in lines[last + 1 :] if line and not line[0].isspace()), None)
