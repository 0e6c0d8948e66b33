"""What the doctor tells of a machine: the plan, each setting, and what will spoil a measurement."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from cpulab.host.settings import named

if TYPE_CHECKING:
    from collections.abc import Mapping

MARKS = {"in_force": "ok", "impossible": "--", "not_in_force": "NO"}

# Parts of an environment record that the doctor hands on as data.
PARTS = ("host", "topology", "plan", "tuning", "settings", "preflight", "compiler", "versions", "lock", "image")


def diagnosis(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"ready": bool, ...}`` with the parts of an environment record.

    Ready: every setting is in force, but for those that this machine makes impossible.
    """
    return {"ready": not named(environment["settings"], "not_in_force"), **{part: environment[part] for part in PARTS}}


def text(found: Mapping[str, Any]) -> str:
    """Return a diagnosis for a terminal."""
    plan = found["plan"]
    cpu = found["host"]["cpu_model"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [
        f"CPU        {cpu['value'] or cpu['reason']}",
        f"Topology   {found['topology']['summary']}",
        *(f"           {disagreement}" for disagreement in found["topology"]["disagreements"]),
        f"Versions   {versions}; {found['compiler']['version']}",
        f"Plan       {plan['numactl']}, {len(plan['cpus'])} threads",
        *(f"           {reason}" for reason in plan["reasons"]),
        "",
        "Settings inside a measured process",
    ]
    width = max(len(row["name"]) for row in found["settings"])
    lines += [f"  {MARKS[row['state']]}  {row['name']:{width}}  {_seen(row)}" for row in found["settings"]]
    lines += ["", "What will spoil a measurement"]
    for warning in found["preflight"]:
        advice = f"{warning['name']}: {warning['found']}. {warning['remedy'][0].upper()}{warning['remedy'][1:]}."
        lines += textwrap.wrap(advice, 100, initial_indent="  - ", subsequent_indent="    ")
    if not found["preflight"]:
        lines.append("  nothing seen")
    lines.append("")
    missing, impossible = (named(found["settings"], state) for state in ("not_in_force", "impossible"))
    if missing:
        lines.append(f"Not ready: {', '.join(missing)} not in force.")
    else:
        lines.append(f"Ready, without what is not possible here: {', '.join(impossible)}." if impossible else "Ready.")
    return "\n".join(lines)


def _seen(row: Mapping[str, Any]) -> str:
    if row["state"] == "in_force":
        return f"in force ({row['reason']})" if row["reason"] else "in force"
    if row["state"] == "impossible":
        return f"not possible here: {row['reason']}; {row['remedy']}"
    return f"{row['reason']}: wanted {row['wanted']}, found {row['found']}"
