"""Records what Inductor makes of a user's function, level by level. Runs in the measured process.

``python -m cpulab.debug.walk_worker ARGUMENTS.json ANSWER.json``; the arguments: ``target`` {file, function}, ``seed``,
``backward`` (ask for gradients too). The answer: ``graphs`` (of `cpulab.debug.recording.traces`), and ``sources``: the
texts of the user's files that they name, by path. With ``trace`` the function is compiled and called, for TORCH_TRACE,
and nothing else is done.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import torch

from cpulab.debug import recording
from cpulab.explain import case, gradients

_FILE = re.compile(r"^\s*# File: (?P<file>.+?):\d+ in ", re.MULTILINE)


def main(asked: Path, answer: Path) -> None:
    """Do what ``asked`` says and write ``answer``."""
    arguments = json.loads(asked.read_text())
    file, name = arguments["target"]["file"], arguments["target"]["function"]
    function = case.load(file, name)

    def run() -> None:
        inputs = case.inputs(file, name, arguments["seed"])
        case.seed_everything(arguments["seed"])
        result = torch.compile(function)(*inputs)
        if arguments.get("backward"):
            gradients.backward(result)

    if arguments.get("trace"):
        run()
        found: dict[str, Any] = {}
    else:
        graphs = recording.traces(run)
        named = {one["file"] for graph in graphs for one in _FILE.finditer(graph["fx"])}
        # What is installed is not the user's program; its lines are shown as the graph has them.
        own = [path for path in sorted(named) if "/site-packages/" not in path and Path(path).is_file()]
        found = {"graphs": graphs, "sources": {path: Path(path).read_text(encoding="utf-8") for path in own}}
    answer.write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
