"""What several tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def environment() -> Path:
    """The environment record of this checkout; `make setup` writes it."""
    record = PROJECT / "results" / "environment.json"
    assert record.exists(), "run `make setup` first"
    return record
