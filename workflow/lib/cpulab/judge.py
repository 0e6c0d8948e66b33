"""From claims and records to verdicts. Pure: the same files always give the same verdicts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from cpulab import claims as claims_file
from cpulab import records as records_file
from cpulab.claims import ENVIRONMENT
from cpulab.errors import OtherEnvironment
from cpulab.rules import RULES, Evidence, Finding, Unanswerable, fits, same, sentence, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from cpulab.claims import Claim, Claims
    from cpulab.records import Record, Scalar
    from cpulab.rules import State

SCHEMA_VERSION = 1

# Statuses of a record that observed what it was to observe.
OBSERVED = frozenset({"ok", "expected_failure"})

# The condition that is looked up in the environment's CPU and not in the records.
MACHINE = "machine"


@dataclass(frozen=True)
class Today:
    """The verdict on today's default."""

    state: State
    measured: Scalar
    low: float | None
    high: float | None
    reason: str
    evidence: list[str]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim; workflow/schemas/verdicts.schema.json describes each field."""

    id: str
    section: str
    statement: str
    state: State
    published: dict[str, Any]
    measured: Scalar
    low: float | None
    high: float | None
    unit: str | None
    reason: str
    evidence: list[str]
    marks: list[str]
    drift: str | None
    note: str | None
    today: Today | None


def judge(claims: Claims, records: Mapping[str, Record], environment: Mapping[str, Any]) -> list[Verdict]:
    """Judge every claim, in the order of the tutorial.

    ``records``: by name (``step/case``); what is missing blocks its claims. ``environment``: the environment record.
    """
    return [_verdict(claim, records, environment) for claim in claims.claims]


def _verdict(claim: Claim, records: Mapping[str, Record], environment: Mapping[str, Any]) -> Verdict:
    published = _finding(claim, claim.evidence, records, environment)
    today = None
    if claim.today is not None:
        found = _finding(claim, claim.today, records, environment)
        links = _links(claim, claim.today, records)
        today = Today(found.state, found.measured, found.low, found.high, found.reason, links)
    return Verdict(
        id=claim.id,
        section=claim.section,
        statement=claim.statement,
        state=published.state,
        published=_published(claim),
        measured=published.measured,
        low=published.low,
        high=published.high,
        unit=claim.published["unit"],
        reason=published.reason,
        evidence=_links(claim, claim.evidence, records),
        marks=_marks(claim, environment),
        drift=_drift(claim, records, environment),
        note=claim.note,
        today=today,
    )


def _published(claim: Claim) -> dict[str, Any]:
    """Return what was published; where the claim is about a table of counts, with them, and why they may differ."""
    if claim.rule != "counts":
        return dict(claim.published)
    counts = {"counts": claim.parameters["published"], "causes": claim.parameters["causes"]}
    return {**claim.published, **counts, "conditions": claim.conditions}


def _finding(
    claim: Claim, roles: Mapping[str, str], records: Mapping[str, Record], environment: Mapping[str, Any]
) -> Finding:
    """Judge one variant: are there records, what does the rule say, can it be judged on them, does it count here."""
    try:
        evidence = _evidence(roles, records, environment)
        finding = RULES[claim.rule](claim, evidence)
        for check in claim.requires:
            value = evidence.select(check)
            if not fits(check, value):
                reason = sentence(f"does not hold: {check['words']} (found: {shown(value)})")
                return replace(finding, state=check["otherwise"], reason=reason)
        return _under_conditions(claim, finding, evidence)
    except Unanswerable as answer:
        return answer.finding


def _evidence(roles: Mapping[str, str], records: Mapping[str, Record], environment: Mapping[str, Any]) -> Evidence:
    for name in roles.values():
        record = records.get(name)
        if record is None:
            raise Unanswerable("blocked", f"There is no record {name}.")
        if record.status not in OBSERVED:
            told = (
                f"{record.error.message.rstrip('.')} (log: {record.error.log})"
                if record.error
                else "no error was recorded"
            )
            raise Unanswerable("blocked", f"The step {name} {record.status.replace('refused', 'was refused')}: {told}.")
    return Evidence({role: records[name] for role, name in roles.items()}, environment)


def _under_conditions(claim: Claim, finding: Finding, evidence: Evidence) -> Finding:
    """Return ``finding`` as it counts here: its state gives way where the claim was published under others."""
    unmet = [
        clause
        for name, wanted in claim.conditions.items()
        if name != MACHINE
        for clause in _unmet(name, wanted, evidence)
    ]
    machine = claim.conditions.get(MACHINE)
    cpu = cpu_model(evidence.environment)
    if machine is not None and str(machine) not in (cpu or ""):
        clauses = [f"comparable on {machine} only, and this is {cpu or 'an unknown CPU'}", *unmet]
        return replace(finding, state="not_applicable", reason=_but(clauses, finding))
    if unmet:
        return replace(finding, state="inconclusive", reason=_but(unmet, finding))
    return finding


def _but(clauses: list[str], finding: Finding) -> str:
    return sentence(", ".join(clauses), f"here: {finding.reason.rstrip('.')}")


def _unmet(name: str, wanted: Scalar, evidence: Evidence) -> list[str]:
    """Return how the records differ from a condition; empty where they meet it.

    Raises:
        Unanswerable: no record says under what it was observed.

    """
    found = [record.observations[name] for record in evidence.records.values() if name in record.observations]
    if not found:
        raise Unanswerable(
            "blocked", f"No record of {', '.join(r.name for r in evidence.records.values())} holds {name!r}."
        )
    words = name.replace("_", " ")
    others = dict.fromkeys(shown(value) for value in found if not same(value, wanted))
    return [f"{words} {value} instead of the published {shown(wanted)}" for value in others]


def _links(claim: Claim, roles: Mapping[str, str], records: Mapping[str, Record]) -> list[str]:
    """Return the records' names, ``environment`` where it is looked at, and artefacts of the kinds the claim names."""
    names = list(dict.fromkeys(roles.values()))
    kept = [artifact for name in names if name in records for artifact in records[name].artifacts]
    used = [ENVIRONMENT] if ENVIRONMENT in claims_file.roles(claim.parameters) else []
    return names + used + [artifact.path for artifact in kept if artifact.kind in claim.artifacts]


def _marks(claim: Claim, environment: Mapping[str, Any]) -> list[str]:
    """Return what the claim needs and this machine cannot do."""
    return [
        f"{row['name']} is not possible on this machine: {row['reason']}."
        for row in environment.get("settings", [])
        if row.get("name") in claim.needs and row["state"] == "impossible"
    ]


def _drift(claim: Claim, records: Mapping[str, Record], environment: Mapping[str, Any]) -> str | None:
    """Return what changed since publication, as far as the records show it."""
    told = []
    for drift in claim.drift:
        roles = claim.today if drift.get("variant") == "today" else claim.evidence
        try:
            evidence = _evidence(roles or {}, records, environment)
            if fits(drift["when"], evidence.select(drift["when"])):
                told.append(drift["text"])
        except Unanswerable:
            continue  # what blocked it is the verdict's reason
    return " ".join(told) or None


def cpu_model(environment: Mapping[str, Any]) -> str | None:
    """Return the CPU's name, or None where the environment record does not hold one."""
    model = environment.get("host", {}).get("cpu_model", {}).get("value")
    return str(model) if model else None


def summary(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return of an environment record what a reader of the verdicts needs, without any path of the machine."""
    plan = environment["plan"]
    return {
        "digest": records_file.digest(environment),
        "cpu_model": cpu_model(environment),
        "threads": len(plan["cpus"]),
        "cpus": plan["cpus"],
        "memory_nodes": plan["memory_nodes"] if plan["memory_refused"] is None else None,
        "variables": {name: _without_folders(value) for name, value in environment["variables"].items()},
        "settings": environment.get("settings", []),
    }


def _without_folders(value: str) -> str:
    """Return a list of paths, as LD_PRELOAD is one, as file names; any other value as it is."""
    return ":".join(part.rsplit("/", 1)[-1] for part in value.split(":")) if value.startswith("/") else value


def judge_files(claims_path: Path, environment_path: Path, record_paths: Iterable[Path], output: Path) -> list[Verdict]:
    """Judge the records of one run and write the verdicts to ``output``.

    Raises:
        BadClaims: the claims file is wrong.
        BadFile: the environment or a record cannot be trusted.
        MixedPresets: the records come from more than one preset.
        OtherEnvironment: a record was made under another environment.

    """
    claims = claims_file.load(claims_path)
    environment = records_file.load_data(environment_path, "environment")
    records = records_file.load_all(record_paths)
    digest = records_file.digest(environment)
    others = sorted(record.name for record in records.values() if record.environment != digest)
    if others:
        raise OtherEnvironment(others, environment_path)
    verdicts = judge(claims, records, environment)
    records_file.dump_data(
        output,
        "verdicts",
        {
            "schema_version": SCHEMA_VERSION,
            "title": claims.title,
            "url": claims.url,
            "published_on": {"machine": claims.machine, "versions": claims.versions},
            "preset": next((record.preset for record in records.values()), None),
            "claims": [asdict(verdict) for verdict in verdicts],
            "environment": summary(environment),
            "versions": environment["versions"],
        },
    )
    return verdicts
