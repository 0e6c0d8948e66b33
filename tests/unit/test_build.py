"""The measured environment is built from its lock, or what is wrong is said and nothing half-built stays."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.errors import EnvironmentNotBuilt, EnvironmentNotOfLock, WrongPython
from cpulab.host import build as module
from cpulab.host.build import TORCH_CPU_INDEX, build, differences, is_built, lock_of, pins
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


def install(environment: Path, name: str, version: str) -> None:
    """Put the metadata of a distribution into an environment, as an installer does."""
    folder = environment / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record every command instead of running it; those that hold a word of ``refused`` fail."""
    recorded: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        recorded.append(command)
        asked = Path(command[-1])
        if "venv" in command:
            (asked / "bin").mkdir(parents=True)
            (asked / "bin" / "python").touch()
        text = asked.read_text() if asked.suffix == ".lock" else ""
        failed = any(word in [*command, *text.split("\n")] for word in REFUSED)
        if asked.name in {"cpu.lock", "cpu-default-index.lock"} and not failed:
            for name, version in re.findall(r"^(\w+)==(\w+)", text, flags=re.MULTILINE):
                install(Path(command[0]).parents[1], name, version)
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
    assert lock_of(tmp_path / "environment", lock) == lock.with_name("cpu-default-index.lock")
    assert is_built(tmp_path / "environment", lock)


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


def site(environment: Path) -> Path:
    return environment / "lib" / "python3.11" / "site-packages"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda environment: shutil.rmtree(site(environment) / "other-1.dist-info"), "other is missing"),
        (lambda environment: install(environment, "stray", "7"), "stray 7 is not in the lock"),
        (lambda environment: install(environment, "torch", "3"), "torch 3 is installed, the lock has torch==2"),
        (lambda environment: (environment / "cpulab-lock.sha256").unlink(), "not to the end"),
        (lambda environment: (environment / "bin" / "python").unlink(), "it is not there"),
    ],
)
@pytest.mark.usefixtures("commands")
def test_what_is_installed_is_compared_with_the_lock_package_by_package(
    tmp_path: Path, lock: Path, reporter: Reporter, change: Any, named: str
) -> None:
    environment = tmp_path / "environment"
    build(environment, lock, reporter)
    assert differences(environment, lock) == []
    change(environment)
    [difference] = differences(environment, lock)
    assert named in difference
    build(environment, lock, reporter)
    assert differences(environment, lock) == []
    assert named in reporter.log.read_text()


@pytest.mark.parametrize(("name", "version"), [("torch", "2+cpu"), ("pip", "24.0"), ("setuptools", "65.5.0")])
@pytest.mark.usefixtures("commands")
def test_a_local_version_fits_its_pin_and_what_venv_brings_is_let_be(
    tmp_path: Path, lock: Path, reporter: Reporter, name: str, version: str
) -> None:
    environment = tmp_path / "environment"
    build(environment, lock, reporter)
    shutil.rmtree(site(environment) / f"{name}-2.dist-info", ignore_errors=True)
    install(environment, name, version)
    assert differences(environment, lock) == []


def test_a_pin_for_another_machine_is_not_asked_for(lock: Path) -> None:
    lock.write_text(
        'here==1 ; platform_machine != "none" \\\n    --hash=sha256:aa\nthere==1 ; platform_machine == "none"\n'
    )
    assert list(pins(lock)) == ["here"]


@pytest.mark.usefixtures("commands")
def test_an_environment_that_may_not_be_built_anew_is_kept_and_the_difference_named(
    tmp_path: Path, lock: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    build(environment, lock, reporter)
    lock.write_text(LOCK.replace("torch==2", "torch==4"))
    # Root may write everywhere, so the answer of the kernel for another user.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(EnvironmentNotOfLock, match=r"torch 2 is installed, the lock has torch==4\. .*`make image`"):
        build(environment, lock, reporter)
    assert environment.exists()


@pytest.mark.usefixtures("commands")
def test_of_many_differences_five_are_named_and_the_rest_counted(
    tmp_path: Path, lock: Path, reporter: Reporter
) -> None:
    environment = tmp_path / "environment"
    build(environment, lock, reporter)
    for number in range(9):
        install(environment, f"stray{number}", "1")
    build(environment, lock, reporter)
    assert "stray4 1 is not in the lock; and 4 more" in reporter.log.read_text()


def wheel(folder: Path, name: str, version: str) -> str:
    """Make the smallest wheel there is and return its entry in a lock."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    files = {
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def test_a_real_environment_is_built_with_venv_and_pip_and_built_anew_when_its_lock_changes(
    tmp_path: Path, reporter: Reporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pip.conf of this machine may constrain versions.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    environment, lock = tmp_path / "environment", tmp_path / "cpu.lock"
    other = wheel(tmp_path, "other", "1.0")
    lock.write_text(other + wheel(tmp_path, "torch", "2.0+cpu").replace("+cpu", "", 1))
    python = build(environment, lock, reporter)
    shown = "import importlib.metadata as m; print(m.version('torch'))"
    assert subprocess.run([python, "-c", shown], check=True, capture_output=True, text=True).stdout == "2.0+cpu\n"
    lock.write_text(other + wheel(tmp_path, "torch", "3.0"))
    build(environment, lock, reporter)
    assert subprocess.run([python, "-c", shown], check=True, capture_output=True, text=True).stdout == "3.0\n"
    assert "built anew: it was not built, or not to the end, from this cpu.lock" in reporter.log.read_text()
