"""Builds the measured environment from its lock, or finds it built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from cpulab.errors import EnvironmentNotBuilt, WrongPython
from cpulab.files import sha256, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from cpulab.progress import Reporter

# PyTorch's own index of CPU builds: the default index has a CUDA build of several GB for x86-64.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
REACH_TIMEOUT_S = 5

# The CPU build of torch in the lock is a file for this version alone.
LOCKED_PYTHON = (3, 11)


def stamp(environment: Path) -> Path:
    """Return the file that is written last: it holds the sha256 of the lock the environment was built from."""
    return environment / "cpulab-lock.sha256"


def is_built(environment: Path, lock: Path) -> bool:
    """Tell whether ``environment`` was built, to the end, from this very ``lock``."""
    return stamp(environment).is_file() and stamp(environment).read_text().strip() == sha256(lock)


def build(environment: Path, lock: Path, reporter: Reporter) -> Path:
    """Make ``environment`` hold exactly the packages of ``lock`` and return its interpreter.

    torch is asked of PyTorch's CPU index first, once and briefly, then of the default index. Where neither has the CPU
    build, the default index's own build is taken, with ``cpu-default-index.lock`` beside ``lock``. The locks' hashes
    decide what is accepted from any index.

    Raises:
        WrongPython: the lock is for another version of Python.
        EnvironmentNotBuilt: venv or pip failed; what was half-built is deleted.

    """
    python = environment / "bin" / "python"
    if is_built(environment, lock) and python.exists():
        reporter.note(f"{environment} is built from {lock}")
        return python
    if sys.version_info[:2] != LOCKED_PYTHON:
        wanted, found = (".".join(map(str, version[:2])) for version in (LOCKED_PYTHON, sys.version_info))
        raise WrongPython(lock.name, wanted, found)
    shutil.rmtree(environment, ignore_errors=True)
    try:
        reporter.stage(f"making {environment.name}")
        _run([sys.executable, "-m", "venv", str(environment)], environment, reporter)
        pip = [str(python), "-m", "pip", "install", "--require-hashes", "--no-deps", "--disable-pip-version-check"]
        chosen = _install_torch(pip, environment, lock, reporter)
        reporter.stage(f"installing the packages of {chosen.name}")
        _run([*pip, "-r", str(chosen)], environment, reporter)
        _run([str(python), "-m", "pip", "check"], environment, reporter)
        write_whole(stamp(environment), sha256(lock) + "\n")
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    return python


def _install_torch(pip: list[str], environment: Path, lock: Path, reporter: Reporter) -> Path:
    """Install torch alone from the first source that has it, and return the lock that fits it."""
    once = ["--retries", "0", "--timeout", str(REACH_TIMEOUT_S), "--index-url", TORCH_CPU_INDEX]
    sources = [
        ("PyTorch's CPU index", lock, once),
        ("the default index", lock, []),
        ("the default index, CUDA build", lock.with_name("cpu-default-index.lock"), []),
    ]
    wanted = environment / "torch.lock"
    for name, source, options in sources:
        reporter.stage(f"installing torch from {name}")
        wanted.write_text(_entry(source, "torch"))
        if _status([*pip, *options, "-r", str(wanted)], reporter) == 0:
            return source
    raise EnvironmentNotBuilt(environment, f"no index has the torch of {lock}, see {reporter.log}")


def _entry(lock: Path, package: str) -> str:
    """Return the lock's entry of one package: its line and the hash lines below it."""
    lines = lock.read_text().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"{package}=="))
    end = start + 1
    while end < len(lines) and lines[end].startswith(" "):
        end += 1
    return "\n".join(lines[start:end]) + "\n"


def _status(command: list[str], reporter: Reporter) -> int:
    variables = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=variables)
    reporter.note(f"$ {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.returncode


def _run(command: list[str], environment: Path, reporter: Reporter) -> None:
    if _status(command, reporter) != 0:
        raise EnvironmentNotBuilt(environment, f"`{' '.join(command[1:4])}` failed, see {reporter.log}")
