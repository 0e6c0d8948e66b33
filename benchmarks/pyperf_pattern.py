"""The tutorial's pattern, eager and compiled, for pyperf: run by measuring.py in the measured environment."""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import pyperf
import torch

from cpulab.cases import PROGRAMS

PATTERN = PROGRAMS["fused_pattern"]

if __name__ == "__main__":
    runner = pyperf.Runner()
    arguments = PATTERN.inputs(0)
    compiled = torch.compile(PATTERN.function)
    with torch.no_grad():
        runner.bench_func("eager", lambda: PATTERN.function(*arguments))
        runner.bench_func("inductor", lambda: compiled(*arguments))
