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

from cpulab.errors import ProcessFailed
from cpulab.explain.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

# What a process that is asked for details may take, seconds.
_DETAIL_S = 180.0


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
        observed["oracle"] = case.oracle()
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
    return answer


def _no_minimal(component: str | None, kind: str | None) -> str:
    if component is None:
        return "There is nothing to reduce: no component is at fault."
    return f"A program that fails in {component} ({kind}) is not reduced here."


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

    def oracle(self) -> dict[str, Any] | None:
        """Return how eager without this machine's vectors compares with eager; None where that process dies."""
        self.bench.reporter.stage("eager without vector instructions")
        ended = self.process(["oracle"], {}, {"ATEN_CPU_CAPABILITY": "default"})
        oracle: dict[str, Any] | None = ended.found.get("oracle")
        return oracle

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
