"""A user's case as a record: what `explain` says of it, the walk to its lines of C++, and the programs themselves."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab import records
from cpulab.debug.walk import observations as walk_observations
from cpulab.debug.walk import walk
from cpulab.errors import MachineError
from cpulab.explain.step import explain
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePath

    from cpulab.config import Preset
    from cpulab.records import Artifact, Observation
    from cpulab.step import Bench

# About so long a case takes, seconds.
EXPECTED_S = 90.0
# Kinds in which, where no component is at fault, eager itself does not come to its end.
_NOT_RUN = frozenset({"invalid_case", "hang", "crash"})
_WALK_S = 180.0
_TLPARSE_S = 120.0


def case(target: Mapping[str, str]) -> Case:
    """Return ``target`` {file, function} as a case of the step explain."""

    def expected_s(_preset: Preset) -> float:
        return EXPECTED_S

    return Case("default", expected_s, lambda bench: look(bench, target))


def look(bench: Bench, target: Mapping[str, str], variables: Mapping[str, str] | None = None) -> Observed:
    """Explain ``target`` and keep what a reader needs to see it again.

    ``variables``: of every measured process, such as those of an injected fault.

    Raises:
        ProcessFailed: the measured environment does not run.

    """
    answer = explain(bench, target, variables=variables)
    file = Path(target["file"])
    observed = Observed(observations(answer, file), artifacts=[bench.keep("case_file", file)])
    minimal = (answer.get("minimal") or {}).get("file")
    if minimal is not None:
        kept = bench.keep("minimal_program", bench.results / minimal)
        observed.artifacts.append(kept)
        text = (bench.results / kept.path).read_text(encoding="utf-8")
        observed.observations |= {"minimal_file": kept.path, "minimal_program": text}
    # Recording what Inductor generates runs none of it.
    if answer["component"] is not None or answer["kind"] not in _NOT_RUN:
        bench.reporter.stage("the walk from the program to its C++")
        try:
            observed.observations |= _walk(bench, target, answer, variables or {})
        except MachineError as problem:
            observed.observations["walk_problem"] = str(problem)
        observed.artifacts += _tlparse(bench, target)
    return observed


def observations(answer: Mapping[str, Any], file: PurePath) -> dict[str, Observation]:
    """Return the object of `cpulab explain --json` as observations: an object becomes a list of one, or of none.

    The case is named by its file's name: the folder is the user's.
    """
    found: dict[str, Observation] = {}
    for name, value in answer.items():
        if name in {"errors", "bisector", "backward"}:
            found[name] = [value] if value is not None else []
        elif name == "minimal":
            found |= {f"minimal_{key}": one for key, one in (value or {}).items() if key not in {"steps", "file"}}
            found["minimal_steps"] = list((value or {}).get("steps") or [])
        elif name == "walk":
            found["located_by"] = (value or {}).get("how")
            found["chain"] = list((value or {}).get("chain") or [])
        else:
            found[name] = value
    found["case"] = f"{file.name}:{str(answer['case']).rpartition(':')[2]}"
    return found


def _walk(
    bench: Bench, target: Mapping[str, str], answer: Mapping[str, Any], variables: Mapping[str, str]
) -> dict[str, Observation]:
    backward = answer["direction"] == "backward"
    found = bench.worker(
        "cpulab.debug.walk_worker",
        {"target": dict(target), "seed": bench.seed, "backward": backward},
        variables={**bench.new_cache("recorded"), **variables},
        timeout_s=_WALK_S,
        tuned=not bench.environment.not_in_force,
    )
    located = answer.get("walk") or {}
    wrong = [line for line in located.get("lines") or [] if line["guilty"]]
    statements = {line["cpp"] for line in wrong}
    graphs = [graph for graph in found["graphs"] if graph["is_backward"] == backward]
    walks = [walk(one, found["sources"], guilty=statements, guilty_fx=located.get("guilty")) for one in graphs]
    # A program may be several graphs: that of the fault is shown, else the first.
    shown = next((one for one in walks if one["guilty"]), next(iter(walks), None))
    if shown is None:
        return {}
    return {**walk_observations(shown), "walk_graphs": len(walks)}


def _tlparse(bench: Bench, target: Mapping[str, str]) -> list[Artifact]:
    """Return tlparse's report of the case's trace, the index first, where that program is installed."""
    program = shutil.which("tlparse")
    if program is None:
        return []
    bench.reporter.stage("tlparse's report of the trace")
    logs, report = bench.scratch / "trace", bench.folder / "tlparse"
    logs.mkdir()
    # What fails leaves its trace all the same.
    with contextlib.suppress(MachineError):
        bench.worker(
            "cpulab.debug.walk_worker",
            {"target": dict(target), "seed": bench.seed, "trace": True},
            variables={**bench.new_cache("traced"), "TORCH_TRACE": str(logs.resolve()), "INDUCTOR_PROVENANCE": "1"},
            timeout_s=_WALK_S,
            tuned=not bench.environment.not_in_force,
        )
    traces = sorted(logs.glob("*.log"), key=lambda one: one.stat().st_size)
    if not traces:
        return []
    command = [program, str(traces[-1].resolve()), "-o", str(report.resolve()), "--overwrite", "--no-browser"]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_TLPARSE_S)
    except subprocess.TimeoutExpired:
        return []
    bench.reporter.note(f"$ {' '.join(command)}\n{ended.stdout}{ended.stderr}\n[exit status {ended.returncode}]")
    if not (report / "index.html").is_file():
        return []
    files = sorted(one for one in report.rglob("*") if one.is_file() and one != report / "index.html")
    return [
        records.artifact("tlparse", report / "index.html", bench.results),
        *(records.artifact("tlparse_file", one, bench.results) for one in files),
    ]
