"""Builds the measured environment from its lock, or finds it built and checks it package by package."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cpulab.errors import EnvironmentNotBuilt, EnvironmentNotOfLock, WrongPython
from cpulab.files import sha256, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from packaging.specifiers import SpecifierSet

    from cpulab.progress import Reporter

# PyTorch's own index of CPU builds: the default index has a CUDA build of several GB for x86-64.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
REACH_TIMEOUT_S = 5

# The CPU build of torch in the lock is a file for this version alone.
LOCKED_PYTHON = (3, 11)

# What the venv module itself installs.
OF_VENV = frozenset({"pip", "setuptools"})

BUILD_S = 150
NAMED = 5


def stamp(environment: Path) -> Path:
    """Return the file that is written last: it holds the sha256 of the lock the environment was built from."""
    return environment / "cpulab-lock.sha256"


def default_index_lock(lock: Path) -> Path:
    """Return the lock beside ``lock`` that has the default index's own build of torch."""
    return lock.with_name("cpu-default-index.lock")


def lock_of(environment: Path, lock: Path) -> Path | None:
    """Return which lock ``environment`` was built from, to the end: ``lock``, the default index's, or None: neither."""
    if not stamp(environment).is_file():
        return None
    built_from = stamp(environment).read_text().strip()
    return next((one for one in (lock, default_index_lock(lock)) if one.is_file() and sha256(one) == built_from), None)


def pins(lock: Path) -> dict[str, SpecifierSet]:
    """Return the version that a lock asks for of each package that this machine needs of it, by normalized name."""
    lines = [line.rstrip(" \\") for line in lock.read_text().splitlines() if line[:1].isalnum()]
    wanted = map(Requirement, lines)
    return {canonicalize_name(one.name): one.specifier for one in wanted if one.marker is None or one.marker.evaluate()}


def installed(environment: Path) -> list[tuple[str, str]]:
    """Return normalized name and version of every distribution in a virtual environment, sorted."""
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    found = importlib.metadata.distributions(path=folders)
    return sorted((canonicalize_name(one.metadata["Name"]), one.version) for one in found)


def differences(environment: Path, lock: Path) -> list[str]:
    """Return in what ``environment`` is not what ``lock`` (or the default index's beside it) says; empty: in nothing.

    A version with a local part, such as 2.13.0+cpu, fits the pin without it (PEP 440).
    """
    if not (environment / "bin" / "python").exists():
        return ["it is not there"]
    built_from = lock_of(environment, lock)
    wanted, found = pins(built_from or lock), installed(environment)
    named = [] if built_from else [f"it was not built, or not to the end, from this {lock.name}"]
    for name, version in found:
        if name not in wanted:
            if name not in OF_VENV:
                named.append(f"{name} {version} is not in the lock")
        elif not wanted[name].contains(version, prereleases=True):
            named.append(f"{name} {version} is installed, the lock has {name}{wanted[name]}")
    named += [f"{name} is missing" for name in sorted(wanted.keys() - dict(found).keys())]
    return named


def is_built(environment: Path, lock: Path) -> bool:
    """Tell whether ``environment`` was built, to the end, from this very ``lock``, and holds just what it names."""
    return not differences(environment, lock)


def build(environment: Path, lock: Path, reporter: Reporter) -> Path:
    """Make ``environment`` hold exactly the packages of ``lock`` and return its interpreter.

    One that is there is checked, package by package, and built anew where it differs.

    torch is asked of PyTorch's CPU index first, once and briefly, then of the default index. Where neither has the CPU
    build, the default index's own build is taken, with ``cpu-default-index.lock`` beside ``lock``. The locks' hashes
    decide what is accepted from any index.

    Raises:
        WrongPython: the lock is for another version of Python.
        EnvironmentNotBuilt: venv or pip failed; what was half-built is deleted.
        EnvironmentNotOfLock: the one that is there differs, and this user may not write there, as in an image.

    """
    python = environment / "bin" / "python"
    different = differences(environment, lock)
    if not different:
        reporter.note(f"{environment} holds what {lock} names")
        return python
    if environment.exists():
        what = _few(different)
        if not (os.access(environment, os.W_OK) and os.access(environment.parent, os.W_OK)):
            raise EnvironmentNotOfLock(environment, lock.name, what)
        reporter.stage(f"{environment.name} is built anew: {what}")
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
        write_whole(stamp(environment), sha256(chosen) + "\n")
    except BaseException:
        shutil.rmtree(environment, ignore_errors=True)
        raise
    return python


def _few(named: list[str]) -> str:
    more = [f"and {len(named) - NAMED} more"] if len(named) > NAMED else []
    return "; ".join([*named[:NAMED], *more])


def _install_torch(pip: list[str], environment: Path, lock: Path, reporter: Reporter) -> Path:
    """Install torch alone from the first source that has it, and return the lock that fits it."""
    once = ["--retries", "0", "--timeout", str(REACH_TIMEOUT_S), "--index-url", TORCH_CPU_INDEX]
    sources = [
        ("PyTorch's CPU index", lock, once),
        ("the default index", lock, []),
        ("the default index, CUDA build", default_index_lock(lock), []),
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
