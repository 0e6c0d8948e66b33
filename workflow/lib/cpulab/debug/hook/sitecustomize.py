"""Run by every interpreter that has this folder on PYTHONPATH: injects what the environment asks for."""
# ruff: noqa: INP001 - Python looks for a top-level module of this name

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _hand_over() -> None:
    # Python runs only the first sitecustomize it finds; the one that this folder hides must still run.
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("sitecustomize", [entry for entry in sys.path if Path(entry).resolve() != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _inject() -> None:
    if not (os.environ.get("CPULAB_FAULT") or os.environ.get("CPULAB_SIMDLEN")):
        return
    from cpulab.debug import injection
    from cpulab.errors import LabError

    try:
        injection.install()
    except LabError as error:
        # Python prints an exception from here and goes on without the fault; that would be silence.
        print(f"error: {error}", file=sys.stderr, flush=True)
        os._exit(1)


_hand_over()
_inject()
