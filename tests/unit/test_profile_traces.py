"""A chrome trace is checked against the table of the step it belongs to."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from cpulab.profile import traces

DATA = Path(__file__).parents[1] / "data" / "profile"
TRACE = DATA / "compiled_as_published_trace_5.json"


def ops() -> list[dict]:
    return json.loads((DATA / "compiled_as_published_answer.json").read_text())["steps"][0]["ops"]


def packed(tmp_path: Path) -> Path:
    path = tmp_path / "traces" / "trace.json.gz"
    traces.pack(TRACE, path)
    return path


def written(tmp_path: Path, trace: object) -> Path:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    return path


def test_a_packed_trace_holds_every_call_of_its_table(tmp_path: Path) -> None:
    counted = traces.calls(packed(tmp_path))
    assert traces.missing_calls(ops(), counted) == []
    assert counted["mkl::_mkl_linear"] == 32
    assert counted["ProfilerStep*"] == 1


def test_a_packed_trace_differs_from_the_exported_one_by_the_name_of_the_machine_alone(tmp_path: Path) -> None:
    exported = json.loads(TRACE.read_text())
    kept = json.loads(gzip.decompress(packed(tmp_path).read_bytes()))
    assert exported.pop("host_name") != ""
    assert kept.pop("host_name") == ""
    assert kept == exported


def test_packing_leaves_the_time_out_so_that_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    assert packed(tmp_path).read_bytes()[4:8] == bytes(4)


def test_a_call_that_the_trace_lacks_is_named_with_both_counts(tmp_path: Path) -> None:
    rows = [*ops(), {"name": "aten::unheard_of", "calls": 3}]
    counted = traces.calls(packed(tmp_path))
    assert traces.missing_calls(rows, counted) == ["aten::unheard_of: 3 in the table, 0 in the trace"]
    counted["mkl::_mkl_linear"] -= 1
    assert "mkl::_mkl_linear: 32 in the table, 31 in the trace" in traces.missing_calls(rows, counted)


def test_a_trace_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not gzipped JSON"):
        traces.calls(path)


def test_a_trace_that_is_not_gzipped_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(TRACE.read_bytes())
    with pytest.raises(ValueError, match="is not gzipped JSON"):
        traces.calls(path)


@pytest.mark.parametrize("trace", [[], {}, {"traceEvents": []}, {"traceEvents": "none"}])
def test_json_without_events_is_refused(tmp_path: Path, trace: object) -> None:
    with pytest.raises(ValueError, match="no list of trace events"):
        traces.calls(written(tmp_path, trace))


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"name": "aten::add"}, "without phase or name"),
        ({"ph": "X", "ts": 1, "dur": 1}, "without phase or name"),
        ({"ph": "X", "name": "aten::add", "dur": 1, "pid": 1, "tid": 1}, "without a time"),
        ({"ph": "X", "name": "aten::add", "ts": float("nan"), "dur": 1, "pid": 1, "tid": 1}, "without a time"),
        ({"ph": "i", "name": "Record Window End"}, "without a time"),
        ({"ph": "X", "name": "aten::add", "ts": 1, "pid": 1, "tid": 1}, "without duration"),
        ({"ph": "X", "name": "aten::add", "ts": 1, "dur": -1, "pid": 1, "tid": 1}, "without duration"),
        ({"ph": "X", "name": "aten::add", "ts": 1, "dur": 1, "tid": 1}, "of no process or thread"),
        ({"ph": "X", "name": "aten::add", "ts": 1, "dur": 1, "pid": 1, "tid": None}, "of no process or thread"),
        ("aten::add", "without phase or name"),
    ],
)
def test_an_event_that_is_not_well_formed_is_refused(tmp_path: Path, event: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        traces.calls(written(tmp_path, {"traceEvents": [event]}))


def test_metadata_needs_no_time_and_a_process_may_have_a_name(tmp_path: Path) -> None:
    span = {"ph": "X", "name": "PyTorch Profiler (0)", "ts": 1.5, "dur": 0, "pid": "Spans", "tid": "PyTorch Profiler"}
    counted = traces.calls(written(tmp_path, {"traceEvents": [{"ph": "M", "name": "process_name"}, span]}))
    assert counted == {"PyTorch Profiler (0)": 1}


def test_complete_events_of_one_thread_lie_within_each_other_or_apart() -> None:
    """Perfetto draws what overlaps otherwise on no track: it has one stack of slices for each thread."""
    tracks: dict[tuple[object, object], list[tuple[int, int]]] = {}
    for event in json.loads(TRACE.read_text())["traceEvents"]:
        if event["ph"] == "X":
            start = round(1000 * event["ts"])  # whole nanoseconds, which a float of microseconds holds
            tracks.setdefault((event["pid"], event["tid"]), []).append((start, start + round(1000 * event["dur"])))
    assert sum(map(len, tracks.values())) > 100
    for slices in tracks.values():
        open_ends: list[int] = []
        for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)
