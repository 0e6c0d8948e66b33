"""A user's own case as the report shows it: the verdict in plain words, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpulab.report import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from markupsafe import Markup

    from cpulab.report.views import Shown

STEP = "explain"

COMPONENTS = {"dynamo": "Dynamo", "aot_autograd": "AOTAutograd", "inductor": "Inductor"}
# Kind -> in words, where a component is at fault, and where none is.
AT_FAULT = {
    "compile_error": "compiling fails",
    "accuracy": "the result is wrong",
    "crash": "the process crashes",
    "hang": "it does not come to an end",
    "nondeterministic": "the result is another one even under one seed",
}
EXCUSED = {
    "nondeterministic": "the program is random",
    "precision_policy": "the precision is another one by policy",
    "ill_conditioned": "the problem is ill-conditioned",
    "undefined_conversion": "a conversion has no defined result",
}
# Kind -> the whole verdict, where nothing could be compared.
NOT_JUDGED = {
    "crash": "Not judged: eager itself crashes",
    "hang": "Not judged: eager itself does not come to an end",
    "invalid_case": "Not judged: this is no case that can be compared",
}


@dataclass(frozen=True)
class Explained:
    """One case. ``headline``: who is at fault; ``state``: "right", "excused", "fault"; None where nothing is known."""

    shown: Shown
    title: str
    headline: str
    state: str | None
    ladder: Sequence[Mapping[str, Any]]
    differences: Sequence[Mapping[str, Any]]
    errors: Mapping[str, Any] | None
    backward: Mapping[str, Any] | None
    bisector: Mapping[str, Any] | None
    steps: Sequence[Mapping[str, Any]]
    steps_figure: Markup | None

    @property
    def anchor(self) -> str:
        """The id of its section."""
        return "case-" + self.shown.name.partition("/")[2]

    @property
    def seen(self) -> Mapping[str, Any]:
        """What its record observed."""
        return self.shown.seen


def explained(shown: Shown) -> Explained:
    """Return a case as the report shows it; one whose step failed has its title alone."""
    seen = shown.seen
    ladder = seen.get("ladder") or []
    compiled = next((row for row in ladder if row["backend"] == "inductor"), None)
    first_wrong = next((row for row in ladder if not row["passed"] and row.get("differences")), compiled)
    steps = seen.get("minimal_steps") or []
    name = shown.name.partition("/")[2]
    headline, state = _verdict(seen) if seen else ("No verdict: the step itself failed", None)
    return Explained(
        shown=shown,
        title=str(seen.get("case") or name),
        headline=headline,
        state=state,
        ladder=ladder,
        differences=(first_wrong or {}).get("differences") or [],
        errors=_one(seen, "errors"),
        backward=_one(seen, "backward"),
        bisector=_one(seen, "bisector"),
        steps=steps,
        steps_figure=steps_figure(f"steps-{name}", steps),
    )


def cases(shown: Iterable[Shown]) -> list[Explained]:
    """Return the user's own cases, by name."""
    own = [one for one in shown if one.name.startswith(f"{STEP}/")]
    return [explained(one) for one in sorted(own, key=lambda one: one.name)]


def steps_figure(identity: str, steps: Sequence[Mapping[str, Any]]) -> Markup | None:
    """Draw the size of a graph at the start and after each step that made it smaller; None where none did."""
    known = [step for step in steps if None not in {step["nodes_before"], step["nodes_after"]}]
    # A step may leave the nodes as they are, and make the inputs smaller.
    smaller = [step for step in known if step["success"] and step["nodes_after"] < step["nodes_before"]]
    if not smaller:
        return None
    rows = [("Start", smaller[0]["nodes_before"])]
    rows += [(f"{step['strategy']}, {step['inputs_before']} inputs before", step["nodes_after"]) for step in smaller]
    return figures.steps(identity, "Nodes of the graph, step by step", rows)


def _verdict(seen: Mapping[str, Any]) -> tuple[str, str]:
    component, kind = seen.get("component"), str(seen.get("kind") or "")
    if component is None:
        if not kind:
            return "Right: nobody is at fault", "right"
        if kind in NOT_JUDGED:
            return NOT_JUDGED[kind], "excused"
        return f"Nobody is at fault: {EXCUSED.get(kind, kind)}", "excused"
    parts = [f"{COMPONENTS.get(component, component)} is at fault: {AT_FAULT.get(kind, kind)}"]
    if seen.get("direction") == "backward":
        parts.append("in the backward")
    if seen.get("op"):
        parts.append(f"at {seen['op']}")
    if seen.get("path") in {"scalar", "vectorized"}:
        parts.append(f"in {seen['path']} code")
    return " ".join(parts), "fault"


def _one(seen: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return an object that a record holds as a list of one, None where the list is empty."""
    found = seen.get(name) or []
    return dict(found[0]) if found else None
