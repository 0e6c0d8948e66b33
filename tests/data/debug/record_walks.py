"""Records what Inductor makes of small programs, level by level, for the tests of the walk; see README.md."""

import json
import sys
from pathlib import Path

import torch

from cpulab.cases import negate_and_maximum
from cpulab.debug import recording


def normalized(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Multiply, normalize rows, and use the result twice: the two uses are fused."""
    y = torch.softmax(x @ w, -1)
    return torch.cat([y + 1, y * 2])


def main(folder: Path) -> None:
    """Write one file a program; the faulty one needs CPULAB_FAULTS as the debug step sets it."""
    files = {"program.py": negate_and_maximum.__code__.co_filename, "record_walks.py": __file__}
    uint8 = [torch.arange(8, dtype=torch.uint8).reshape(1, 8), torch.zeros(16, 8, dtype=torch.uint8)]
    found = recording.traces(lambda: torch.compile(negate_and_maximum)(*uint8))
    x, w = (torch.ones(4, 4, requires_grad=True) for _ in range(2))
    found += recording.traces(lambda: torch.compile(normalized)(x, w).sum().backward())
    for name, graph in zip(("one_kernel", "forward", "backward"), found, strict=True):
        text = json.dumps(graph, indent=1)
        for short, path in files.items():
            text = text.replace(path, f"/home/user/{short}")
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


main(Path(sys.argv[1]))
