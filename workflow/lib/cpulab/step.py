"""What every step has in common: it observes a case and leaves one record, whatever happened."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab import records
from cpulab.errors import BindingRefused, DiskFull, InputError, MachineError, ProcessFailed, SettingsNotInForce
from cpulab.files import full_disk_named
from cpulab.host import settings
from cpulab.host.launch import Completed, Environment, end_group, run_measured
from cpulab.records import Artifact, Failure, Measurement, Observation, Record, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cpulab.config import Preset
    from cpulab.progress import Reporter


@dataclass
class Observed:
    """What a step hands over to be recorded."""

    observations: dict[str, Observation] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    status: Status = "ok"


@dataclass(frozen=True)
class Case:
    """One case of a step: its variant, about how long it takes in seconds, and how it is observed."""

    variant: str
    expected_s: Callable[[Preset], float]
    look: Callable[[Bench], Observed]


@dataclass(frozen=True)
class Bench:
    """Where and how one case is observed.

    ``folder`` is the case's own folder below ``results`` (``results/<step>/<case>``), empty at the start; what stays in
    it is what the step keeps. ``scratch`` is another, deleted at the end: caches, dumps, working directories.
    """

    step: str
    case: str
    variant: str
    preset: Preset
    model: str
    seed: int
    environment: Environment
    results: Path
    reporter: Reporter
    running: set[int] = field(default_factory=set)

    @property
    def folder(self) -> Path:
        """The folder of what the case keeps."""
        return self.results / self.step / self.case

    @property
    def scratch(self) -> Path:
        """The folder of what the case needs while it runs."""
        return self.results / "scratch" / self.step / self.case

    @property
    def log(self) -> str:
        """The step's log, relative to the results folder."""
        return self.reporter.log.resolve().relative_to(self.results.resolve()).as_posix()

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Empty both folders, and delete ``scratch`` at the end."""
        for folder in (self.folder, self.scratch):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        try:
            yield
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)

    def new_cache(self, name: str = "cache") -> dict[str, str]:
        """Return the variable that gives processes a new Inductor cache below ``scratch``.

        It holds Inductor's trials of the processor's instruction sets, which every process would else build again for
        some seconds; they are named by a digest of source, flags, compiler and PyTorch version. It holds no graph and
        no kernel: a cached graph is not generated again, so neither debug files nor a fault would appear.
        """
        folder = self.scratch / "caches" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        if self.environment.isa_trials.is_dir():
            shutil.copytree(self.environment.isa_trials, folder, ignore=shutil.ignore_patterns("locks"))
        else:
            folder.mkdir()
        return {"TORCHINDUCTOR_CACHE_DIR": str(folder.resolve())}

    def run(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout_s: float = 600,
        tuned: bool = True,
    ) -> Completed:
        """Run ``command`` in the measured environment, its output in the log, and return how it ended."""
        completed = run_measured(
            self.environment,
            command,
            variables=variables,
            cwd=cwd or self.scratch,
            timeout_s=timeout_s,
            tuned=tuned,
            running=self.running,
        )
        # One note: a step may run several commands at a time.
        command_line = " ".join(completed.command)
        self.reporter.note(f"$ {command_line}\n{completed.stdout}{completed.stderr}\n[{completed.ending}]")
        return completed

    @contextlib.contextmanager
    def side_by_side(self, at_a_time: int) -> Iterator[ThreadPoolExecutor]:
        """Give what calls `run` and `worker` at the same time; an exception, such as Ctrl-C, ends all that run."""
        pool = ThreadPoolExecutor(at_a_time)
        try:
            yield pool
            pool.shutdown()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in list(self.running):
                end_group(group)
            raise

    def worker(
        self,
        module: str,
        arguments: Mapping[str, Any],
        *,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = 600,
        tuned: bool = True,
    ) -> dict[str, Any]:
        """Run ``python -m module ARGUMENTS.json ANSWER.json`` in the measured environment and return its answer.

        The worker reads a JSON object from its first argument and writes one to its second. Where it attested itself
        (`cpulab.host.attest.facts` as ``attested`` in its answer), the settings it found are compared with the
        environment's, and ``attestation`` takes the place of ``attested``: ``{in_force, impossible, seconds}``. Started
        untuned, it has nothing to be compared with, and the facts stay.

        Raises:
            ProcessFailed: it ended otherwise than with 0, or left no answer.
            SettingsNotInForce: it attested a setting not in force that can be had here.

        """
        exchange = Path(tempfile.mkdtemp(dir=self.scratch, prefix="worker-"))
        asked = exchange / "arguments.json"
        answer = exchange / "answer.json"
        asked.write_text(json.dumps(arguments))
        completed = self.run(
            ["python", "-m", module, str(asked.resolve()), str(answer.resolve())],
            variables=variables,
            timeout_s=timeout_s,
            tuned=tuned,
        )
        if completed.returncode != 0 or not answer.exists():
            raise ProcessFailed(module, completed.ending, self.log)
        found: dict[str, Any] = json.loads(answer.read_text())
        if tuned and "attested" in found:
            effective = settings.effective_kmp(completed.stderr + completed.stdout)
            facts = found.pop("attested")
            rows = settings.compare(facts, effective, self.environment)
            if missing := settings.reasons(rows):
                raise SettingsNotInForce(missing)
            found["attestation"] = {
                "in_force": len(settings.named(rows, "in_force")),
                "impossible": ", ".join(settings.named(rows, "impossible")),
                "seconds": facts["seconds"],
            }
        return found

    def keep(self, kind: str, path: Path, name: str | None = None) -> Artifact:
        """Copy ``path`` into the case's folder (unless it stands there) and return it as an artefact."""
        target = self.folder / (name or path.name)
        if path.resolve() != target.resolve():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        return records.artifact(kind, target, self.results)


def observe(bench: Bench, look: Callable[[Bench], Observed], output: Path) -> Record:
    """Run ``look`` and write its record to ``output``.

    A failure of the machine or of the suite becomes a record with status ``failed`` or ``refused``, so that one step
    never costs the report. A failure of the user's input, a full disk and Ctrl-C leave no record.

    Raises:
        InputError: the user's input is wrong.
        DiskFull: no space is left.

    """
    output.unlink(missing_ok=True)
    start = time.time()
    error: Failure | None = None
    with bench.opened():
        try:
            with full_disk_named(output):
                observed = _in_force(bench, look)
        except (InputError, DiskFull):
            raise
        except Exception as problem:  # noqa: BLE001 - principle 4: the report always builds
            observed, error = _failed(bench, problem)
    record = Record(
        step=bench.step,
        case=bench.case,
        variant=bench.variant,
        preset=bench.preset.name,
        status=observed.status,
        environment=bench.environment.sha256,
        command=["cpulab", *sys.argv[1:]],
        start=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(start)),
        duration_s=round(time.time() - start, 3),
        observations=observed.observations,
        measurements=observed.measurements,
        artifacts=observed.artifacts,
        error=error,
    )
    records.dump(output, record)
    return record


def _in_force(bench: Bench, look: Callable[[Bench], Observed]) -> Observed:
    if bench.environment.not_in_force:
        raise SettingsNotInForce(bench.environment.not_in_force)
    return look(bench)


def _failed(bench: Bench, problem: Exception) -> tuple[Observed, Failure]:
    bench.reporter.note("".join(traceback.format_exception(problem)))
    status: Status = "refused" if isinstance(problem, BindingRefused | SettingsNotInForce) else "failed"
    message = str(problem) if isinstance(problem, MachineError) else f"{type(problem).__name__}: {problem}"
    return Observed(status=status), Failure(type(problem).__name__, message, bench.log)
