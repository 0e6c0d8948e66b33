"""A forked child may answer, raise, crash, hang or exit: its parent learns which, and goes on."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.minify.forking import Ended, in_child, threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def run(function: Callable[[], dict[str, Any]], folder: Path, timeout_s: float = 20) -> Ended:
    return in_child(function, timeout_s=timeout_s, output=folder / "output.log")


def test_an_answer_larger_than_a_pipe_holds_comes_back_whole(tmp_path: Path) -> None:
    assert run(lambda: {"text": "x" * 300_000}, tmp_path) == Ended("answered", {"text": "x" * 300_000})


def test_an_exception_is_an_answer(tmp_path: Path) -> None:
    def fail() -> dict[str, Any]:
        raise ValueError("no such thing")

    assert run(fail, tmp_path).answer == {"problem": "ValueError: no such thing"}
    assert "Traceback" in (tmp_path / "output.log").read_text()


def test_a_segmentation_fault_kills_the_child_alone(tmp_path: Path) -> None:
    def crash() -> dict[str, Any]:
        faulthandler.disable()  # pytest's own would tell the test run about it
        return {"read": ctypes.string_at(0)}

    assert run(crash, tmp_path) == Ended("died", {}, "SIGSEGV")


def test_a_child_that_hangs_is_ended_in_time_and_leaves_no_zombie(tmp_path: Path) -> None:
    start = time.monotonic()
    found = run(lambda: {"never": threading.Event().wait()}, tmp_path, timeout_s=0.3)
    assert found == Ended("timed_out", {})
    assert time.monotonic() - start < 5
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_child_that_exits_without_an_answer_has_died(tmp_path: Path) -> None:
    def leave() -> dict[str, Any]:
        os._exit(3)

    assert run(leave, tmp_path) == Ended("died", {})


def test_what_a_child_prints_goes_to_its_log_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def talk() -> dict[str, Any]:
        print("from Python")
        os.write(2, b"from C\n")
        return {}

    run(talk, tmp_path)
    run(talk, tmp_path)
    assert (tmp_path / "output.log").read_text().count("from Python") == 2
    assert (tmp_path / "output.log").read_text().count("from C") == 2
    assert capfd.readouterr() == ("", "")


def test_a_child_changes_nothing_in_its_parent(tmp_path: Path) -> None:
    values = [1]

    def change() -> dict[str, Any]:
        values.append(2)
        return {"values": values}

    assert run(change, tmp_path).answer == {"values": [1, 2]}
    assert values == [1]


def test_a_thread_that_a_fork_would_lose_is_named() -> None:
    before = threads()
    ending = threading.Event()
    worker = threading.Thread(target=ending.wait)
    worker.start()
    try:
        assert len(threads()) == len(before) + 1
    finally:
        ending.set()
        worker.join()
