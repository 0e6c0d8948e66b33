"""Runs the reducer with a neg whose kernel crashes or hangs: ``python broken_neg.py crash|hang ASKED.json ANSWER.json``."""

import sys
from pathlib import Path

from cpulab.minify import reduce_worker as worker

from torch._inductor.codegen.cpp import CppOverrides

BROKEN = {
    "crash": "([&]() {{ *(volatile int*)8 = 1; return {x}; }}())",
    "hang": "([&]() {{ for (volatile int i = 0; i < 1; i = 0) {{}} return {x}; }}())",
}

if __name__ == "__main__":
    CppOverrides.neg = staticmethod(lambda x: BROKEN[sys.argv[1]].format(x=x))
    worker.main(Path(sys.argv[2]), Path(sys.argv[3]))
