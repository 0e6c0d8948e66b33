"""What a tutorial claims: the claims file, and the only code that loads and checks one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from cpulab.errors import BadClaims
from cpulab.records import schema_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from cpulab.records import Scalar

# The role that is the environment record in every claim.
ENVIRONMENT = "environment"

# Parameters that name an observation or a measurement by its role: role.name.
_REFERENCES = frozenset({"of", "time", "settings", "numerator", "denominator", "placebo", "between"})

# Parameters whose keys are the tutorial's own names.
_LITERAL = frozenset({"published", "properties"})


@dataclass(frozen=True)
class Claim:
    """One claim; workflow/schemas/claims.schema.json describes each field.

    ``evidence`` and ``today`` map a role to a record's name; ``parameters`` are the rule's own (``with`` in the file).
    """

    id: str
    section: str
    statement: str
    published: Mapping[str, Any]
    evidence: Mapping[str, str]
    today: Mapping[str, str] | None
    rule: str
    parameters: Mapping[str, Any]
    conditions: Mapping[str, Scalar]
    needs: list[str]
    requires: list[dict[str, Any]]
    drift: list[dict[str, Any]]
    artifacts: list[str]
    note: str | None


@dataclass(frozen=True)
class Claims:
    """A claims file: the tutorial, what it ran on, and its claims in its order."""

    title: str
    url: str
    versions: dict[str, str]
    machine: str
    claims: list[Claim]


def load(path: Path) -> Claims:
    """Read and check a claims file.

    Raises:
        BadClaims: it is missing, is not YAML, does not fit its schema, has an id twice, or names an unknown role.

    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BadClaims(path, "its path", "there is no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadClaims(path, "its syntax", " ".join(str(error).split())) from error
    problem = schema_problem("claims", data)
    if problem is not None:
        raise BadClaims(path, _named(problem[0], data), problem[1])
    seen: set[str] = set()
    for entry in data["claims"]:
        if entry["id"] in seen:
            raise BadClaims(path, f"claim {entry['id']}", "another claim has the same id")
        seen.add(entry["id"])
        found = _inconsistency(entry)
        if found is not None:
            raise BadClaims(path, f"claim {entry['id']}", found)
    return Claims(
        data["title"], data["url"], data["versions"], data["machine"], [_claim(one) for one in data["claims"]]
    )


def roles(parameters: Mapping[str, Any]) -> set[str]:
    """Return the roles that a claim's parameters refer to."""
    return {value.partition(".")[0] for key, value in _parameters(parameters) if key in _REFERENCES}


def _claim(entry: Mapping[str, Any]) -> Claim:
    return Claim(
        id=entry["id"],
        section=entry["section"],
        statement=entry["statement"],
        published=entry["published"],
        evidence=entry["evidence"],
        today=entry.get("today"),
        rule=entry["rule"],
        parameters=entry["with"],
        conditions=entry.get("conditions", {}),
        needs=entry.get("needs", []),
        requires=entry.get("requires", []),
        drift=entry.get("drift", []),
        artifacts=entry.get("artifacts", []),
        note=entry.get("note"),
    )


def _named(where: str, data: Any) -> str:
    """Return the place of a schema problem with the claim's id in the place of its number."""
    match = re.fullmatch(r"claims\.(\d+)(?:\.(.+))?", where)
    if match is None:
        return where
    entry = data["claims"][int(match[1])]
    identity = entry.get("id") if isinstance(entry, dict) else None
    name = f"claim {identity}" if identity is not None else f"the claim in place {int(match[1]) + 1}"
    return f"{name}, {match[2]}" if match[2] else name


def _inconsistency(entry: Mapping[str, Any]) -> str | None:
    """Return what the schema cannot see: roles without a record, and regular expressions that are none."""
    held = set(entry["evidence"])
    if ENVIRONMENT in held:
        return f"the role {ENVIRONMENT!r} is the environment record and takes no other"
    if "today" in entry and set(entry["today"]) != held:
        return "`today` has other roles than `evidence`"
    if "today" not in entry and any(one.get("variant") == "today" for one in entry.get("drift", [])):
        return "`drift` looks at today's records, and there is no `today`"
    for key, value in _parameters([entry["with"], entry.get("requires", []), entry.get("drift", [])]):
        role = value.partition(".")[0]
        if key in _REFERENCES and role not in held | {ENVIRONMENT}:
            return f"{value!r} names the role {role!r}, which `evidence` does not have"
        if key not in _REFERENCES:
            try:
                re.compile(value)
            except re.error as error:
                return f"{value!r} is not a regular expression ({error})"
    return None


def _parameters(value: Any) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of every reference and every regular expression in a claim's parameters, however deep."""
    if isinstance(value, list):
        for item in value:
            yield from _parameters(item)
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "rows":
                yield from (("rows", wanted) for wanted in item.values() if isinstance(wanted, str))
            elif isinstance(item, str) and key in _REFERENCES | {"matches", "every", "leave_out"}:
                yield key, item
            elif key not in _LITERAL:
                yield from _parameters(item)
