"""The fixture results, as files and loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pages import FIXTURE, Results, record_paths

from cpulab import records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the fixture's results folder."""
    return Path(shutil.copytree(FIXTURE, tmp_path / "results"))


@pytest.fixture
def results(folder: Path) -> Results:
    """Return the fixture, loaded."""
    return Results(
        records.load_data(folder / "verdicts.json", "verdicts"),
        records.load_data(folder / "environment.json", "environment"),
        records.load_all(record_paths(folder)),
        folder,
    )
