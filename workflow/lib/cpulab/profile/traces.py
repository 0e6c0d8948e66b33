"""What a chrome trace holds, and how it is kept."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_HOST_NAME = re.compile(rb'("host_name": )"[^"]*"')
_STEP = re.compile(r"ProfilerStep#\d+")


def pack(trace: Path, packed: Path) -> None:
    """Write ``trace`` gzipped to ``packed``, without the machine's name, and the same bytes each time."""
    packed.parent.mkdir(parents=True, exist_ok=True)
    with (
        packed.open("wb") as stream,
        gzip.GzipFile(filename="", fileobj=stream, mode="wb", mtime=0) as zipped,
    ):
        zipped.write(_HOST_NAME.sub(rb'\1""', trace.read_bytes()))


def calls(path: Path) -> Counter[str]:
    """Count the complete events of a gzipped trace by name; a step is ``ProfilerStep*``, as in the table.

    What must be there is what Perfetto's importer does not pass over without a word
    (src/trace_processor/importers/json in its source): a time in all but metadata, and of a complete event its
    duration and whose it is.

    Raises:
        ValueError: it is not a trace: cut short, not JSON, or without well-formed events.

    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            trace = json.load(stream)
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path.name} is not gzipped JSON ({error})") from error
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not events:
        raise ValueError(f"{path.name} holds no list of trace events")
    counted: Counter[str] = Counter()
    for event in events:
        if not isinstance(event, dict) or "ph" not in event or not isinstance(event.get("name"), str):
            raise ValueError(f"{path.name} holds an event without phase or name: {event!r:.80}")
        if event["ph"] != "M" and not _is_time(event.get("ts")):
            raise ValueError(f"{path.name} holds an event without a time: {event!r:.80}")
        if event["ph"] == "X":
            if not _is_time(event.get("dur")) or event["dur"] < 0:
                raise ValueError(f"{path.name} holds an event without duration: {event!r:.80}")
            if not all(isinstance(event.get(key), int | str) for key in ("pid", "tid")):
                raise ValueError(f"{path.name} holds an event of no process or thread: {event!r:.80}")
            counted[_STEP.sub("ProfilerStep*", event["name"])] += 1
    return counted


def _is_time(value: Any) -> bool:
    # NaN and Infinity are no JSON, but Python reads them.
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def missing_calls(ops: Iterable[Mapping[str, Any]], counted: Counter[str]) -> list[str]:
    """Name the rows of a table whose calls the trace does not hold, each with both counts."""
    return [
        f"{op['name']}: {op['calls']} in the table, {counted[op['name']]} in the trace"
        for op in ops
        if counted[op["name"]] != op["calls"]
    ]
