"""Runs a function in a child forked from this process: it has all that is imported here, and may crash or hang.

A thread does not survive a fork, and OpenMP's threads are waited for: so fork only where no parallel region has run.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

# Set again in the child by jemalloc's own handlers of fork.
_OUTLIVES_FORK = "jemalloc_bg_thd"
_LOOK_AGAIN_S = 0.005


@dataclass(frozen=True)
class Ended:
    """How a child ended: with an answer, without one (``signal``: what killed it), or by us for taking too long."""

    how: Literal["answered", "died", "timed_out"]
    answer: dict[str, Any]
    signal: str | None = None


def threads() -> list[str]:
    """Return the names of this process's other threads that would be lost in a child."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip() if task.name != str(os.getpid()) else _OUTLIVES_FORK)
        except FileNotFoundError:  # it has ended
            continue
    return sorted(name for name in names if name != _OUTLIVES_FORK)


def in_child(function: Callable[[], dict[str, Any]], *, timeout_s: float, output: Path) -> Ended:
    """Run ``function`` in a forked child and return its answer (as JSON has it) or how it ended without one.

    What the child prints is added to ``output``. Where ``function`` raises, the answer is {"problem": what}.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _answer(function, writing, output)
    os.close(writing)
    deadline = time.monotonic() + timeout_s
    try:
        answer = _read(reading, deadline)
        status = _wait(child, deadline) if answer is not None else None
    except BaseException:
        _kill(child)
        raise
    finally:
        os.close(reading)
    if status is None:
        _kill(child)
        return Ended("timed_out", {})
    if os.WIFSIGNALED(status):
        return Ended("died", {}, signal.Signals(os.WTERMSIG(status)).name)
    return Ended("answered", json.loads(answer)) if answer else Ended("died", {})


def _answer(function: Callable[[], dict[str, Any]], writing: int, output: Path) -> NoReturn:
    try:
        log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        try:
            answer = function()
        except Exception as problem:  # noqa: BLE001 - it is the parent's to judge
            traceback.print_exc()
            answer = {"problem": f"{type(problem).__name__}: {problem}"}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)  # nothing of the child may go on with what the parent does


def _read(reading: int, deadline: float) -> bytes | None:
    """Return all that comes until the child closes its end; None where the deadline comes first."""
    received = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reading, 65536)
        if not piece:
            return received
        received += piece


def _wait(child: int, deadline: float) -> int | None:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_AGAIN_S)


def _kill(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        return
