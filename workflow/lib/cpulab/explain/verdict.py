"""From what was observed of a case to what is said of it: the component at fault, if any, and the kind. Pure.

``observed``: {invalid: reason or None, found: {phase: what `cpulab.explain.worker` found}, endings: {phase: {kind:
"crash" or "hang", words}}, oracle: what the phase of that name found, or None}.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from cpulab.debug import compile_errors
from cpulab.debug.ladder import RUNGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COMPONENTS = ("dynamo", "aot_autograd", "inductor")
KINDS = (
    "compile_error", "accuracy", "crash", "hang", "nondeterministic", "precision_policy", "ill_conditioned",
    "undefined_conversion", "invalid_case",
)  # fmt: skip
DIRECTIONS = ("forward", "backward")

# Exceptions of these packages come out of compiling, not out of what was compiled.
_COMPILING = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "torch._subclasses", "torch._ops")

_NAMES = {"dynamo": "Dynamo", "aot_autograd": "AOTAutograd", "inductor": "Inductor"}

# Causes that are no fault, and the kind that a difference explained by one has. In order of what is said first.
_KIND_OF = {
    "undefined_conversion": "undefined_conversion",
    "low_precision": "precision_policy",
    "ill_conditioned": "ill_conditioned",
}

_SCALAR = "inductor_scalar"

ZEROS_ARE_EQUAL = "torch.allclose, torch.equal and torch._dynamo.utils.same all call -0.0 and 0.0 equal"


@dataclass
class Verdict:
    """What is said of a case, or of its backward alone; the fields are those of `cpulab explain --json`."""

    component: str | None = None
    kind: str | None = None
    path: str | None = None
    direction: str | None = None
    subsystem: str | None = None
    reason: str = ""
    differences: list[str] = field(default_factory=list)
    errors: dict[str, Any] | None = None
    notes: list[str] = field(default_factory=list)
    ladder: list[dict[str, Any]] = field(default_factory=list)
    backward: dict[str, Any] | None = None


@dataclass(frozen=True)
class _Problem:
    """What is wrong with a rung in one direction."""

    kind: str
    reason: str


class _Observed:
    """Reads what was observed."""

    def __init__(self, observed: Mapping[str, Any]) -> None:
        self.found: Mapping[str, Any] = observed["found"]
        self.endings: Mapping[str, Any] = observed["endings"]
        self.oracle: Mapping[str, Any] | None = observed.get("oracle")

    def phase(self, name: str) -> Mapping[str, Any]:
        """Return what a phase found; nothing where it did not run."""
        found: Mapping[str, Any] = self.found.get(name) or {}
        return found

    @property
    def eager(self) -> Mapping[str, Any]:
        return self.phase("eager")

    @property
    def varying(self) -> set[str]:
        """The outputs that eager does not repeat."""
        return {*self.phase("other_seed").get("varying", ()), *self.phase("variants").get("unset", ())}

    @property
    def emulated_is_equal(self) -> bool:
        """Whether Inductor gives what eager gives once it rounds where eager does."""
        compared = self.found.get("compare_emulated")
        if not compared:
            return False
        differences = [*compared["forward"], *compared["backward"]]
        return not any(one["wrong"] or "low_precision" in one["causes"] for one in differences)

    def differences(self, rung: str, direction: str, *, repeated: bool = True) -> list[Mapping[str, Any]]:
        """Return a rung's differences; ``repeated``: only of outputs that eager repeats."""
        each = self.phase("compare").get("rungs", {}).get(rung, {})
        return [one for one in each.get(direction, ()) if not repeated or _place(one, direction) not in self.varying]

    def problem(self, rung: str, direction: str, *, repeated: bool = True) -> _Problem | None:
        """Return what is wrong with a rung in one direction, if anything is."""
        ending = self.endings.get(f"rung:{rung}")
        if ending is not None:
            return _Problem(ending["kind"], ending["words"]) if direction == "forward" else None
        row = self.phase(f"rung:{rung}")
        if row.get("ending") == "exception":
            return _exception(row) if row["exception_direction"] == direction else None
        wrong = [one for one in self.differences(rung, direction, repeated=repeated) if one["wrong"]]
        if not wrong or (rung.startswith("inductor") and self.emulated_is_equal):
            return None
        return _Problem("accuracy", _wrong_words(wrong))


def verdict(observed: Mapping[str, Any]) -> Verdict:
    """Judge a case. Its backward counts where its forward is right."""
    if observed["invalid"] is not None:
        return Verdict(kind="invalid_case", reason=observed["invalid"])
    seen = _Observed(observed)
    if "eager" in seen.endings:
        ending = seen.endings["eager"]
        return Verdict(kind=ending["kind"], reason=ending["words"])
    forward = _judged(seen, "forward")
    backward = _judged(seen, "backward") if seen.eager["has_backward"] else None
    said = forward
    if backward is not None and forward.kind is None and backward.kind is not None:
        said = backward
        said.reason = f"The forward is right; in the backward, {said.reason[0].lower()}{said.reason[1:]}"
    # Errors against float64 are those of the outputs.
    said.errors = _errors(seen)
    said.ladder = [_row(seen, rung) for rung in [*RUNGS, _SCALAR]]
    said.notes = _notes(seen, said)
    if backward is not None:
        fields = ("component", "kind", "path", "reason", "differences")
        said.backward = {name: value for name, value in asdict(backward).items() if name in fields}
    return said


def _judged(seen: _Observed, direction: str) -> Verdict:
    differing = seen.differences("inductor", direction)
    names = _names(differing)
    for rung in RUNGS:
        problem = seen.problem(rung, direction)
        if problem is not None:
            component = RUNGS[rung]
            return Verdict(
                component=component,
                kind=problem.kind,
                path=_path(seen, direction) if component == "inductor" else None,
                direction=direction,
                subsystem="decompositions or partitioner" if rung == "aot_eager_decomp_partition" else None,
                reason=_accusation(rung, problem),
                differences=_names(seen.differences(rung, direction)),
            )
    varying = [place for place in seen.varying if _direction(place) == direction]
    if varying:
        return _nondeterministic(seen, direction, varying)
    causes = _causes(differing)
    kind = next((_KIND_OF[cause] for cause in _KIND_OF if causes.get(cause)), None)
    if kind is None and causes.get("unexplained"):
        kind = "precision_policy"  # or there were a problem: explained by the emulation alone
    strides = [one for one in differing if one["name"] == "strides"]
    return Verdict(
        kind=kind,
        direction=direction if kind is not None else None,
        reason=_excuse(seen, kind, differing, strides),
        differences=names,
    )


def _nondeterministic(seen: _Observed, direction: str, varying: Sequence[str]) -> Verdict:
    places = _listed(sorted(varying))
    hangs, differs, repeats = ("hang", "differ", "them") if len(varying) > 1 else ("hangs", "differs", "it")
    if seen.phase("variants").get("unset"):
        reason = f"{places} {hangs} on memory that the function reads before anything is written to it."
        return Verdict(kind="nondeterministic", direction=direction, reason=_sentence(reason))
    if seen.phase("again").get("varying"):
        reason = f"{places} {differs} between two calls of eager, even under one seed, so nothing can be compared."
        return Verdict(kind="nondeterministic", direction=direction, reason=_sentence(reason))
    base = f"{places} {hangs} on random numbers drawn inside the function; eager repeats {repeats} under one seed"
    for rung in ("eager", "aot_eager", "aot_eager_decomp_partition", "inductor_fallback_random"):
        problem = seen.problem(rung, direction, repeated=False)
        if problem is not None:
            component = RUNGS.get(rung, "inductor")
            said = f"{base}, and {_NAMES[component]} differs from it even then"
            said += " with torch._inductor.config.fallback_random" if component == "inductor" else ""
            return Verdict(
                component=component,
                kind="nondeterministic",
                direction=direction,
                reason=_sentence(f"{said}: {problem.reason}."),
                differences=_names(seen.differences(rung, direction, repeated=False)),
            )
    if "rung:inductor_fallback_random" in seen.found:
        base += ", and Inductor gives the same under that seed with torch._inductor.config.fallback_random"
    return Verdict(kind="nondeterministic", direction=direction, reason=_sentence(f"{base}."))


def _path(seen: _Observed, direction: str) -> str | None:
    """Return which code is at fault: that for vectors, that for single elements, or both."""
    default = seen.phase("rung:inductor")
    scalar_fails = seen.problem(_SCALAR, direction) is not None
    if not default:  # the process died in it, or hung: then the other was not tried
        scalar_ran = f"rung:{_SCALAR}" in {**seen.found, **seen.endings}
        return ("both" if scalar_fails else "vectorized") if scalar_ran else None
    if not default["kernels"]:
        return None
    if not default["vectorized_kernels"]:
        return "scalar"
    return "both" if scalar_fails else "vectorized"


def _exception(row: Mapping[str, Any]) -> _Problem:
    if row["out_of_memory"]:
        return _Problem("crash", "it runs out of memory, where eager does not")
    last = row["exception_chain"]
    message = _gist(row["message"] or "")
    if any(module.startswith(_COMPILING) for module in row["exception_modules"]):
        return _Problem("compile_error", f"compiling fails with {last}: {message}")
    return _Problem("crash", f"the compiled function raises {last}, where eager returns: {message}")


def _gist(message: str) -> str:
    """Return the part of an exception's message that says what is wrong."""
    parsed = compile_errors.parse(message)
    if parsed is not None:
        conflict = f" (conflicting types: {', '.join(parsed.conflicting_types)})" if parsed.conflicting_types else ""
        return f"no matching function for call to {parsed.call}{conflict}"
    lines = [line.strip() for line in message.splitlines() if line.strip() and not line.rstrip().endswith("raised:")]
    error = next((line for line in lines if " error: " in line), None)
    said = error.split(" error: ", 1)[1] if error is not None else (lines[0] if lines else "no message")
    return said.removeprefix("RuntimeError: ")[:300].rstrip(".")


def _accusation(rung: str, problem: _Problem) -> str:
    before = {
        "eager": "Eager runs",
        "aot_eager": "Eager and Dynamo alone are right",
        "aot_eager_decomp_partition": "Eager and the backend aot_eager are right",
        "inductor": "Eager and every backend before Inductor are right",
    }[rung]
    who = {"eager": "Dynamo (backend eager)", "inductor": "Inductor"}.get(rung, f"AOTAutograd (backend {rung})")
    return _sentence(f"{before}; with {who}, {problem.reason}.")


def _wrong_words(wrong: Sequence[Mapping[str, Any]]) -> str:
    first = wrong[0]
    place = "the result" if first["output"] == "result" else first["output"]
    if place.startswith("['"):  # of the gradients, which are named
        place = f"the gradient of {place[2:-2]}"
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    if first["name"] in {"dtype", "shape", "structure"} or first["elements"] is None:
        return f"{place} has another {first['name']}: {first['detail']}{more}"
    after = " after the call" if first["name"] == "inputs_after_call" else ""
    said = f"{first['causes'].get('unexplained', 0)} of {first['of']} elements of {place}{after} are wrong"
    if first["name"] == "nan_mask":
        said = f"NaN stands elsewhere in {place} ({first['detail']})"
    if first["largest_error"] is not None:
        said += f", by up to {first['largest_error']:.6g}"
    if first["compiled_error"] is not None and first["eager_error"] is not None:
        said += f"; the error against float64 is {first['compiled_error']:.3g}, eager's {first['eager_error']:.3g}"
    return f"{said}{more}"


def _excuse(
    seen: _Observed, kind: str | None, differing: Sequence[Mapping[str, Any]], strides: Sequence[Mapping[str, Any]]
) -> str:
    errors = _errors(seen)
    both = _both_errors(errors)
    causes = _causes(differing)
    observed = seen.phase("observe")
    if kind == "undefined_conversion":
        count = causes["undefined_conversion"]
        return (
            f"The {count} differing elements hang on conversions of floats that the integer type cannot hold (NaN, "
            "infinite or out of range): C++ leaves their result undefined, so neither eager's nor Inductor's is wrong."
        )
    if kind == "precision_policy":
        low = (
            _listed([one for one in observed.get("dtypes", ()) if one in {"float16", "bfloat16"}]) or "a narrower type"
        )
        equal = (
            "the result is eager's with torch._inductor.config.emulate_precision_casts"
            if seen.emulated_is_equal
            else ""
        )
        said = f"Not a defect: inside a kernel Inductor keeps float32 where eager rounds every result to {low}"
        return _sentence("; ".join(part for part in (said, equal, _nearer(errors), both) if part) + ".")
    if kind == "ill_conditioned":
        return _sentence(
            "The problem is ill-conditioned: in float64 too the result moves by as much when an input moves by one "
            f"unit in the last place, so any answer is noise and nobody is accused{f'; {both}' if both else ''}."
        )
    parts = []
    if causes.get("sign_of_zero"):
        itself = (
            "eager gives both signs itself, in its vector body and in its tail, so eager is no oracle"
            if seen.phase("variants").get("eager_has_both_signs")
            else "eager's other elements do not contradict each other"
        )
        parts.append(
            f"The results differ only by the sign of zero, in {causes['sign_of_zero']} elements; {ZEROS_ARE_EQUAL}; "
            f"{itself}"
        )
    if causes.get("rounding") or causes.get("nearer"):
        terms = observed.get("terms", 1)
        bound = f"the order in which up to {terms} terms are added up explains" if terms > 1 else "rounding explains"
        where = "sqrt(n) u for n terms" if terms > 1 else "the units in the last place of the dtype"
        relative = [one["relative_error"] for one in differing if one["largest_error"]]
        # None: eager's values are all zero.
        largest = max((1.0 if one is None else one for one in relative), default=0.0)
        cancels = "; hardly a digit of the result means anything, for larger numbers cancel in it"
        noise = cancels if largest > 0.01 else ""
        parts.append(
            f"Right: {bound} the difference of {largest:.2g} relative to the largest value, within the bound of {where}"
            f"{noise}{f'; {both}' if both else ''}"
        )
    if strides:
        parts.append(
            f"strides differ ({strides[0]['detail']}), which Inductor may choose for a result that is not a view; "
            "the values are the same"
        )
    if not parts:
        return "Right: every result is eager's to the bit." if not differing else "Right."
    return _sentence("; ".join(parts) + ".")


def _nearer(errors: Mapping[str, Any] | None) -> str:
    if errors is None:
        return ""
    eager, inductor = errors["eager"], errors["inductor"]
    if inductor is not None and (eager is None or inductor < eager):
        return "Inductor is nearer to float64"
    if eager is not None and (inductor is None or eager < inductor):
        return "eager is nearer to float64"
    return "both are as near to float64"


def _both_errors(errors: Mapping[str, Any] | None) -> str:
    if errors is None:
        return ""

    def one(name: str) -> str:
        if errors[name] is None:
            return "infinite"
        relative = errors[f"{name}_relative"]
        return f"{errors[name]:.4g} (relative {relative:.2g})"

    return f"against float64, eager's largest error is {one('eager')} and Inductor's {one('inductor')}"


def _errors(seen: _Observed) -> dict[str, Any] | None:
    errors = seen.phase("compare").get("errors")
    return dict(errors) if errors else None


def _row(seen: _Observed, rung: str) -> dict[str, Any]:
    row = seen.phase(f"rung:{rung}")
    ending = seen.endings.get(f"rung:{rung}")
    problems = {direction: seen.problem(rung, direction) for direction in DIRECTIONS}
    differing = [one for direction in DIRECTIONS for one in seen.differences(rung, direction)]
    wrong = next((one for one in differing if one["wrong"]), None)
    errors = [one["largest_error"] for one in differing if one["largest_error"] is not None]
    return {
        "backend": "inductor" if rung == _SCALAR else rung,
        "code": "scalar (cpp.simdlen = 1)" if rung == _SCALAR else "default",
        "component": RUNGS.get(rung, "inductor"),
        "passed": not any(problems.values()) if row or ending else None,
        "kind": next((one.kind for one in problems.values() if one is not None), None),
        "ending": ending["kind"] if ending else row.get("ending"),
        "exception": row.get("exception"),
        "exception_chain": row.get("exception_chain", ""),
        "message": _gist(row["message"]) if row.get("message") else None,
        "first_differing": wrong["output"] if wrong else (differing[0]["output"] if differing else None),
        "largest_error": max(errors) if errors else (0.0 if row.get("identical") else None),
        "differences": differing,
        **{name: row.get(name) for name in (
            "dynamo_ran", "aot_autograd_ran", "inductor_ran", "graphs", "graph_breaks", "kernels", "vectorized_kernels",
            "same_code_as", "seconds",
        )},
    }  # fmt: skip


def _notes(seen: _Observed, said: Verdict) -> list[str]:
    notes = []
    eager = seen.eager
    if not eager["tensor_inputs"]:
        notes.append("No input is a tensor; the function was judged all the same.")
    if eager["mutated"]:
        notes.append(
            f"The function changes {_listed(eager['mutated'])}; what is in them after the call was compared too."
        )
    breaks = seen.phase("rung:inductor").get("graph_breaks")
    if breaks:
        notes.append(f"Dynamo broke the graph {breaks} times; between the parts Python ran as it is.")
    row = seen.phase("rung:inductor")
    if row and not row.get("graphs") and row.get("ending") == "ok":
        notes.append("Dynamo compiled nothing of this function; Python ran as it is, so Inductor had nothing to do.")
    if eager["backward_error"] is not None:
        notes.append(f"The backward of eager itself raises {eager['backward_error']}; the forward alone was judged.")
    scalar = next((one for one in (seen.problem(_SCALAR, way) for way in DIRECTIONS) if one), None)
    if scalar is not None and said.component is None:
        notes.append(
            "With scalar code (torch._inductor.config.cpp.simdlen = 1), which is not what Inductor chooses here, "
            f"{scalar.reason}."
        )
    for phase, ending in seen.endings.items():
        if not phase.startswith("rung:") and phase != "eager":
            notes.append(f"While looking for reasons ({phase}), {ending['words']}; the verdict does without.")
    anchored = seen.phase("observe").get("anchored")
    unfit = seen.phase("observe").get("undefined_conversions")
    if unfit and said.kind is None:
        notes.append(
            f"{unfit} floats are converted to an integer type that cannot hold them: undefined in C++, and equal here."
        )
    if anchored and not seen.phase("observe").get("random"):
        notes.append(f"No float64 reference through {_listed(anchored)}: what they gave eager stands in it.")
    if seen.oracle is not None:
        differ = seen.oracle["differing"]
        where = f"under ATEN_CPU_CAPABILITY={seen.oracle['cpu_capability'].lower()}"
        notes.append(
            f"Eager gives another {_listed(differ)} {where} than on this machine's vectors: it is no oracle there."
            if differ
            else f"Eager gives the same {where}."
        )
    return notes


def _causes(differing: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    causes: dict[str, int] = {}
    for one in differing:
        if one["name"] != "nan_mask":  # counted with the values
            for cause, count in one["causes"].items():
                causes[cause] = causes.get(cause, 0) + count
    return causes


def _names(differing: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of differences; what rounding explains has none, and a zero's sign is called by its name."""
    names: list[str] = []
    for one in differing:
        causes = set(one["causes"]) - {"rounding", "nearer"}
        if one["name"] in {"values", "nan_mask", "inputs_after_call"} and causes <= {"sign_of_zero"}:
            names += sorted(causes)
        else:
            names.append(one["name"])
    return list(dict.fromkeys(names))


def _place(difference: Mapping[str, Any], direction: str) -> str:
    return f"gradients{difference['output']}" if direction == "backward" else str(difference["output"])


def _direction(place: str) -> str:
    return "backward" if place.startswith("gradients") else "forward"


def _listed(names: Iterable[str]) -> str:
    each = ["the result" if name == "result" else name for name in names]
    return ", ".join(each[:-1]) + " and " + each[-1] if len(each) > 1 else "".join(each)


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
