"""Each process has its own cache, which holds the probes of the instruction sets and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cpulab.debug import cache

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def probes(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    for name in ("3g/c3g.so", "locks/c3g.lock"):
        (made / name).parent.mkdir(parents=True)
        (made / name).write_text(name)
    cache.leave(made, tmp_path / "probes")
    return tmp_path / "probes"


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_probes_are_left_whole_without_locks_and_without_a_temporary_folder(probes: Path) -> None:
    assert files(probes) == ["3g/c3g.so"]
    assert sorted(path.name for path in probes.parent.iterdir()) == ["made", "probes"]


def test_a_process_starts_from_the_probes_in_a_folder_of_its_own(probes: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        variables = cache.variables(tmp_path / name, probes)
        assert variables == {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / name)}
        assert files(tmp_path / name) == ["3g/c3g.so"]
        (tmp_path / name / "fxgraph").mkdir()
        (tmp_path / name / "fxgraph" / "graph").write_text("of one process")


def test_a_cache_that_another_process_had_is_refused(probes: Path, tmp_path: Path) -> None:
    cache.variables(tmp_path / "one", probes)
    with pytest.raises(FileExistsError):
        cache.variables(tmp_path / "one", probes)


def test_without_probes_a_process_starts_from_nothing(tmp_path: Path) -> None:
    assert cache.variables(tmp_path / "one", tmp_path / "probes") == {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "one")}
    assert not (tmp_path / "one").exists()
