"""From what was observed to what is said: every branch, without PyTorch."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cpulab.debug.ladder import RUNGS
from cpulab.explain.verdict import KINDS, verdict

RUNG = {
    "ending": "ok", "exception": None, "exception_chain": "", "exception_modules": [], "exception_direction": None,
    "out_of_memory": False, "message": None, "dynamo_ran": True, "aot_autograd_ran": True, "inductor_ran": True,
    "graphs": 1, "graph_breaks": 0, "kernels": 1, "vectorized_kernels": 1, "identical": True, "seconds": 1.0,
}  # fmt: skip

GCC = """CppCompileError: C++ compile error
/t/k.cpp:9:41: error: no matching function for call to 'max_propagate_nan(unsigned char&, int&)'
    9 |  auto tmp3 = max_propagate_nan(tmp0, tmp2);
/t/v.h:3:9: note: candidate: 'template<class scalar_t> scalar_t max_propagate_nan(scalar_t, scalar_t)'
/t/k.cpp:9:41: note:   deduced conflicting types for parameter 'scalar_t' ('unsigned char' and 'int')
"""


def difference(name: str = "values", output: str = "result", **changes: Any) -> dict[str, Any]:
    found = {
        "output": output, "name": name, "detail": None, "largest_error": 2.0, "relative_error": 0.5, "elements": 3,
        "of": 9, "causes": {"unexplained": 3}, "wrong": True, "eager_error": 0.0, "compiled_error": 2.0,
    } | changes  # fmt: skip
    if "causes" in changes and "wrong" not in changes:
        found["wrong"] = "unexplained" in changes["causes"]
    return found


class Case:
    """What a right case leaves, changed step by step."""

    def __init__(self) -> None:
        self.observed: dict[str, Any] = {
            "invalid": None,
            "endings": {},
            "oracle": None,
            "found": {
                "eager": {
                    "random": False, "outputs": ["result"], "tensor_inputs": 1, "mutated": [], "sources": [],
                    "has_backward": False, "backward_error": None,
                },
                "again": {"varying": [], "inexact": []},
                **{f"rung:{rung}": {**RUNG, "rung": rung} for rung in [*RUNGS, "inductor_scalar"]},
                "observe": {"terms": 1, "dtypes": ["float32"], "low_precision": False, "random": False, "anchored": []},
                "variants": {"zeros": [], "conversions": [], "unset": [], "eager_has_both_signs": False},
                "compare": {
                    "rungs": {rung: {"forward": [], "backward": []} for rung in [*RUNGS, "inductor_scalar"]},
                    "errors": None,
                    "causes": {},
                },
            },
        }  # fmt: skip

    @property
    def found(self) -> dict[str, Any]:
        return self.observed["found"]

    def differs(self, *rungs: str, direction: str = "forward", **changes: Any) -> Case:
        for rung in rungs:
            each = self.found["compare"]["rungs"].setdefault(rung, {"forward": [], "backward": []})
            each[direction].append(difference(**changes))
        return self

    def raises(
        self, *rungs: str, module: str = "torch._inductor.exc", direction: str = "forward", **changes: Any
    ) -> Case:
        for rung in rungs:
            self.found[f"rung:{rung}"] |= {
                "ending": "exception", "exception": "InductorError", "exception_chain": "InductorError",
                "exception_modules": [module], "exception_direction": direction, "message": "no", "identical": None,
            } | changes  # fmt: skip
        return self

    def dies(self, rung: str, kind: str = "crash") -> Case:
        del self.found[f"rung:{rung}"]
        self.observed["endings"][f"rung:{rung}"] = {"kind": kind, "words": f"the process shows a {kind}"}
        return self

    def with_(self, phase: str, **changes: Any) -> Case:
        self.found.setdefault(phase, {}).update(changes)
        return self


INDUCTOR = ("inductor", "inductor_scalar")
ALL = ("eager", "aot_eager", "aot_eager_decomp_partition", *INDUCTOR)

TABLE = [
    ("right", Case(), None, None, None, None, "to the bit"),
    ("wrong in both", Case().differs(*INDUCTOR), "inductor", "accuracy", "both", "forward", "3 of 9 elements"),
    ("wrong in vectors", Case().differs("inductor"), "inductor", "accuracy", "vectorized", "forward", "up to 2"),
    (
        "wrong in scalar code, which is the default",
        Case().differs(*INDUCTOR).with_("rung:inductor", vectorized_kernels=0),
        "inductor", "accuracy", "scalar", "forward", "",
    ),
    ("wrong in scalar code alone", Case().differs("inductor_scalar"), None, None, None, None, ""),
    ("no kernel", Case().differs(*INDUCTOR).with_("rung:inductor", kernels=0), "inductor", "accuracy", None, "forward", ""),
    ("dynamo", Case().differs(*ALL), "dynamo", "accuracy", None, "forward", "Dynamo (backend eager)"),
    ("aot", Case().differs(*ALL[1:]), "aot_autograd", "accuracy", None, "forward", "aot_eager"),
    ("decompositions", Case().differs(*ALL[2:]), "aot_autograd", "accuracy", None, "forward", "aot_eager_decomp_partition"),
    ("compile error", Case().raises(*INDUCTOR), "inductor", "compile_error", "both", "forward", "compiling fails"),
    (
        "compile error of C++",
        Case().raises(*INDUCTOR, message=GCC),
        "inductor", "compile_error", "both", "forward", "max_propagate_nan(unsigned char&, int&)",
    ),
    ("tracing error", Case().raises(*ALL, module="torch._dynamo.exc"), "dynamo", "compile_error", None, "forward", ""),
    ("raised while running", Case().raises("inductor", module="builtins"), "inductor", "crash", "vectorized", "forward", ""),
    ("out of memory", Case().raises(*INDUCTOR, out_of_memory=True), "inductor", "crash", "both", "forward", "out of memory"),
    ("crash", Case().dies("inductor"), "inductor", "crash", "vectorized", "forward", "shows a crash"),
    ("crash of both", Case().dies("inductor").dies("inductor_scalar"), "inductor", "crash", "both", "forward", ""),
    ("hang of dynamo", Case().dies("eager", "hang"), "dynamo", "hang", None, "forward", "shows a hang"),
    ("dtype", Case().differs(*INDUCTOR, name="dtype", detail="a, b"), "inductor", "accuracy", "both", "forward", "another dtype"),
    ("NaN", Case().differs(*INDUCTOR, name="nan_mask", largest_error=None), "inductor", "accuracy", "both", "forward", "NaN stands"),
    (
        "inputs",
        Case().differs(*INDUCTOR, name="inputs_after_call", output="inputs[0]"),
        "inductor", "accuracy", "both", "forward", "inputs[0] after the call",
    ),
    ("rounding", Case().differs(*INDUCTOR, causes={"rounding": 3}), None, None, None, None, "rounding explains"),
    (
        "long sum",
        Case().differs(*INDUCTOR, causes={"rounding": 1}).with_("observe", terms=3_000_000),
        None, None, None, None, "order in which up to 3000000 terms",
    ),
    ("sign of zero", Case().differs(*INDUCTOR, causes={"sign_of_zero": 3}), None, None, None, None, "sign of zero"),
    ("nearer", Case().differs(*INDUCTOR, causes={"nearer": 3}), None, None, None, None, "Right"),
    ("strides", Case().differs(*INDUCTOR, name="strides", causes={}, detail="(1, 2)"), None, None, None, None, "trides differ"),
    (
        "undefined conversion",
        Case().differs(*INDUCTOR, causes={"undefined_conversion": 3}),
        None, "undefined_conversion", None, "forward", "C++ leaves",
    ),
    (
        "undefined conversion and a fault",
        Case().differs(*INDUCTOR, causes={"undefined_conversion": 3, "unexplained": 1}),
        "inductor", "accuracy", "both", "forward", "",
    ),
    (
        "ill-conditioned",
        Case().differs(*INDUCTOR, causes={"ill_conditioned": 3}),
        None, "ill_conditioned", None, "forward", "one unit in the last place",
    ),
    (
        "precision policy",
        Case().differs(*INDUCTOR, causes={"low_precision": 3}).with_("compare_emulated", forward=[], backward=[]),
        None, "precision_policy", None, "forward", "emulate_precision_casts",
    ),
    (
        "precision policy by the emulation alone",
        Case().differs(*INDUCTOR).with_("compare_emulated", forward=[], backward=[]),
        None, "precision_policy", None, "forward", "emulate_precision_casts",
    ),
    (
        "emulation does not help",
        Case().differs(*INDUCTOR).with_("compare_emulated", forward=[difference()], backward=[]),
        "inductor", "accuracy", "both", "forward", "",
    ),
    (
        "random",
        Case().with_("other_seed", varying=["result"]).differs("inductor", "inductor_scalar").with_("rung:inductor_fallback_random", **RUNG),
        None, "nondeterministic", None, "forward", "same under that seed with torch._inductor.config.fallback_random",
    ),
    (
        "random and other even under one seed",
        Case().with_("other_seed", varying=["result"]).differs("inductor_fallback_random").with_("rung:inductor_fallback_random", **RUNG),
        "inductor", "nondeterministic", None, "forward", "even then",
    ),
    (
        "random beside what is wrong",
        Case().with_("other_seed", varying=["[1]"]).differs(*INDUCTOR, output="[0]"),
        "inductor", "accuracy", "both", "forward", "[0]",
    ),
    (
        "not even under one seed",
        Case().with_("again", varying=["result"]).with_("other_seed", varying=["result"]),
        None, "nondeterministic", None, "forward", "even under one seed",
    ),
    ("unset memory", Case().with_("variants", unset=["result"]), None, "nondeterministic", None, "forward", "before anything is written"),
    (
        "backward",
        Case().with_("eager", has_backward=True).differs(*INDUCTOR, direction="backward", output="['inputs[0]']"),
        "inductor", "accuracy", "both", "backward", "the gradient of inputs[0]",
    ),
    (
        "backward does not compile",
        Case().with_("eager", has_backward=True).raises(*INDUCTOR, direction="backward"),
        "inductor", "compile_error", "both", "backward", "The forward is right",
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_verdict_follows_from_what_was_observed(row: tuple[Any, ...]) -> None:
    case, *expected, said = row
    found = verdict(copy.deepcopy(case.observed))
    assert [found.component, found.kind, found.path, found.direction] == expected
    assert said in found.reason
    assert found.reason.endswith(".")


def test_every_kind_has_its_row() -> None:
    assert {row[3] for row in TABLE} == {*KINDS, None} - {"invalid_case"}


def test_an_invalid_case_says_why() -> None:
    found = verdict({"invalid": "There is no file.", "found": {}, "endings": {}})
    assert (found.component, found.kind, found.reason) == (None, "invalid_case", "There is no file.")


@pytest.mark.parametrize("kind", ["crash", "hang"])
def test_eager_that_dies_accuses_nobody(kind: str) -> None:
    found = verdict({"invalid": None, "found": {}, "endings": {"eager": {"kind": kind, "words": "Eager itself dies."}}})
    assert (found.component, found.kind, found.reason) == (None, kind, "Eager itself dies.")


def test_a_difference_that_rounding_explains_has_no_name_and_a_zero_has_its_own() -> None:
    case = Case().differs("inductor", causes={"rounding": 2}).differs("inductor", causes={"sign_of_zero": 2})
    assert verdict(case.observed).differences == ["sign_of_zero"]


def test_the_forward_counts_before_the_backward() -> None:
    case = Case().with_("eager", has_backward=True).differs("inductor").differs("inductor", direction="backward")
    found = verdict(case.observed)
    assert found.direction == "forward"
    assert found.backward is not None
    assert found.backward["kind"] == "accuracy"


def test_scalar_code_that_is_wrong_though_not_used_is_a_note() -> None:
    notes = verdict(Case().differs("inductor_scalar").observed).notes
    assert any("simdlen = 1" in note for note in notes)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (Case().with_("eager", mutated=["inputs[1]"]), "changes inputs[1]"),
        (Case().with_("eager", tensor_inputs=0), "No input is a tensor"),
        (Case().with_("rung:inductor", graph_breaks=2), "broke the graph 2 times"),
        (Case().with_("rung:inductor", graphs=0), "Dynamo compiled nothing"),
        (Case().with_("eager", backward_error="RuntimeError: no"), "backward of eager itself raises"),
        (Case().with_("observe", undefined_conversions=4), "4 floats are converted"),
        (Case().with_("observe", anchored=["view"]), "No float64 reference through view"),
    ],
)
def test_what_a_reader_should_know_is_a_note(case: Case, said: str) -> None:
    assert any(said in note for note in verdict(case.observed).notes)


def test_eager_elsewhere_that_differs_is_no_oracle() -> None:
    case = Case().differs("inductor")
    case.observed["oracle"] = {"cpu_capability": "DEFAULT", "differing": ["result"], "wrong": []}
    assert any("no oracle" in note for note in verdict(case.observed).notes)


def test_the_ladder_tells_each_rung_and_leaves_open_what_was_not_run() -> None:
    case = Case().dies("eager", "hang")
    for rung in ALL[1:]:
        del case.found[f"rung:{rung}"]
    rows = verdict(case.observed).ladder
    assert [row["passed"] for row in rows] == [False, None, None, None, None]
    assert rows[0]["ending"] == "hang"
