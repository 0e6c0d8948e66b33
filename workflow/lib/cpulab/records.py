"""What a step observed: the record, and the only code that loads, checks and dumps one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import jsonschema

from cpulab.errors import BadFile, MixedPresets
from cpulab.files import sha256, write_whole
from cpulab.paths import SCHEMAS

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION = 1

Scalar = bool | int | float | str | None
# Sequence, not list: a list of strings is one of scalars too.
Observation = Scalar | Sequence[Scalar] | Sequence[Mapping[str, Any]]
Status = Literal["ok", "expected_failure", "failed", "refused"]


@dataclass(frozen=True)
class ProcessSamples:
    """Samples of one process, in the order taken; ``warmup`` is apart and never judged.

    ``disturbed``: the rounds, from 0, in which something else was seen to use the machine (`cpulab.measure.watch`). All
    arms of a process have the same, so that what is left of them still stands in pairs.
    """

    warmup: list[float]
    values: list[float]
    disturbed: list[int] = field(default_factory=list)

    @property
    def kept(self) -> list[float]:
        """The samples that count: those of undisturbed rounds, or all where too few rounds are undisturbed.

        A round is marked by what the kernel and a sentinel say, never by its own times, so that leaving it out favours
        no arm. From fewer than a third of the rounds a process would be known worse than from all of them.
        """
        disturbed = frozenset(self.disturbed)
        undisturbed = [value for number, value in enumerate(self.values) if number not in disturbed]
        return undisturbed if 3 * len(undisturbed) >= len(self.values) else self.values


@dataclass(frozen=True)
class Measurement:
    """One arm: raw samples of every process, in base units (s, byte, flop, count)."""

    name: str
    unit: str
    processes: list[ProcessSamples]

    @property
    def kept(self) -> list[list[float]]:
        """The samples that count, process by process."""
        return [process.kept for process in self.processes]


@dataclass(frozen=True)
class Artifact:
    """A file the step kept; ``path`` is relative to the results folder."""

    kind: str
    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class Failure:
    """Why a step failed or was refused; ``log`` is relative to the results folder."""

    type: str
    message: str
    log: str


@dataclass(frozen=True)
class Record:
    """One case of one step, as observed. Nothing in it is averaged, dropped or judged."""

    step: str
    case: str
    variant: str
    preset: str
    status: Status
    environment: str
    command: list[str]
    start: str
    duration_s: float
    observations: dict[str, Observation] = field(default_factory=dict)
    measurements: list[Measurement] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    error: Failure | None = None
    schema_version: int = SCHEMA_VERSION

    @property
    def name(self) -> str:
        """The name claims use: ``step/case``."""
        return f"{self.step}/{self.case}"

    def measurement(self, name: str) -> Measurement | None:
        """Return the arm called ``name``, or None."""
        return next((one for one in self.measurements if one.name == name), None)


@cache
def validator(schema: str) -> Any:
    """Return the validator of ``workflow/schemas/<schema>.schema.json``."""
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{schema}.schema.json").read_text()))


def schema_problem(schema: str, data: object) -> tuple[str, str] | None:
    """Return (where, what) of the problem that says most about ``data``, or None when it fits the schema."""
    error = jsonschema.exceptions.best_match(validator(schema).iter_errors(data))
    if error is None:
        return None
    return ".".join(str(part) for part in error.absolute_path) or "its top level", error.message


def digest(data: Mapping[str, Any]) -> str:
    """Return the sha256 of ``data`` as canonical JSON, its own key ``digest`` left out."""
    body = {key: value for key, value in data.items() if key != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def dump_data(path: Path, schema: str, data: dict[str, Any]) -> None:
    """Write ``data`` with its digest, whole, after checking it against its schema.

    Raises:
        ValueError: the writer's own data does not fit the schema: a defect of the suite.
        DiskFull: no space is left.

    """
    sealed = {**data, "digest": digest(data)}
    problem = schema_problem(schema, sealed)
    if problem is not None:
        raise ValueError(f"{path}: {problem[0]}: {problem[1]}")
    write_whole(path, json.dumps(sealed, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def load_data(path: Path, schema: str) -> dict[str, Any]:
    """Read a file written by `dump_data`.

    Raises:
        BadFile: it is missing, cut short, does not fit its schema, or was changed after it was written.

    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadFile(path, "it is not there") from error
    except (ValueError, UnicodeDecodeError) as error:
        raise BadFile(path, f"it is cut short or is not JSON ({error})") from error
    problem = schema_problem(schema, data)
    if problem is not None:
        raise BadFile(path, f"{problem[0]}: {problem[1]}")
    if data["digest"] != digest(data):
        raise BadFile(path, "its digest does not fit its content, so it was changed after it was written")
    del data["digest"]
    return dict(data)


def dump(path: Path, record: Record) -> None:
    """Write one record. Raises as `dump_data`."""
    dump_data(path, "record", asdict(record))


def load(path: Path) -> Record:
    """Read one record. Raises `BadFile` as `load_data`."""
    data = load_data(path, "record")
    error = data.pop("error")
    return Record(
        **{key: value for key, value in data.items() if key not in {"measurements", "artifacts"}},
        measurements=[
            Measurement(one["name"], one["unit"], [ProcessSamples(**samples) for samples in one["processes"]])
            for one in data["measurements"]
        ],
        artifacts=[Artifact(**one) for one in data["artifacts"]],
        error=Failure(**error) if error else None,
    )


def load_all(paths: Iterable[Path]) -> dict[str, Record]:
    """Read records of one run, by name (``step/case``).

    Raises:
        BadFile: a record cannot be trusted.
        MixedPresets: they come from more than one preset.

    """
    records = {record.name: record for record in map(load, paths)}
    presets = {record.preset for record in records.values()}
    if len(presets) > 1:
        raise MixedPresets(presets)
    return records


def age_failed(paths: Iterable[Path]) -> list[str]:
    """Make the records of failed and refused steps look older than any input, and return their names.

    A failure is often the machine's of that day, so the next run of the workflow tries those steps again.
    """
    aged = []
    for path in paths:
        if path.exists() and (record := load(path)).error is not None:
            os.utime(path, (0, 0))
            aged.append(record.name)
    return aged


def artifact(kind: str, path: Path, results: Path) -> Artifact:
    """Describe a kept file by its path relative to ``results``, its sha256 and its size in bytes."""
    return Artifact(kind, path.resolve().relative_to(results.resolve()).as_posix(), sha256(path), path.stat().st_size)
