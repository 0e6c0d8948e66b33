"""What the doctor tells of a machine: the plan, each setting, and what will spoil a measurement."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from cpulab.host.settings import not_in_force

if TYPE_CHECKING:
    from collections.abc import Mapping

# Parts of an environment record that the doctor hands on as data.
PARTS = ("host", "topology", "plan", "tuning", "settings", "preflight", "compiler", "versions")


def diagnosis(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``{"ready": bool, ...}`` with the parts of an environment record; ready: every setting is in force."""
    return {"ready": not not_in_force(environment["settings"]), **{part: environment[part] for part in PARTS}}


def text(found: Mapping[str, Any]) -> str:
    """Return a diagnosis for a terminal."""
    plan = found["plan"]
    cpu = found["host"]["cpu_model"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    lines = [
        f"CPU        {cpu['value'] or cpu['reason']}",
        f"Versions   {versions}; {found['compiler']['version']}",
        f"Plan       {plan['numactl']}, {len(plan['cpus'])} threads",
        *(f"           {reason}" for reason in plan["reasons"]),
        "",
        "Settings inside a measured process",
    ]
    width = max(len(row["name"]) for row in found["settings"])
    for row in found["settings"]:
        mark = "ok" if row["in_force"] else "NO"
        seen = "in force" if row["in_force"] else f"{row['reason']}: wanted {row['wanted']}, found {row['found']}"
        lines.append(f"  {mark}  {row['name']:{width}}  {seen}")
    lines += ["", "What will spoil a measurement"]
    for warning in found["preflight"]:
        advice = f"{warning['name']}: {warning['found']}. {warning['remedy'][0].upper()}{warning['remedy'][1:]}."
        lines += textwrap.wrap(advice, 100, initial_indent="  - ", subsequent_indent="    ")
    if not found["preflight"]:
        lines.append("  nothing seen")
    missing = not_in_force(found["settings"])
    lines += ["", "Ready." if found["ready"] else f"Not ready: {', '.join(missing)} not in force."]
    return "\n".join(lines)
