"""The user's choices: the configuration and its preset, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cpulab.errors import BadConfig, BadCores, NoCase, NoCaseFile, SameCase, UnknownPreset
from cpulab.paths import PRESETS
from cpulab.records import schema_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class ModelSize:
    """Size of the model and its input; ``layers`` None keeps the model's own number."""

    layers: int | None
    batch: int
    sequence_length: int


@dataclass(frozen=True)
class Sampling:
    """How one benchmark samples; see workflow/schemas/preset.schema.json for each field."""

    budget_s: float
    min_processes: int
    max_processes: int
    warmup: int
    rounds: int
    half_width: float


@dataclass(frozen=True)
class Roofline:
    """How each case of the roofline step samples."""

    machine: Sampling
    pattern: Sampling
    linear: Sampling


@dataclass(frozen=True)
class Profiling:
    """How one profile is taken: profiled steps, and the time-out in seconds."""

    active: int
    timeout_s: float


@dataclass(frozen=True)
class Minifying:
    """How the minifier tests its candidates, and the time-out of each of its runs in seconds."""

    isolate: bool
    timeout_s: float


@dataclass(frozen=True)
class Preset:
    """Sizes and budgets of one run."""

    name: str
    description: str
    model: ModelSize
    benchmark: Sampling
    pattern: Sampling
    tuning: Sampling
    pattern_tuning: Sampling
    profile: Profiling
    roofline: Roofline
    minify: Minifying


def known_presets() -> list[str]:
    """Return the names of the presets in config/presets."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def load_preset(name: str) -> Preset:
    """Read and check config/presets/``name``.yaml.

    Raises:
        UnknownPreset: there is no such file.
        BadConfig: it does not fit its schema.

    """
    if name not in known_presets():
        raise UnknownPreset(name, known_presets())
    where = f"config/presets/{name}.yaml"
    try:
        data = yaml.safe_load((PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise BadConfig(where, " ".join(str(error).split())) from error
    problem = schema_problem("preset", data)
    if problem is not None:
        raise BadConfig(f"{where}, {problem[0]}", problem[1])
    return Preset(
        name=name,
        description=data["description"],
        model=ModelSize(**data["model"]),
        benchmark=Sampling(**data["benchmark"]),
        pattern=Sampling(**data["pattern"]),
        tuning=Sampling(**data["tuning"]),
        pattern_tuning=Sampling(**data["pattern_tuning"]),
        profile=Profiling(**data["profile"]),
        roofline=Roofline(**{case: Sampling(**sampling) for case, sampling in data["roofline"].items()}),
        minify=Minifying(**data["minify"]),
    )


def case_slug(case: str) -> str:
    """Return the name of the record of ``case`` (``path/to/file.py:function``); a function called as its file is once.

    Raises:
        NoCase: no function is named.

    """
    path, _, function = case.rpartition(":")
    if not path or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", function):
        raise NoCase(case)
    words = [re.sub(r"[^a-z0-9]+", "_", word.lower()).strip("_") for word in (Path(path).stem, function)]
    # A name of other letters than ASCII's leaves nothing of itself.
    return "_".join(dict.fromkeys(word for word in words if word)) or f"case_{sha256(case.encode()).hexdigest()[:8]}"


def case_target(case: str) -> dict[str, str]:
    """Return ``case`` as the target of the explain step: ``{file, function}``, the file by its absolute path.

    Raises:
        NoCase: no function is named.
        NoCaseFile: there is no such file.

    """
    case_slug(case)
    path, _, function = case.rpartition(":")
    if not Path(path).is_file():
        raise NoCaseFile(case)
    return {"file": str(Path(path).resolve()), "function": function}


def case_slugs(cases: Sequence[str]) -> dict[str, str]:
    """Return the cases by the names of their records.

    Raises:
        NoCase, NoCaseFile: as `case_target`.
        SameCase: a case stands there twice, or would leave the record of another.

    """
    found: dict[str, str] = {}
    for case in cases:
        case_target(case)
        slug = case_slug(case)
        if slug in found:
            raise SameCase(case, found[slug], f"explain/{slug}")
        found[slug] = case
    return found


def check(config: Mapping[str, Any]) -> Preset:
    """Check a whole configuration (config.yaml and what the command line changed) and return its preset.

    Raises:
        BadConfig: an unknown key, a missing one, or a value of the wrong type.
        UnknownPreset: no such preset.
        NoCase, NoCaseFile, SameCase: one of the user's own cases cannot be found, or be told from another.

    """
    problem = schema_problem("config", dict(config))
    if problem is not None:
        raise BadConfig(*problem)
    case_slugs(config.get("cases", []))
    return load_preset(config["preset"])


def check_cores(cores: int | None) -> None:
    """Refuse a number of cores that no job can run on; None (a dry look at the workflow) is fine.

    Raises:
        BadCores: ``cores`` is smaller than 1.

    """
    if cores is not None and cores < 1:
        raise BadCores(cores)
