"""The program that the minifier starts from: the tutorial's function, compiled and compared with eager.

Run as ``python program.py SEED``, with the folder workflow/lib on PYTHONPATH.
"""

from __future__ import annotations

import sys

import torch

from cpulab.cases import PROGRAMS


def main(seed: int) -> None:
    """Print whether the compiled function agrees with eager; under the minifier AccuracyError is first."""
    program = PROGRAMS["float32"]
    inputs = program.inputs(seed)
    actual = torch.compile(program.function)(*inputs)
    expected = program.function(*inputs)
    print(f"agrees with eager: {torch.allclose(actual, expected, rtol=1e-4, atol=1e-4)}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
