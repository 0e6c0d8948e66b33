"""A record that is not what its writer wrote is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cpulab import records
from cpulab.errors import BadFile, DiskFull, MixedPresets
from cpulab.records import Measurement, ProcessSamples, Record

if TYPE_CHECKING:
    from pathlib import Path


def record(**changes: object) -> Record:
    fields: dict[str, object] = {
        "step": "benchmark",
        "case": "fused_pattern",
        "variant": "default",
        "preset": "smoke",
        "status": "ok",
        "environment": "0" * 64,
        "command": ["cpulab", "benchmark", "fused_pattern"],
        "start": "2026-01-01T00:00:00Z",
        "duration_s": 1.5,
        "observations": {"rows": 16384, "stopped_by": "budget"},
        "measurements": [Measurement("eager", "s", [ProcessSamples([0.2], [0.1, 0.11])])],
    }
    return Record(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_record_survives_writing_and_reading(tmp_path: Path) -> None:
    records.dump(tmp_path / "one.json", record())
    assert records.load(tmp_path / "one.json") == record()


def test_a_record_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    records.dump(path, record())
    path.write_text(path.read_text()[:-40])
    with pytest.raises(BadFile, match="cut short"):
        records.load(path)


def test_a_record_edited_by_hand_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    records.dump(path, record())
    path.write_text(path.read_text().replace("0.11", "0.05"))
    with pytest.raises(BadFile, match="changed after it was written"):
        records.load(path)


def test_a_record_of_another_shape_is_refused_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    records.dump(path, record())
    data = json.loads(path.read_text())
    data["status"] = "fine"
    path.write_text(json.dumps(data))
    with pytest.raises(BadFile, match="status"):
        records.load(path)


def test_a_missing_record_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="not there"):
        records.load(tmp_path / "none.json")


def test_records_of_two_presets_are_never_judged_together(tmp_path: Path) -> None:
    records.dump(tmp_path / "one.json", record())
    records.dump(tmp_path / "two.json", record(case="mobilebert_default", preset="tutorial"))
    with pytest.raises(MixedPresets, match="smoke, tutorial"):
        records.load_all([tmp_path / "one.json", tmp_path / "two.json"])


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.json"
    records.dump(path, record())
    before = path.read_text()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DiskFull, match="Free some space"):
        records.dump(path, record(duration_s=2.0))
    assert path.read_text() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_value_that_json_cannot_hold_is_a_defect_and_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        records.dump(tmp_path / "one.json", record(duration_s=float("nan")))
    assert not (tmp_path / "one.json").exists()


def test_undisturbed_rounds_count_and_all_of_them_where_too_few_are() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    assert ProcessSamples([], values).kept == values
    assert ProcessSamples([], values, disturbed=[0, 1, 2, 5]).kept == [4.0, 5.0]
    assert ProcessSamples([], values, disturbed=[0, 1, 2, 3, 5]).kept == values
