"""How a measured process is started: tuned variables and binding first, then exec; or untuned, as a user would."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cpulab.errors import EnvironmentNotBuilt, SettingsNotInForce
from cpulab.host.settings import reasons
from cpulab.paths import LIBRARY
from cpulab.records import digest, load_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A caller's own settings of these families would change what is measured, so a measured process does not inherit them.
FOREIGN_PREFIXES = ("KMP_", "OMP_", "GOMP_", "MKL_", "ONEDNN_", "DNNL_", "TORCH", "PYTORCH", "ATEN_", "AOT_", "PYTHON",
                    "OPENBLAS_", "CPULAB_")  # fmt: skip
FOREIGN_NAMES = frozenset({"LD_PRELOAD", "MALLOC_CONF", "VIRTUAL_ENV", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"})


@dataclass(frozen=True)
class Environment:
    """What the launcher needs of an environment record.

    ``memory_refused``: why the kernel does not bind memory here, and what lifts that; None where it does.
    ``not_in_force``: the settings that its probe did not find in force, with their reasons.
    """

    python: str
    variables: dict[str, str]
    cpus: list[int]
    memory_nodes: list[int]
    sha256: str
    path: Path
    memory_refused: dict[str, str] | None = None
    not_in_force: list[str] = field(default_factory=list)

    @property
    def isa_trials(self) -> Path:
        """Inductor's trials of each instruction set, as a cache that holds nothing else."""
        return isa_trials(self.path)

    @property
    def threads(self) -> int:
        """Threads a parallel region is to use: one a planned CPU."""
        return len(self.cpus)


def isa_trials(record: Path) -> Path:
    """Return where the trials of the instruction sets are kept: beside the environment record.

    The measured environment itself may be read-only, as in a container image.
    """
    return record.parent / "isa-trials"


def load_environment(path: Path) -> Environment:
    """Read an environment record for launching.

    Raises:
        BadFile: the record cannot be trusted.
        EnvironmentNotBuilt: the interpreter it names is gone.

    """
    data = load_data(path, "environment")
    if not Path(data["python"]).exists():
        raise EnvironmentNotBuilt(Path(data["python"]), "its interpreter is gone")
    plan = data["plan"]
    return Environment(
        python=data["python"],
        variables=data["variables"],
        cpus=plan["cpus"],
        memory_nodes=plan["memory_nodes"],
        memory_refused=plan["memory_refused"],
        not_in_force=reasons(data["settings"]),
        sha256=digest(data),
        path=path,
    )


def age_not_in_force(path: Path) -> list[str]:
    """Make an environment record whose settings are not all in force look older than any input; return their reasons.

    The next run of the workflow builds, plans and probes anew then, instead of refusing to measure once more.
    """
    missing = reasons(load_data(path, "environment")["settings"]) if path.exists() else []
    if missing:
        os.utime(path, (0, 0))
    return missing


def measured_variables(environment: Environment, inherited: Mapping[str, str], *, tuned: bool = True) -> dict[str, str]:
    """Return the variables of a measured process: inherited ones less foreign settings, then the tuned ones.

    ``tuned`` False leaves the tuned ones out, as for a user who types ``python bench.py``.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.startswith(FOREIGN_PREFIXES) and name not in FOREIGN_NAMES
    }
    kept |= {"PYTHONPATH": str(LIBRARY), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **environment.variables} if tuned else kept


def exec_measured(environment: Environment, command: Sequence[str], *, tuned: bool = True) -> NoReturn:
    """Bind this process as planned and become ``command``. ``python`` as its first word is the measured interpreter.

    ``tuned`` False starts it without the tuned variables and binds nothing: it may run where this process may.

    Raises:
        BindingRefused: the kernel refuses the CPUs or the memory nodes.
        SettingsNotInForce: the environment's own probe found a setting not in force.

    """
    from cpulab.host import binding

    if tuned:
        if environment.not_in_force:
            raise SettingsNotInForce(environment.not_in_force)
        binding.bind(environment.cpus, environment.memory_nodes if environment.memory_refused is None else None)
    program = environment.python if command[0] == "python" else command[0]
    os.execvpe(program, [program, *command[1:]], measured_variables(environment, os.environ, tuned=tuned))


@dataclass(frozen=True)
class Completed:
    """A measured process that ended; ``timed_out``: by us. ``duration_s`` includes the launcher's start."""

    command: list[str]
    returncode: int
    stdout: str
    stderr: str
    duration_s: float
    timed_out: bool

    @property
    def ending(self) -> str:
        """How it ended, as words that follow its name in a sentence."""
        if self.timed_out:
            return f"was ended after {self.duration_s:.0f} s, its time-out"
        if self.returncode < 0:
            return f"was killed by {signal.Signals(-self.returncode).name} after {self.duration_s:.0f} s"
        return f"ended with exit status {self.returncode} after {self.duration_s:.0f} s"


def run_measured(
    environment: Environment,
    command: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float,
    tuned: bool = True,
    running: set[int] | None = None,
) -> Completed:
    """Run ``command`` under the launcher, tuned or not, and return how it ended, whatever its exit status.

    ``variables`` are set for the command alone (by env(1), after the tuned ones), so that a log shows them. Its process
    tree ends with this call: on the time-out, on Ctrl-C and on any other exception. Its process group is in ``running``
    meanwhile, for a caller whose Ctrl-C reaches another thread than this.
    """
    settings = [f"{name}={value}" for name, value in (variables or {}).items()]
    program = [environment.python if word == "python" and place == 0 else word for place, word in enumerate(command)]
    inner = ["env", *settings, *program] if settings else program
    launch = [sys.executable, "-m", "cpulab", "launch", *([] if tuned else ["--untuned"])]
    full = [*launch, str(environment.path.resolve()), "--", *inner]
    start = time.monotonic()
    timed_out = False
    with subprocess.Popen(
        full, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        groups = running if running is not None else set()
        groups.add(process.pid)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            end_group(process.pid)
            stdout, stderr = process.communicate()
        except BaseException:
            end_group(process.pid)
            raise
        finally:
            groups.discard(process.pid)
    end_group(process.pid)
    return Completed(full, process.returncode, stdout, stderr, time.monotonic() - start, timed_out)


def end_group(group: int) -> None:
    """Kill what is left of a process group; none left is fine."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
