"""The measured environment is built from its lock, or what is wrong is said and nothing half-built stays."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.errors import EnvironmentNotBuilt, WrongPython
from cpulab.host import build as module
from cpulab.host.build import TORCH_CPU_INDEX, build, is_built
from cpulab.progress import Reporter

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "other==1 \\\n    --hash=sha256:aa\ntorch==2 \\\n    --hash=sha256:bb\nzlast==3 \\\n    --hash=sha256:cc\n"


@pytest.fixture
def reporter(tmp_path: Path) -> Iterator[Reporter]:
    with Reporter("environment", 1, tmp_path / "log", io.StringIO()) as reporter:
        yield reporter


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.lock"
    path.write_text(LOCK)
    path.with_name("cpu-default-index.lock").write_text(LOCK.replace("bb", "dd"))
    return path


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record every command instead of running it; those that hold a word of ``refused`` fail."""
    recorded: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        recorded.append(command)
        asked = Path(command[-1])
        if "venv" in command:
            asked.mkdir()
        text = asked.read_text() if asked.suffix == ".lock" else ""
        failed = any(word in [*command, *text.split("\n")] for word in REFUSED)
        return subprocess.CompletedProcess(command, int(failed), "", "")

    REFUSED.clear()
    monkeypatch.setattr(module.subprocess, "run", run)
    return recorded


REFUSED: set[str] = set()


def sources(commands: list[list[str]], environment: Path) -> list[str]:
    asked = [command for command in commands if command[-1] == str(environment / "torch.lock")]
    return [TORCH_CPU_INDEX if TORCH_CPU_INDEX in command else "default" for command in asked]


@pytest.mark.usefixtures("commands")
def test_an_environment_counts_as_built_from_this_very_lock_only(
    tmp_path: Path, lock: Path, reporter: Reporter
) -> None:
    environment = tmp_path / "environment"
    assert not is_built(environment, lock)
    build(environment, lock, reporter)
    assert is_built(environment, lock)
    lock.write_text(LOCK + "new==1\n")
    assert not is_built(environment, lock)


def test_torch_is_asked_of_its_cpu_index_once_and_briefly(
    tmp_path: Path, lock: Path, reporter: Reporter, commands: list[list[str]]
) -> None:
    build(tmp_path / "environment", lock, reporter)
    first = next(command for command in commands if TORCH_CPU_INDEX in command)
    assert first[first.index("--retries") + 1] == "0"
    assert int(first[first.index("--timeout") + 1]) <= 5
    assert sources(commands, tmp_path / "environment") == [TORCH_CPU_INDEX]


def test_where_that_index_does_not_answer_the_default_one_is_asked(
    tmp_path: Path, lock: Path, reporter: Reporter, commands: list[list[str]]
) -> None:
    REFUSED.add(TORCH_CPU_INDEX)
    build(tmp_path / "environment", lock, reporter)
    assert sources(commands, tmp_path / "environment") == [TORCH_CPU_INDEX, "default"]
    assert any(command[-1] == str(lock) for command in commands)


def test_where_no_index_has_the_cpu_build_the_default_indexs_own_is_taken(
    tmp_path: Path, lock: Path, reporter: Reporter, commands: list[list[str]]
) -> None:
    REFUSED.update({TORCH_CPU_INDEX, "    --hash=sha256:bb"})
    build(tmp_path / "environment", lock, reporter)
    assert any(command[-1] == str(lock.with_name("cpu-default-index.lock")) for command in commands)


def test_a_failure_leaves_nothing_half_built(
    tmp_path: Path, lock: Path, reporter: Reporter, commands: list[list[str]]
) -> None:
    environment = tmp_path / "environment"
    REFUSED.add("check")
    with pytest.raises(EnvironmentNotBuilt, match=r"pip check"):
        build(environment, lock, reporter)
    assert commands
    assert not environment.exists()


def test_another_version_of_python_is_refused_with_what_to_do(
    tmp_path: Path, lock: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 1))
    with pytest.raises(WrongPython, match=r"for Python 3\.11 and this is Python 3\.13"):
        build(tmp_path / "environment", lock, reporter)
