"""Compiled probes may be shared between cases; graphs never are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cpulab.debug import cache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def used(tmp_path: Path) -> Path:
    folder = tmp_path / "case" / "cache"
    for name in ("3g/c3g.so", "fxgraph/4i/graph", "aotautograd/at/graph", "locks/c3g.lock"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_process_gets_the_folder_without_its_graphs(used: Path) -> None:
    assert cache.variables(used) == {"TORCHINDUCTOR_CACHE_DIR": str(used)}
    assert files(used) == ["3g/c3g.so", "locks/c3g.lock"]


def test_the_next_case_starts_from_compiled_files_alone(used: Path, tmp_path: Path) -> None:
    cache.leave(used, tmp_path / "compiled")
    cache.start_from(tmp_path / "compiled", tmp_path / "next")
    assert files(tmp_path / "next") == ["3g/c3g.so"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case", "compiled", "next"]


def test_what_an_earlier_case_left_is_not_written_over(used: Path, tmp_path: Path) -> None:
    cache.leave(used, tmp_path / "compiled")
    (used / "3g/c3g.so").write_text("cut sho")
    cache.leave(used, tmp_path / "compiled")
    assert (tmp_path / "compiled/3g/c3g.so").read_text() == "3g/c3g.so"


def test_the_first_case_starts_from_nothing(tmp_path: Path) -> None:
    cache.start_from(tmp_path / "compiled", tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
