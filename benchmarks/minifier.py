"""Times PyTorch's minifier and ours on the tutorial's accuracy fault, each candidate in a process of its own.

``python benchmarks/minifier.py [ENVIRONMENT.json]`` (default results/environment.json), with nothing else running. It
exits with 1 when the minimal graphs differ or ours took longer than it may.
"""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.config import load_preset
from cpulab.debug import faults
from cpulab.host.launch import load_environment
from cpulab.minify import repro, step
from cpulab.minify.reduce import WORKER, reduce
from cpulab.progress import Reporter
from cpulab.step import Bench, observe

if TYPE_CHECKING:
    from cpulab.host.launch import Completed

CASE = Path(__file__).resolve().with_name("tutorial_float32.py")
# For the same result on the same machine.
BOUND_S = 20.0


@dataclass(frozen=True)
class TimedBench(Bench):
    """A bench that remembers how long each command took, by its launched command line."""

    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, *arguments: Any, **options: Any) -> Completed:
        """Run as every bench does."""
        completed = super().run(*arguments, **options)
        self.seconds[" ".join(completed.command)] = completed.duration_s
        return completed

    def took(self, word: str) -> float:
        """Return the seconds of the command that has ``word`` in it."""
        return next(seconds for command, seconds in self.seconds.items() if word in command)


def main(environment: Path) -> int:
    """Run both, print the table, return the exit status."""
    preset = load_preset("tutorial")
    preset = replace(preset, minify=replace(preset.minify, isolate=True, timeout_s=600))
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        with Reporter("minifier", 180, results / "minifier.log") as reporter:
            bench = TimedBench(
                step="minify", case="accuracy", variant="scalar", preset=preset, model="", seed=0,
                environment=load_environment(environment), results=results, reporter=reporter,
            )  # fmt: skip
            record = observe(bench, step.CASES["accuracy"].look, results / "accuracy.json")
            if record.error is not None:
                print(record.error.message, file=sys.stderr)
                return 1
            reporter.stage("ours")
            bench.scratch.mkdir(parents=True, exist_ok=True)
            ours = reduce(
                bench,
                {"file": str(CASE), "function": "negate_and_maximum"},
                isolate=True,
                variables={**faults.variant_variables("scalar"), **faults.variables(step.FAULT, "scalar")},
            )
        theirs = repro.graph((results / "minify" / "accuracy" / "repro.py").read_text())
        least = ours["minimal"] or {"ops": [], "nodes": None, "inputs": None}
        rows = [
            ("PyTorch", bench.took("minifier_launcher.py"), record.observations["queries"], theirs.ops, theirs.nodes),
            ("ours", bench.took(WORKER), sum(one["queries"] for one in ours["steps"]), least["ops"], least["nodes"]),
        ]
    print(f"{'':8} {'seconds':>8} {'queries':>8} {'nodes':>6}  ops")
    for who, seconds, queries, ops, nodes in rows:
        print(f"{who:8} {seconds:8.1f} {queries!s:>8} {nodes!s:>6}  {', '.join(ops)}")
    same = [op.split(".")[-2] for op in least["ops"]] == theirs.ops and least["nodes"] == theirs.nodes
    print(f"the same minimal graph: {same}; ours within {BOUND_S:.0f} s: {rows[1][1] <= BOUND_S}")
    return 0 if same and rows[1][1] <= BOUND_S else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("results/environment.json")))
