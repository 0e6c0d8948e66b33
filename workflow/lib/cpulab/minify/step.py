"""The minify step: PyTorch's minifier reduces a faulty program to the least graph that shows the fault."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.debug import faults
from cpulab.errors import ProcessFailed
from cpulab.files import write_whole
from cpulab.minify import log, repro
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from cpulab.config import Preset
    from cpulab.host.launch import Completed
    from cpulab.records import Artifact, Observation
    from cpulab.step import Bench

FAULT = "neg_doubled"
PROGRAM = Path(__file__).with_name("program.py")
LAUNCHER = "torch_compile_debug/run_*/minifier/minifier_launcher.py"

# What is observed of the parts that a run does not come to.
NOTHING: dict[str, Observation] = {
    "launcher_written": False,
    "repro_written": False,
    "node_counts": [],
    "steps": [],
    "strategies_tried": [],
    "strategies_succeeded": [],
    "queries": None,
    "minifier_gave_up": None,
    "minimal_ops": [],
    "minimal_inputs": None,
    "minimal_nodes": None,
    "fails_with_fault": None,
    "passes_without_fault": None,
}


def _accuracy(bench: Bench) -> Observed:
    observed = Observed(observations={**NOTHING, "fault": FAULT, "isolated": bench.preset.minify.isolate})
    runs = _Runs(bench, bench.new_cache())
    bench.reporter.stage("asking the minifier for its strategies")
    answer = bench.worker("cpulab.minify.worker", {}, timeout_s=bench.preset.minify.timeout_s)
    observed.observations["strategies_available"] = answer["strategies"]
    launcher = _start(runs, observed)
    minimal = None if launcher is None else _minify(runs, observed, launcher)
    if minimal is not None:
        _check(runs, observed, minimal)
    return observed


def _start(runs: _Runs, observed: Observed) -> Path | None:
    """Run the faulty program; return the minifier's launcher, None when nothing made it write one."""
    bench = runs.bench
    bench.reporter.stage("running the program with the fault")
    program = bench.keep("program", PROGRAM)
    completed = runs.run(
        "The program with the fault",
        ["python", str((bench.results / program.path).resolve()), str(bench.seed)],
        folder="program",
        variables={**runs.faulty, "TORCHDYNAMO_REPRO_AFTER": "aot", "TORCHDYNAMO_REPRO_LEVEL": "4"},
    )
    observed.artifacts += [program, runs.keep("log", "program.log", completed.stdout + completed.stderr)]
    observed.observations |= _ended("program", repro.ending(completed))
    launcher = next((bench.scratch / "program").glob(LAUNCHER), None)
    if launcher is None:
        if completed.returncode != 0:  # it failed before there was anything to compare
            raise ProcessFailed("The program with the fault", completed.ending, bench.log)
        return None
    observed.artifacts.append(runs.keep("minifier_launcher", launcher.name, launcher.read_text()))
    observed.observations["launcher_written"] = True
    return launcher


def _minify(runs: _Runs, observed: Observed, launcher: Path) -> Artifact | None:
    """Run the minifier; return the minimal program, None when the minifier itself gave up."""
    bench = runs.bench
    isolated = bench.preset.minify.isolate
    bench.reporter.stage("minifying, each candidate in a process of its own" if isolated else "minifying")
    command = ["python", str(launcher.resolve()), "minify", *([] if isolated else ["--no-isolate"])]
    completed = runs.run("The minifier", command, folder="minifier", variables=runs.faulty)
    observed.artifacts.append(runs.keep("log", "minifier.log", completed.stdout + completed.stderr))
    minified = log.parse(completed.stderr)
    observed.observations |= {
        "node_counts": [*minified.node_counts],
        "steps": [asdict(step) for step in minified.steps],
        "strategies_tried": [*minified.tried],
        "strategies_succeeded": [*minified.succeeded],
        "queries": minified.queries,
        "minifier_gave_up": minified.given_up,
    }
    if minified.given_up is not None:
        return None
    # The program's run leaves a repro.py too, of the whole graph: this one is in a folder of its own.
    minimal = bench.scratch / "minifier" / "repro.py"
    if completed.returncode != 0 or not (minified.finished and minimal.exists()):
        raise ProcessFailed("The minifier", completed.ending, bench.log)
    graph = repro.graph(minimal.read_text())
    observed.observations |= {
        "repro_written": True,
        "minimal_ops": [*graph.ops],
        "minimal_inputs": graph.inputs,
        "minimal_nodes": graph.nodes,
    }
    kept = runs.keep("repro", minimal.name, minimal.read_text())
    observed.artifacts.append(kept)
    return kept


def _check(runs: _Runs, observed: Observed, minimal: Artifact) -> None:
    """Run the minimal program as it is kept, with the fault and without."""
    bench = runs.bench
    # In the scratch folder, where the kept script finds the saved inputs: see `_Runs.keep`.
    command = ["python", str((bench.results / minimal.path).resolve())]
    bench.reporter.stage("running the minimal program with the fault and without")
    with bench.side_by_side(2) as pool:
        runs_of = {
            what: pool.submit(runs.run, f"The minimal program {what} fault", command, folder=".", variables=variables)
            for what, variables in (("with", runs.faulty), ("without", runs.healthy))
        }
    for what, run in runs_of.items():
        completed = run.result()
        ending = repro.ending(completed)
        observed.artifacts.append(runs.keep("log", f"repro_{what}_fault.log", completed.stdout + completed.stderr))
        observed.observations |= _ended(f"{what}_fault", ending)
        if what == "with":
            observed.observations["fails_with_fault"] = ending.is_accuracy_failure
        else:
            observed.observations["passes_without_fault"] = ending.is_pass


def _ended(run: str, ending: repro.Ending) -> dict[str, Observation]:
    return {
        f"{run}_exit_status": ending.exit_status,
        f"{run}_exception": ending.exception,
        f"{run}_difference": ending.difference,
    }


@dataclass(frozen=True)
class _Runs:
    """How the processes of this case are run, and how their texts are kept."""

    bench: Bench
    cache: dict[str, str]

    @property
    def healthy(self) -> dict[str, str]:
        """Variables of every process: scalar code, one code cache."""
        return {
            # Compiled C++ is found by its text and may be shared. Compiled graphs are found by a key that does
            # not know of the fault: from those caches torch.compile gives a healthy process the faulty kernel.
            **self.cache,
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
            **faults.variant_variables("scalar"),
        }

    @property
    def faulty(self) -> dict[str, str]:
        """Variables of a process with the fault."""
        return {**self.healthy, **faults.variables(FAULT, "scalar")}

    def run(self, what: str, command: list[str], *, folder: str, variables: dict[str, str]) -> Completed:
        """Run ``command`` in ``folder`` of the scratch folder.

        Raises:
            ProcessFailed: it was ended by its time-out or killed by a signal.

        """
        cwd = self.bench.scratch.resolve() / folder
        cwd.mkdir(exist_ok=True)
        timeout_s = self.bench.preset.minify.timeout_s
        completed = self.bench.run(command, variables=variables, cwd=cwd, timeout_s=timeout_s)
        if completed.timed_out or completed.returncode < 0:
            raise ProcessFailed(what, completed.ending, self.bench.log)
        return completed

    def keep(self, kind: str, name: str, text: str) -> Artifact:
        """Keep ``text`` without this machine's folders; those in scratch are told from there, as ``./x``."""
        path = self.bench.folder / name
        write_whole(path, repro.portable(text, repro.folders(self.bench)))
        return self.bench.keep(kind, path)


def _expected_s(preset: Preset) -> float:
    return 130 if preset.minify.isolate else 50


CASES = {"accuracy": Case("scalar", _expected_s, _accuracy)}
