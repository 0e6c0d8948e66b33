"""Tells which strategies the installed minifier has. Runs in the measured process."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

from torch._functorch.fx_minifier import minifier

from cpulab.minify import strategies


def main(answer: Path) -> None:
    """Write ``{"strategies": [...]}`` to ``answer``."""
    answer.write_text(json.dumps({"strategies": strategies.registered(inspect.getsource(minifier))}))


if __name__ == "__main__":
    main(Path(sys.argv[2]))
