"""Explains one case: runs its measured processes, attributes what kills one to its phase, and asks for the details."""

from __future__ import annotations

import json
import re
import shutil
import signal
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.debug.ladder import RUNGS
from cpulab.errors import LabError, ProcessFailed
from cpulab.explain.verdict import verdict
from cpulab.minify.reduce import reduce

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.explain.verdict import Verdict
    from cpulab.host.launch import Completed
    from cpulab.step import Bench

# Of one call of eager, before it counts as hanging; a backend has three times as long, for it compiles too.
TIMEOUT_S = 60.0
_RUNG_SHARE = 3.0

PHASES = (
    "eager", "again", "other_seed", "rung:eager", "rung:aot_eager", "rung:aot_eager_decomp_partition", "rung:inductor",
    "rung:inductor_scalar", "rung:inductor_fallback_random", "observe", "variants", "compare",
    "rung:inductor_emulate_precision_casts", "compare_emulated",
)  # fmt: skip

# What each process that is asked for details may take, and reducing, seconds; to start, besides.
_DETAIL_S = 90.0
_REDUCE_S = 120.0
_START_S = 60.0
_DETAIL_NAMES = {"bisector": "answer of PyTorch's bisector", "walk": "walk to the op at fault"}


@dataclass
class _Ended:
    """How one measured process ended: what it found, and where it was when it died."""

    found: dict[str, Any] = field(default_factory=dict)
    invalid: str | None = None
    died_in: str | None = None
    kind: str = "crash"
    words: str = ""


def explain(
    bench: Bench,
    target: Mapping[str, str],
    *,
    timeout_s: float = TIMEOUT_S,
    variables: Mapping[str, str] | None = None,
    details: bool = True,
) -> dict[str, Any]:
    """Return what is said of ``target`` {file, function}: the object that `cpulab explain --json` prints.

    ``variables``: of every measured process (an injected fault); ``details``: where Inductor is wrong, name the op, ask
    PyTorch's bisector and reduce the program.

    Raises:
        ProcessFailed: the measured environment does not run.

    """
    case = _Case(bench, dict(target), timeout_s, dict(variables or {}))
    observed = case.observe()
    said = verdict(observed)
    if said.kind == "accuracy" or "sign_of_zero" in said.differences:
        observed["oracle"] = case.oracle(observed["found"])
        said = verdict(observed)
    file, function = target["file"], target["function"]
    answer: dict[str, Any] = {
        "case": f"{file}:{function}",
        "component": said.component,
        "kind": said.kind,
        "path": said.path,
        "op": None,
        "subsystem": said.subsystem,
        "direction": said.direction,
        "reason": said.reason,
        "differences": said.differences,
        "errors": said.errors,
        "minimal": {"nodes": None, "ops": None, "file": None, "reason": _no_minimal(said.component, said.kind)},
        "bisector": None,
        "walk": None,
        "backward": said.backward,
        "notes": said.notes,
        "ladder": said.ladder,
    }
    if details and said.component is not None and said.kind != "nondeterministic":
        case.details(answer, said)
    return answer


def _no_minimal(component: str | None, kind: str | None) -> str:
    if component is None:
        return "There is nothing to reduce: no component is at fault."
    if component != "inductor":
        return f"Graphs that Inductor gets are reduced, and {component} fails before that."
    return f"A program of the kind {kind} is not reduced."


def _conclude(answer: dict[str, Any], said: Verdict) -> None:
    """Say which op it is, and whether the bisector agrees with the ladder and with the walk."""
    walk, bisector = answer["walk"], answer["bisector"]
    if walk is not None:
        answer["op"] = walk["op"]
    if bisector is None:
        return
    if answer["subsystem"] is None:
        answer["subsystem"] = bisector["subsystem"]
    component = RUNGS.get(bisector["backend"])
    ops = {one.split(".")[1] if one and "." in one else one for one in (answer["op"], bisector["op"])} - {None}
    bisector["agrees"] = component == said.component and len(ops) <= 1
    if not bisector["agrees"]:
        ours = f"{said.component}, {answer['op']}" if answer["op"] else said.component
        answer["notes"].append(
            f"PyTorch's bisector does not agree: it says {bisector['said']}, where the ladder and the walk say {ours}."
        )


class _Case:
    """One case and its processes."""

    def __init__(self, bench: Bench, target: dict[str, str], timeout_s: float, variables: dict[str, str]) -> None:
        self.bench = bench
        self.target = target
        self.timeout_s = timeout_s
        self.variables = variables
        self.folder = bench.scratch / "case"
        self._processes = 0

    @property
    def limits(self) -> dict[str, float]:
        return {"eager_s": self.timeout_s, "rung_s": _RUNG_SHARE * self.timeout_s}

    def observe(self) -> dict[str, Any]:
        """Run all phases, in as few processes as the case lets live."""
        found: dict[str, Any] = {}
        endings: dict[str, dict[str, str]] = {}
        observed = {"invalid": None, "found": found, "endings": endings, "oracle": None}
        remaining = list(PHASES)
        while remaining:
            ended = self.process(remaining, found)
            found.update(ended.found)
            if ended.invalid is not None:
                return {**observed, "invalid": ended.invalid}
            died = ended.died_in
            if died is None:
                break
            if died in {"import", "inputs"}:
                where = "when it is imported" if died == "import" else "in inputs()"
                return {**observed, "invalid": f"{Path(self.target['file']).name} {ended.words} {where}."}
            phase = died.split(":")[0] if died.startswith("variants") else died
            if phase == "eager":
                endings["eager"] = {"kind": ended.kind, "words": f"Eager itself {ended.words}."}
                break
            remaining = [one for one in remaining[remaining.index(phase) + 1 :] if one not in found]
            if phase.startswith("rung:") and ended.kind == "crash":
                ended = self._alone(phase, found, ended)
            if ended.died_in is not None and phase.startswith("rung:"):
                # Every later rung runs what this one adds, too; single-element code alone may live.
                kept = "rung:inductor_scalar" if phase == "rung:inductor" and ended.kind == "crash" else None
                remaining = [one for one in remaining if not one.startswith("rung:") or one == kept]
            if ended.died_in is not None:
                endings[phase] = {"kind": ended.kind, "words": f"the process {ended.words}"}
            if phase != "observe" and "compare" in remaining and "observe" not in remaining:
                remaining.insert(0, "observe")  # its evidence went with the process
        return observed

    def _alone(self, phase: str, found: dict[str, Any], before: _Ended) -> _Ended:
        """Run a phase in a process of its own: what an earlier one broke is not its fault."""
        self.bench.reporter.stage(f"{phase} again, in a process of its own")
        ended = self.process([phase], found)
        found.update(ended.found)
        return before if ended.died_in is not None else ended

    def oracle(self, found: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return how eager without this machine's vectors compares with eager; None where that process dies."""
        self.bench.reporter.stage("eager without vector instructions")
        ended = self.process(["oracle"], found, {"ATEN_CPU_CAPABILITY": "default"})
        oracle: dict[str, Any] | None = ended.found.get("oracle")
        return oracle

    def details(self, answer: dict[str, Any], said: Verdict) -> None:
        """Add to ``answer`` the op, the bisector's answer and the minimal program, or why there is none."""
        direction = said.direction or "forward"
        dies = said.kind in {"crash", "hang"}
        asked = {"target": self.target, "seed": self.bench.seed, "direction": direction, "seconds": _DETAIL_S}
        workers = {"bisector": "cpulab.debug.bisect_worker"}
        if said.component == "inductor":
            workers["walk"] = "cpulab.debug.locate_worker"
        if not dies:
            self.bench.reporter.stage("the op at fault, and PyTorch's bisector")
            with self.bench.side_by_side(len(workers)) as pool:
                running = {
                    name: pool.submit(
                        self.bench.worker,
                        module,
                        asked,
                        variables={**self.bench.new_cache(name), **self.variables},
                        timeout_s=_DETAIL_S + _START_S,
                        tuned=not self.bench.environment.not_in_force,
                    )
                    for name, module in workers.items()
                }
            for name, worker in running.items():
                try:
                    answer[name] = worker.result()
                except LabError as problem:
                    answer["notes"].append(f"No {_DETAIL_NAMES[name]}: {problem}")
        _conclude(answer, said)
        if said.component == "inductor":
            answer["minimal"] = self._reduced(answer, said, direction)

    def _reduced(self, answer: Mapping[str, Any], said: Verdict, direction: str) -> dict[str, Any]:
        nothing = {"nodes": None, "ops": None, "file": None}
        tests = {"accuracy": "accuracy", "compile_error": "exception", "crash": "crash", "hang": "hang"}
        if said.kind not in tests:
            return {**nothing, "reason": _no_minimal(said.component, said.kind)}
        row = next(one for one in answer["ladder"] if one["backend"] == "inductor" and one["code"] == "default")
        raised = row["ending"] == "exception"
        self.bench.reporter.stage("reducing the program")
        try:
            reduced = reduce(
                self.bench,
                self.target,
                direction="backward" if direction == "backward" else "forward",
                test="exception" if raised else said.kind,  # type: ignore[arg-type] # one of those in `tests`
                exception=row["exception"] if raised else None,
                guilty=(answer["walk"] or {}).get("guilty"),
                variables=self.variables,
                timeout_s=_REDUCE_S,
            )
        except LabError as problem:
            return {**nothing, "reason": str(problem)}
        return {
            **nothing,
            **(reduced["minimal"] or {}),
            "reason": reduced["reason"],
            "steps": reduced["steps"],
        }

    def process(
        self, phases: Sequence[str], found: Mapping[str, Any], variables: Mapping[str, str] | None = None
    ) -> _Ended:
        """Run phases in one measured process with a new cache and return how it ended."""
        self._processes += 1
        name = f"process_{self._processes}"
        self.folder.mkdir(parents=True, exist_ok=True)
        progress, hang, output = (self.folder / file for file in ("progress.jsonl", "hang.txt", "output.txt"))
        for left in (progress, hang, output):
            left.unlink(missing_ok=True)
        exchange = Path(tempfile.mkdtemp(dir=self.bench.scratch, prefix=f"{name}-"))
        asked, answer = exchange / "arguments.json", exchange / "answer.json"
        asked.write_text(
            json.dumps(
                {
                    "target": self.target,
                    "seed": self.bench.seed,
                    "folder": str(self.folder.resolve()),
                    "phases": list(phases),
                    "limits": self.limits,
                    "found": dict(found),
                }
            )
        )
        completed = self.bench.run(
            ["python", "-m", "cpulab.explain.worker", str(asked.resolve()), str(answer.resolve())],
            variables={**self.bench.new_cache(name), **self.variables, **(variables or {})},
            cwd=exchange,
            # The process ends itself at the limit of a phase: this is for one that cannot.
            timeout_s=len(phases) * 2 * self.limits["rung_s"],
            tuned=not self.bench.environment.not_in_force,
        )
        lines = [json.loads(line) for line in progress.read_text().splitlines()] if progress.exists() else []
        if output.exists():
            with output.open(errors="replace") as stream:
                self.bench.reporter.note(f"the case printed:\n{stream.read(20_000)}")
        shutil.rmtree(self.bench.scratch / "caches" / name, ignore_errors=True)
        if not lines:
            raise ProcessFailed("cpulab.explain.worker", completed.ending, self.bench.log)
        return self._ended(lines, completed, hang, done=answer.exists())

    def _ended(self, lines: list[dict[str, Any]], completed: Completed, hang: Path, *, done: bool) -> _Ended:
        ended = _Ended()
        open_phase: str | None = None
        for line in lines:
            if line["state"] == "begin":
                open_phase = line["phase"]
            elif line["state"] == "end":
                open_phase = None
                if line["phase"] != "start":
                    ended.found[line["phase"]] = line["found"]
            elif line["state"] == "invalid":
                ended.invalid = line["reason"]
            elif line["state"] == "exit":
                ended.died_in, ended.words = "eager", f"ends the process (sys.exit, status {line['status']})"
            elif line["state"] == "memory":
                ended.died_in, ended.words = "eager", f"runs out of memory ({line['message']})"
        if done or ended.invalid is not None or ended.died_in is not None:
            return ended
        ended.died_in = open_phase or "eager"
        stack = hang.read_text(errors="replace") if hang.exists() else ""
        if stack or completed.timed_out:
            ended.kind = "hang"
            ended.words = f"has not ended after {self._limit(lines):.0f} s{self._where(stack)}"
        else:
            ended.words = _death(completed.returncode)
        return ended

    def _limit(self, lines: list[dict[str, Any]]) -> float:
        return float(next(line["limit_s"] for line in reversed(lines) if line["state"] == "begin"))

    def _where(self, stack: str) -> str:
        """Return the line of the case's file that a process hung in."""
        name = re.escape(str(Path(self.target["file"]).resolve()))
        found = re.search(rf'File "{name}", line (\d+) in (\S+)', stack)
        return f", in line {found[1]} ({found[2]})" if found else ""


def _death(returncode: int) -> str:
    """Return in words how a process died that should not have."""
    if returncode >= 0:
        return f"ends the process with exit status {returncode}"
    number = -returncode
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    words = {
        "SIGSEGV": "crashes with a segmentation fault",
        "SIGABRT": "aborts",
        "SIGKILL": "is killed, as by the kernel when memory runs out",
        "SIGFPE": "crashes with an arithmetic exception",
        "SIGILL": "crashes with an illegal instruction",
        "SIGBUS": "crashes with a bus error",
    }.get(name, "is ended by a signal")
    return f"{words} ({name})"
