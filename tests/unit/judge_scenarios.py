"""What every rule and every gate of the judge must say of which records: one row a behaviour.

Used twice: test_judge.py holds the judge against the table, and test_judge_mutants.py breaks the judge in every place it
can and sees the table contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cpulab.claims import Claim, Claims
from cpulab.records import Artifact, Failure, Measurement, ProcessSamples, Record

XEON = "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz"
EPYC = "AMD EPYC 9R14"
DIGEST = "0" * 64


def record(
    name: str = "debug/program",
    *,
    status: str = "ok",
    measurements: dict[str, list[list[float]]] | None = None,
    artifacts: tuple[Artifact, ...] = (),
    error: Failure | None = None,
    preset: str = "tutorial",
    environment: str = DIGEST,
    **observations: Any,
) -> Record:
    step, case = name.split("/")
    return Record(
        step=step,
        case=case,
        variant="default",
        preset=preset,
        status=status,
        environment=environment,
        command=["cpulab", step, case],
        start="2026-01-31T12:00:00Z",
        duration_s=1.0,
        observations=observations,
        measurements=[
            Measurement(arm, "s", [ProcessSamples([], values) for values in processes])
            for arm, processes in (measurements or {}).items()
        ],
        artifacts=list(artifacts),
        error=error,
    )


def claim(**changes: Any) -> Claim:
    fields: dict[str, Any] = {
        "id": "X1",
        "section": "A section",
        "statement": "A statement.",
        "published": {"value": None, "unit": None, "text": "something"},
        "evidence": {},
        "today": None,
        "rule": "holds",
        "parameters": {},
        "conditions": {},
        "needs": [],
        "requires": [],
        "drift": [],
        "artifacts": [],
        "note": None,
    }
    return Claim(**(fields | changes))


def claims(*entries: Claim) -> Claims:
    return Claims("A tutorial", "https://example.org", {"torch": "2.0"}, XEON, list(entries))


def environment(cpu: str | None = XEON, **more: Any) -> dict[str, Any]:
    data: dict[str, Any] = {"host": {"cpu_model": {"value": cpu, "reason": None if cpu else "not said"}}}
    return data | more


@dataclass(frozen=True)
class Scenario:
    """``told``: what the reason must say, ``untold``: what it must not; ``verdict``: further fields of the verdict."""

    sentence: str
    rule: str
    state: str
    records: dict[str, Record] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    claim: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=environment)
    missing: tuple[str, ...] = ()
    verdict: dict[str, Any] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()

    def build(self) -> tuple[Claims, dict[str, Record], dict[str, Any]]:
        evidence = {role: one.name for role, one in self.records.items() if not role.startswith("today_")}
        today = {
            role.removeprefix("today_"): one.name for role, one in self.records.items() if role.startswith("today_")
        }
        entry = claim(rule=self.rule, parameters=self.parameters, evidence=evidence, today=today or None, **self.claim)
        kept = {one.name: one for role, one in self.records.items() if role not in self.missing}
        return claims(entry), kept, self.environment


def published(value: Any, unit: str | None = None, **more: Any) -> dict[str, Any]:
    return {"published": {"value": value, "unit": unit, "text": str(value), **more}}


# --- holds ---------------------------------------------------------------------------------------


def check(name: str, words: str = "", **operator: Any) -> dict[str, Any]:
    return {"of": f"a.{name}", "words": words or f"{name} fits", **operator}


def _one(sentence: str, state: str, value: Any, **operator: Any) -> Scenario:
    return Scenario(sentence, "holds", state, {"a": record(seen=value)}, {"checks": [check("seen", **operator)]})


LADDER = [
    {"backend": "eager", "passed": True, "calls": 1},
    {"backend": "aot_eager", "passed": True, "calls": 2},
    {"backend": "inductor", "passed": False, "calls": 4},
]

HOLDS = [
    Scenario(
        "every check that holds is told, and reproduces the claim",
        "holds",
        "reproduced",
        {"a": record(one=True, two=3)},
        {"checks": [check("one", "one is so", **{"is": True}), check("two", "two is three", **{"is": 3})]},
        verdict={"measured": "2 of 2", "low": None, "high": None},
        told=("Holds: one is so, two is three.",),
        untold=("not hold",),
    ),
    Scenario(
        "a check that fails costs the claim, and is told with what was found",
        "holds",
        "not_reproduced",
        {"a": record(one=True, two=4)},
        {"checks": [check("one", "one is so", **{"is": True}), check("two", "two is three", **{"is": 3})]},
        verdict={"measured": "1 of 2"},
        told=("Does not hold: two is three (found: 4); holds: one is so.",),
    ),
    Scenario(
        "a check that says so costs the claim only its fullness",
        "holds",
        "partly",
        {"a": record(one=True, two=4)},
        {"checks": [check("one", **{"is": True}), check("two", **{"is": 3}, otherwise="partly")]},
    ),
    Scenario(
        "of several failing checks the worst state counts",
        "holds",
        "not_reproduced",
        {"a": record(one=False, two=4, three=True)},
        {
            "checks": [
                check("two", **{"is": 3}, otherwise="partly"),
                check("one", **{"is": True}),
                check("three", **{"is": True}),
            ]
        },
    ),
    Scenario(
        "a claim of which nothing holds is not even partly reproduced",
        "holds",
        "not_reproduced",
        {"a": record(one=False, two=4)},
        {
            "checks": [
                check("one", **{"is": True}, otherwise="partly"),
                check("two", **{"is": 3}, otherwise="partly"),
            ]
        },
        verdict={"measured": "0 of 2"},
        untold=("; holds:",),
    ),
    Scenario(
        "a check that asks for another state than partly gets it, though nothing holds",
        "holds",
        "not_applicable",
        {"a": record(one=False)},
        {"checks": [check("one", **{"is": True}, otherwise="not_applicable")]},
    ),
    Scenario(
        "the value of a single check is what was measured",
        "holds",
        "reproduced",
        {"a": record(one=0.25)},
        {"checks": [check("one", at_least=0.25)]},
        verdict={"measured": 0.25},
    ),
    Scenario(
        "a claim may name the value that is shown as measured, and others to tell",
        "holds",
        "reproduced",
        {"a": record(one=True, names=["p", "q"])},
        {
            "checks": [check("one", **{"is": True})],
            "measured": {"of": "a.names"},
            "show": {"how many": {"of": "a.names", "reduce": "count"}, "the last": {"of": "a.names", "reduce": "last"}},
        },
        verdict={"measured": "p, q"},
        told=("how many: 2, the last: q",),
    ),
    Scenario(
        "what is shown as measured is whole, however long",
        "holds",
        "reproduced",
        {"a": record(names=["x" * 100, "y" * 100])},
        {"checks": [check("names", lacks=["z"])]},
        verdict={"measured": f"{'x' * 100}, {'y' * 100}"},
    ),
    Scenario(
        "an observation that the record does not hold blocks the claim, by name",
        "holds",
        "blocked",
        {"a": record()},
        {"checks": [check("one", **{"is": True})]},
        verdict={"measured": None},
        told=("debug/program", "'one'"),
    ),
    Scenario(
        "rows are asked of a table only",
        "holds",
        "blocked",
        {"a": record(ladder="eager passed")},
        {"checks": [check("ladder", rows={"backend": "eager"}, column="passed", reduce="first", **{"is": True})]},
        told=("The record debug/program holds eager passed as 'ladder', not a table",),
    ),
    Scenario(
        "a list of other things than rows is no table",
        "holds",
        "blocked",
        {"a": record(ladder=["eager", "inductor"])},
        {"checks": [check("ladder", column="passed", reduce="first", **{"is": True})]},
        told=("holds eager, inductor as 'ladder', not a table.",),
    ),
    Scenario(
        "a column that the table does not have blocks the claim, by name",
        "holds",
        "blocked",
        {"a": record(ladder=LADDER)},
        {"checks": [check("ladder", column="exception", lacks=["AssertionError"])]},
        told=("'ladder', not a table with the column 'exception'",),
    ),
    Scenario(
        "a row is found by the whole of its text, not by a part of it",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER[::-1])},
        {"checks": [check("ladder", rows={"backend": "eager"}, column="calls", **{"is": [1]})]},
    ),
    Scenario(
        "rows are found by a value that is no text as well",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER)},
        {"checks": [check("ladder", rows={"passed": True}, column="backend", **{"is": ["eager", "aot_eager"]})]},
    ),
    Scenario(
        "rows must fit in every column that is asked for",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER)},
        {
            "checks": [
                check("ladder", rows={"passed": True, "backend": ".*eager", "calls": 2}, reduce="count", **{"is": 1})
            ]
        },
    ),
    Scenario(
        "a row without the column that is asked for does not fit",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER)},
        {"checks": [check("ladder", rows={"exception": ".*"}, reduce="count", **{"is": 0})]},
    ),
    Scenario(
        "a column can be summed",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER)},
        {"checks": [check("ladder", column="calls", reduce="sum", **{"is": 7})]},
    ),
    Scenario(
        "the distinct values of a column can be counted",
        "holds",
        "reproduced",
        {"a": record(ladder=LADDER)},
        {"checks": [check("ladder", column="passed", reduce="distinct", **{"is": 2})]},
    ),
    Scenario(
        "the first of no rows is nothing",
        "holds",
        "reproduced",
        {"a": record(ladder=[])},
        {"checks": [check("ladder", column="calls", reduce="first", **{"is": None})]},
    ),
    Scenario(
        "the last of no rows is nothing",
        "holds",
        "reproduced",
        {"a": record(ladder=[])},
        {"checks": [check("ladder", column="calls", reduce="last", **{"is": None})]},
    ),
    Scenario(
        "the first and the last are the ends of a list",
        "holds",
        "reproduced",
        {"a": record(nodes=[6, 4, 3])},
        {"checks": [check("nodes", reduce="first", **{"is": 6}), check("nodes", reduce="last", **{"is": 3})]},
    ),
    Scenario(
        "values are told for readers: yes and no, lists, numbers to four digits, rows, and nothing",
        "holds",
        "not_reproduced",
        {"a": record(one=False, many=[], number=0.123456, rows=[{"name": "n", "calls": 2}], none=None, ok=True)},
        {
            "checks": [
                check(name, **{"is": "something else"}) for name in ("one", "many", "number", "rows", "none", "ok")
            ]
        },
        told=(
            "(found: no)",
            "(found: none)",
            "(found: 0.1235)",
            "(found: name n calls 2)",
            "(found: nothing)",
            "(found: yes)",
        ),
    ),
    Scenario(
        "a value on several lines is told on one, and a long one is cut",
        "holds",
        "not_reproduced",
        {"a": record(short="one\n  line", long="x" * 1000, full="y" * 160)},
        {"checks": [check(name, **{"is": 1}) for name in ("short", "long", "full")]},
        told=("(found: one line)", f"(found: {'x' * 160} ...)", f"(found: {'y' * 160})"),
    ),
    _one("`is` takes an equal value", "reproduced", "inductor", **{"is": "inductor"}),
    _one("`is` takes no other value", "not_reproduced", "dynamo", **{"is": "inductor"}),
    _one("`is` null takes nothing", "reproduced", None, **{"is": None}),
    _one("`is` does not take 1 for true", "not_reproduced", 1, **{"is": True}),
    _one("`is` does not take false for 0", "not_reproduced", False, **{"is": 0}),
    _one("`is` takes a list that is equal item by item", "reproduced", [6, 4, 3], **{"is": [6, 4, 3]}),
    _one("`is` takes no list of other items", "not_reproduced", [6, 5, 3], **{"is": [6, 4, 3]}),
    _one("`is` takes no longer list", "not_reproduced", [6, 4, 3, 3], **{"is": [6, 4, 3]}),
    _one("`is` does not take 1 for true within a list", "not_reproduced", [1, 1], **{"is": [True, True]}),
    _one("`is` takes no single value for a list of it", "not_reproduced", "x", **{"is": ["x"]}),
    _one("`is` takes no list for its single value", "not_reproduced", ["x"], **{"is": "x"}),
    _one("`contains` takes a list with each item", "reproduced", ["a", "b", "c"], contains=["c", "a"]),
    _one("`contains` takes no list that lacks one", "not_reproduced", ["a", "b"], contains=["a", "c"]),
    _one("`contains` takes no text", "not_reproduced", "abc", contains=["a"]),
    _one("`lacks` takes a list with none of the items", "reproduced", ["a", "b"], lacks=["c", "d"]),
    _one("`lacks` takes no list that has one", "not_reproduced", ["a", "c"], lacks=["c", "d"]),
    _one("`lacks` takes no text", "not_reproduced", "ab", lacks=["c"]),
    _one("`matches` finds its expression in a text", "reproduced", "auto tmp2 = -tmp1;", matches=r"= -tmp\d"),
    _one("`matches` finds it in one item of a list", "reproduced", ["x", "y = -tmp1"], matches=r"= -tmp\d"),
    _one("`matches` takes no text without it", "not_reproduced", "auto tmp2 = tmp1;", matches=r"= -tmp\d"),
    _one("`matches` takes nothing that is no text", "not_reproduced", None, matches="."),
    _one("`every` takes a list that has it in every item", "reproduced", ["graph_0_a", "graph_0_b"], every="^graph_0"),
    _one("`every` takes no list with another item", "not_reproduced", ["graph_0_a", "b"], every="^graph_0"),
    _one("`every` takes no empty list", "not_reproduced", [], every="^graph_0"),
    _one("`every` takes no text", "not_reproduced", "g", every="^g"),
    _one("`at_least` takes the bound", "reproduced", 5, at_least=5),
    _one("`at_least` takes nothing less", "not_reproduced", 4, at_least=5),
    _one("`at_least` takes more", "reproduced", 5.5, at_least=5),
    _one("`at_least` takes no truth for a number", "not_reproduced", True, at_least=1),
    _one("`at_least` takes nothing that is no number", "not_reproduced", None, at_least=0),
    _one("`at_most` takes the bound", "reproduced", 5, at_most=5),
    _one("`at_most` takes nothing more", "not_reproduced", 5.5, at_most=5),
    _one("`at_most` takes less", "reproduced", -1, at_most=5),
    _one("`at_most` takes no truth for a number", "not_reproduced", False, at_most=1),
]


# --- same_items ----------------------------------------------------------------------------------


def _items(
    sentence: str, state: str, found: Any, *told: str, extra: str = "partly", ordered: bool = True, **more: Any
) -> Scenario:
    parameters = {"list": {"of": "a.seen"}, "items": ["neg", "maximum", "clone"], "ordered": ordered, "extra": extra}
    return Scenario(
        sentence,
        "same_items",
        state,
        {"a": record(seen=found, empty=["x.py"])},
        parameters | more.pop("show", {}),
        told=told,
        **more,
    )


SAME_ITEMS = [
    _items(
        "the published items in their order reproduce the claim",
        "reproduced",
        ["neg", "maximum", "clone"],
        "3 of the 3 published are there.",
        verdict={"measured": "neg, maximum, clone"},
        untold=("missing", "not published", "order"),
    ),
    _items("a missing item is named", "partly", ["neg", "maximum"], "2 of the 3", "missing: clone", untold=("order",)),
    _items(
        "a missing and an extra one are both named",
        "partly",
        ["neg", "maximum", "copy"],
        "missing: clone",
        "not published: copy",
        extra="reproduced",
    ),
    _items("nothing of it there does not reproduce it", "not_reproduced", ["add"], "0 of the 3"),
    _items("an empty list does not reproduce it", "not_reproduced", []),
    _items(
        "an extra one costs what the claim says", "partly", ["neg", "maximum", "clone", "add"], "not published: add"
    ),
    _items(
        "an extra one costs nothing where the claim says so",
        "reproduced",
        ["neg", "maximum", "clone", "add"],
        "not published: add",
        extra="reproduced",
    ),
    _items(
        "another order is partly",
        "partly",
        ["maximum", "neg", "clone"],
        "in another order: maximum, neg, clone",
        extra="reproduced",
    ),
    _items(
        "another order is the same where none is claimed",
        "reproduced",
        ["clone", "neg", "maximum"],
        ordered=False,
        untold=("order",),
    ),
    _items(
        "an item that is there twice is extra once", "partly", ["neg", "neg", "maximum", "clone"], "not published: neg"
    ),
    _items(
        "what is no list blocks the claim", "blocked", "neg", "The record debug/program holds neg as 'seen', not a list"
    ),
    _items(
        "other values can be told with it",
        "reproduced",
        ["neg", "maximum", "clone"],
        "empty: x.py",
        show={"show": {"empty": {"of": "a.empty"}}},
    ),
]


# --- tables: counts, equal_between, ranking, found_by -----------------------------------------------


def op(name: str, calls: int = 1, self_s: float = 0.0, total_s: float = 0.0) -> dict[str, Any]:
    return {"name": name, "calls": calls, "self_s": self_s, "total_s": total_s, "share": 0.0}


COUNTED = {
    "table": {"of": "a.ops"},
    "key": "name",
    "count": "calls",
    "published": {"aten::bmm": 48, "aten::view": 850, "aten::add": 363, "aten::cat": 1},
    "causes": [
        {"name": "aten::bmm", "found": 0, "because": "sdpa has its own kernel"},
        {"name": "aten::view", "found": 830, "because": "fewer views"},
    ],
}


def _counts(sentence: str, state: str, found: dict[str, int], *told: str, **more: Any) -> Scenario:
    ops = [op(name, calls) for name, calls in found.items()]
    return Scenario(sentence, "counts", state, {"a": record(ops=ops)}, COUNTED, told=told, **more)


COUNTS = [
    _counts(
        "all counts equal reproduce the claim",
        "reproduced",
        {"aten::bmm": 48, "aten::view": 850, "aten::add": 363, "aten::cat": 1, "aten::sub": 9},
        "4 of 4 counts are as published.",
        verdict={"measured": "4 of 4"},
    ),
    _counts(
        "half of them are partly, and each difference has its cause",
        "partly",
        {"aten::view": 830, "aten::add": 363, "aten::cat": 1},
        "2 of 4",
        "aten::bmm 0 instead of 48 (sdpa has its own kernel), aten::view 830 instead of 850 (fewer views)",
    ),
    _counts(
        "a count for which no cause is known is told so",
        "partly",
        {"aten::bmm": 48, "aten::view": 831, "aten::add": 363, "aten::cat": 1},
        "aten::view 831 instead of 850 (no cause known)",
        untold=("aten::bmm", "aten::add"),
    ),
    _counts("fewer than half do not reproduce it", "not_reproduced", {"aten::add": 363}, "1 of 4"),
    Scenario(
        "a third of them does not reproduce it",
        "counts",
        "not_reproduced",
        {"a": record(ops=[op("aten::cat", 1)])},
        COUNTED | {"published": {"aten::bmm": 48, "aten::view": 850, "aten::cat": 1}},
    ),
    Scenario(
        "rows of one name are counted together",
        "counts",
        "reproduced",
        {"a": record(ops=[op("aten::add", 300), op("aten::add", 63)])},
        COUNTED | {"published": {"aten::add": 363}},
    ),
    Scenario(
        "a table without the column of counts blocks the claim",
        "counts",
        "blocked",
        {"a": record(ops=[{"name": "aten::add"}])},
        COUNTED,
        told=("'calls'",),
    ),
]

EQUAL = {
    "left": {"of": "b.ops", "rows": {"name": "mkl::_mkl_linear"}, "column": "calls", "reduce": "sum"},
    "right": {"of": "a.ops", "rows": {"name": "aten::linear"}, "column": "calls", "reduce": "sum"},
    "left_name": "packed",
    "right_name": "eager",
    "if_absent": "not_applicable",
}


def _equal(sentence: str, state: str, left: int | None, right: int, *told: str, **more: Any) -> Scenario:
    compiled = [op("aten::bmm", 48)] + ([op("mkl::_mkl_linear", left)] if left is not None else [])
    seen = {
        "a": record("profile/eager", ops=[op("aten::linear", right)]),
        "b": record("profile/compiled", ops=compiled),
    }
    return Scenario(sentence, "equal_between", state, seen, EQUAL, told=told, **more)


EQUAL_BETWEEN = [
    _equal(
        "equal counts reproduce the claim",
        "reproduced",
        362,
        362,
        "Packed: 362, eager: 362.",
        verdict={"measured": 362},
    ),
    _equal("equal counts reproduce it whatever they are", "reproduced", 32, 32),
    _equal("one call more does not reproduce it", "not_reproduced", 363, 362, "Packed: 363, eager: 362."),
    _equal(
        "what is not there gets the state that the claim names",
        "not_applicable",
        None,
        362,
        "Packed: 0",
        verdict={"measured": 0},
    ),
]

RANKED = {
    "table": {"of": "a.steps"},
    "key": "name",
    "by": "self_s",
    "each": "step",
    "published": ["addmm", "add", "copy_"],
    "leave_out": "^ProfilerStep",
    "enough": 2,
}


def _ranking(
    sentence: str, state: str, names: list[str], *told: str, further: tuple[list[str], ...] = (), **more: Any
) -> Scenario:
    """Rank the operations of one step in this order, and those of further steps, each less expensive, in theirs."""
    rows = []
    for number, order in enumerate((names, *further)):
        ops = [op(name, self_s=0.4 / 2**place / 4**number) for place, name in enumerate(order)]
        rows += [{"step": 5 + 3 * number, **one} for one in [*ops[::-1], op("ProfilerStep*", self_s=0.3)]]
    parameters = RANKED | more.pop("parameters", {})
    return Scenario(sentence, "ranking", state, {"a": record(steps=rows)}, parameters, told=told, **more)


RANKING = [
    _ranking(
        "the published order reproduces the claim",
        "reproduced",
        ["addmm", "add", "copy_", "mul"],
        "In the published order: addmm 38.10 %, add 19.05 %, copy_ 9.52 %.",
        verdict={"measured": "addmm 38.10 %, add 19.05 %, copy_ 9.52 %"},
    ),
    _ranking(
        "the published order in each step reproduces it, whatever comes after, and the sums over the steps are told",
        "reproduced",
        ["addmm", "add", "copy_", "mul", "bmm"],
        "In the published order: addmm 31.87 %, add 15.94 %, copy_ 7.97 %.",
        further=(["addmm", "add", "copy_", "bmm", "mul"],),
    ),
    _ranking(
        "an order that one step does not have is partly, and told",
        "partly",
        ["addmm", "add", "copy_", "mul"],
        "In the published order: ",
        "in another order in 1 of 3 steps.",
        further=(["addmm", "copy_", "add", "mul"], ["addmm", "add", "copy_", "mul"]),
    ),
    _ranking(
        "the sums count, and not how often an order is found",
        "partly",
        ["add", "addmm", "copy_"],
        "Not in the published order: add ",
        "in another order in 2 of 3 steps",
        further=(["addmm", "add", "copy_"], ["addmm", "add", "copy_"]),
    ),
    _ranking(
        "the same set in another order is partly",
        "partly",
        ["add", "addmm", "copy_"],
        "Not in the published order",
        untold=("not among", "another order in"),
    ),
    _ranking(
        "enough of the set is partly, and the missing one is named",
        "partly",
        ["addmm", "mul", "add", "copy_"],
        "not among the first 3: copy_",
    ),
    _ranking(
        "too little of it does not reproduce it",
        "not_reproduced",
        ["addmm", "mul", "bmm", "add"],
        "not among the first 3: add, copy_",
    ),
    _ranking(
        "nothing is left out where nothing is named",
        "partly",
        ["addmm", "add", "copy_"],
        "ProfilerStep*",
        parameters={"leave_out": None},
    ),
    Scenario(
        "a table that does not tell the steps apart blocks the claim",
        "ranking",
        "blocked",
        {"a": record(steps=[op("addmm")])},
        RANKED,
        told=("'step'",),
    ),
]

FOUND_BY = {
    "table": {"of": "a.kernels"},
    "key": "name",
    "list": "ops",
    "sequence": ["add", "add", "mul", "add"],
    "properties": {"vectorized": True, "shape": "(16384, 512)"},
}


def kernel(name: str, *ops: str, vectorized: bool = True, shape: str = "(16384, 512)") -> dict[str, Any]:
    return {"name": name, "ops": list(ops), "vectorized": vectorized, "shape": shape}


def _kernels(sentence: str, state: str, kernels: list[dict[str, Any]], *told: str, **more: Any) -> Scenario:
    return Scenario(sentence, "found_by", state, {"a": record(kernels=kernels)}, FOUND_BY, told=told, **more)


WANTED = ("add", "add", "mul", "add")
KERNELS = [
    _kernels(
        "a kernel is found by what it computes, whatever its name, and with its properties reproduces the claim",
        "reproduced",
        [kernel("k0", "add"), kernel("k1", *WANTED)],
        "1 of 2 have [add, add, mul, add], the nearest is k1",
        "as published: vectorized yes, shape (16384, 512).",
        verdict={"measured": "k1"},
        untold=("otherwise",),
    ),
    _kernels("a kernel that fuses more is another one", "not_reproduced", [kernel("k1", "mul", *WANTED)]),
    _kernels("and so is one with another order", "not_reproduced", [kernel("k1", "add", "mul", "add", "add")]),
    _kernels(
        "another property is partly, and named",
        "partly",
        [kernel("k1", *WANTED, vectorized=False)],
        "otherwise: vectorized no instead of yes",
        "as published: shape (16384, 512)",
    ),
    _kernels(
        "a kernel of which no property is as published is partly",
        "partly",
        [kernel("k1", *WANTED, vectorized=False, shape="(64, 512)")],
        untold=("as published",),
    ),
    _kernels(
        "of several kernels the nearest is judged",
        "reproduced",
        [kernel("k1", *WANTED, vectorized=False), kernel("k2", *WANTED), kernel("k3", *WANTED, shape="(1, 512)")],
        "3 of 3 have [add, add, mul, add], the nearest is k2",
        verdict={"measured": "k2"},
    ),
    _kernels(
        "no kernel does not reproduce it",
        "not_reproduced",
        [kernel("k1", "add", "add", "mul"), kernel("k2", "add")],
        "0 of 2 have [add, add, mul, add].",
        verdict={"measured": None},
    ),
    Scenario(
        "a table without a column for a property blocks the claim",
        "found_by",
        "blocked",
        {"a": record(kernels=[{"name": "k", "ops": list(WANTED), "vectorized": True}])},
        FOUND_BY,
        told=("'shape'",),
    ),
]


# --- measurements: ratio, time_shown, quotient --------------------------------------------------------

RATIO = {
    "numerator": "a.eager",
    "denominator": "a.inductor",
    "placebo": "a.placebo",
    "tolerance": 0.1,
    "precision": 0.25,
}


def processes(*centres: float) -> list[list[float]]:
    return [[value, value, value] for value in centres]


def _ratio(
    sentence: str,
    state: str,
    arms: tuple[list[list[float]], ...],
    *told: str,
    value: float = 2.0,
    precision: float = 0.25,
    **more: Any,
) -> Scenario:
    measurements = dict(zip(("eager", "inductor", "placebo"), arms, strict=True))
    return Scenario(
        sentence,
        "ratio",
        state,
        {"a": record(measurements=measurements)},
        {**RATIO, "precision": precision},
        published(value, "ratio"),
        told=told,
        **more,
    )


QUIET = processes(1.0, 1.0, 1.0)
RATIOS = [
    _ratio(
        "the published ratio within the interval reproduces the claim",
        "reproduced",
        (QUIET, processes(0.5, 0.51, 0.49), QUIET),
        "2.000 (95 % interval 1.88",
        "the published 2.000 is within 10 % of the interval",
        verdict={"unit": "ratio"},
    ),
    _ratio(
        "the published ratio within the tolerance above the interval reproduces it",
        "reproduced",
        (QUIET, processes(1 / 1.9, 1 / 1.9, 1 / 1.9), QUIET),
        verdict={"measured": 1.9, "low": 1.9, "high": 1.9},
    ),
    _ratio(
        "the published ratio within the tolerance below the interval reproduces it",
        "reproduced",
        (QUIET, processes(1 / 2.2, 1 / 2.2, 1 / 2.2), QUIET),
    ),
    _ratio(
        "a smaller ratio in the published direction is partly",
        "partly",
        (QUIET, processes(0.8, 0.81, 0.79), QUIET),
        "the published direction, another size than the published 2.000",
    ),
    _ratio("a larger ratio is another size too", "partly", (QUIET, processes(0.4, 0.4, 0.4), QUIET)),
    _ratio(
        "an interval that holds the published ratio and many others does not reproduce its size",
        "partly",
        (QUIET, processes(0.4, 0.5, 0.6), QUIET),
        "the interval is too wide to tell the size 2.000",
    ),
    _ratio(
        "an interval just as narrow as asked for tells the size",
        "reproduced",
        (QUIET, processes(0.5, 0.5, 0.5), QUIET),
        precision=0.0,
    ),
    _ratio(
        "the other direction does not reproduce it",
        "not_reproduced",
        (QUIET, processes(2.0, 2.02, 1.98), QUIET),
        "the other direction than the published 2.000",
    ),
    _ratio(
        "a published slow-down is reproduced by a slow-down",
        "reproduced",
        (QUIET, processes(2.0, 2.0, 2.0), QUIET),
        value=0.5,
    ),
    _ratio(
        "a published slow-down is not reproduced by a speed-up",
        "not_reproduced",
        (QUIET, processes(0.5, 0.5, 0.5), QUIET),
        value=0.5,
    ),
    _ratio(
        "an interval across 1 is inconclusive, though its middle is far from 1",
        "inconclusive",
        (QUIET, processes(0.5, 1.2, 0.4), QUIET),
        "the interval does not tell it from 1",
    ),
    _ratio(
        "an effect smaller than the placebo's upper end is inconclusive",
        "inconclusive",
        (QUIET, processes(0.9, 0.9, 0.9), processes(1.2, 1.2, 1.2)),
        "the placebo pair may differ by 20 %",
        value=1.1,
    ),
    _ratio(
        "an effect smaller than the placebo's lower end is inconclusive",
        "inconclusive",
        (QUIET, processes(0.9, 0.9, 0.9), processes(0.8, 0.8, 0.8)),
        "the placebo pair may differ by 25 %",
        value=1.1,
    ),
    _ratio(
        "a slow-down smaller than the noise is inconclusive, not the other direction",
        "inconclusive",
        (QUIET, processes(1.1, 1.1, 1.1), processes(1.2, 1.2, 1.2)),
    ),
    _ratio(
        "an effect larger than the noise is told from it",
        "reproduced",
        (QUIET, processes(0.9, 0.9, 0.9), processes(1.05, 1.05, 1.05)),
        value=1.1,
    ),
    _ratio(
        "noise without any bound leaves everything inconclusive",
        "inconclusive",
        (processes(1.0, 1.0), processes(0.5, 0.5), processes(1e-300, 1e300)),
    ),
    _ratio(
        "an interval without an upper end is shown without one",
        "inconclusive",
        (processes(1e-300, 1e300), processes(1.0, 1.0), processes(1e-300, 1e300)),
        verdict={"high": None, "low": 0.0},
    ),
    _ratio(
        "one process gives no interval",
        "inconclusive",
        (processes(1.0), processes(0.5), processes(1.0)),
        "an interval takes two processes",
        verdict={"measured": None},
    ),
    Scenario(
        "an arm that was not measured blocks the claim, by name",
        "ratio",
        "blocked",
        {"a": record(measurements={"eager": QUIET, "inductor": QUIET})},
        RATIO,
        published(2.0, "ratio"),
        told=("debug/program", "'placebo'"),
    ),
]


SPEED_UPS = {
    "words": "time without over with",
    "arms": [
        {"words": "eager", "numerator": "a.eager_without", "denominator": "a.eager_with"},
        {"words": "compiled", "numerator": "a.compiled_without", "denominator": "a.compiled_with"},
    ],
}
ONE = processes(1.0, 1.0, 1.0, 1.0)


def _speed_ups(
    sentence: str,
    state: str,
    eager: list[list[float]],
    compiled: list[list[float]],
    *told: str,
    changed: list[list[float]] = ONE,
    **more: Any,
) -> Scenario:
    measurements = {
        "eager_without": eager,
        "eager_with": changed,
        "compiled_without": compiled,
        "compiled_with": changed,
    }
    return Scenario(
        sentence,
        "speed_ups",
        state,
        {"a": record(measurements=measurements, threads=2)},
        SPEED_UPS | more.pop("parameters", {}),
        told=told,
        **more,
    )


SEVERAL = [
    _speed_ups(
        "a change that makes every arm faster is worth it, and each ratio is told with its interval",
        "reproduced",
        processes(2.0, 2.0, 2.0, 2.0),
        processes(1.5, 1.5, 1.5, 1.5),
        "Time without over with, with its 95 % interval: eager 2.000 (2.000 to 2.000), faster; "
        "compiled 1.500 (1.500 to 1.500), faster.",
        verdict={"measured": "eager 2.00, compiled 1.50", "low": None, "high": None},
    ),
    _speed_ups(
        "what the claim wants told is told after the ratios",
        "reproduced",
        processes(2.0, 2.0, 2.0, 2.0),
        processes(1.5, 1.5, 1.5, 1.5),
        "faster; threads: 2.",
        parameters={"show": {"threads": {"of": "a.threads"}}},
    ),
    _speed_ups(
        "one that makes some arms faster is partly worth it",
        "partly",
        processes(2.0, 2.0, 2.0, 2.0),
        processes(1.5, 0.5, 1.2, 0.9),
        "eager 2.000 (2.000 to 2.000), faster",
        "the interval does not tell it from 1",
    ),
    _speed_ups(
        "and is so where it makes another arm slower, which is named",
        "partly",
        processes(0.5, 0.5, 0.5, 0.5),
        processes(2.0, 2.0, 2.0, 2.0),
        "eager 0.500 (0.500 to 0.500), slower",
        "compiled 2.000 (2.000 to 2.000), faster",
    ),
    _speed_ups(
        "one that makes an arm slower and none faster is not worth it",
        "not_reproduced",
        processes(0.5, 0.5, 0.5, 0.5),
        processes(1.5, 0.5, 1.2, 0.9),
        "slower",
    ),
    _speed_ups(
        "one that makes every arm slower is not worth it either",
        "not_reproduced",
        processes(0.5, 0.5, 0.5, 0.5),
        processes(0.5, 0.5, 0.5, 0.5),
    ),
    _speed_ups(
        "where no arm is told from 1 nothing is said",
        "inconclusive",
        processes(1.1, 0.9, 1.1, 0.9),
        processes(1.5, 0.5, 1.2, 0.9),
        verdict={"measured": "eager 0.99, compiled 0.95"},
    ),
    # Each pair has the ratio 1.25, and the pairs of a block differ by more: slower after faster, then the other way.
    _speed_ups(
        "a ratio that every pair agrees on is within the noise where the processes of an arm differ by more",
        "inconclusive",
        processes(1.25, 2.5, 2.5, 1.25),
        processes(1.25, 2.5, 2.5, 1.25),
        "no more than the noise: the placebo pair may differ by",
        changed=processes(1.0, 2.0, 2.0, 1.0),
    ),
    _speed_ups(
        "one pair gives no interval",
        "inconclusive",
        processes(2.0),
        processes(2.0),
        "an interval takes two processes",
        changed=processes(1.0),
        verdict={"measured": None},
    ),
    Scenario(
        "an arm of several that was not measured blocks the claim, by name",
        "speed_ups",
        "blocked",
        {"a": record(measurements={"eager_without": ONE, "eager_with": ONE})},
        SPEED_UPS,
        told=("debug/program", "'compiled_without'"),
    ),
]


def _time(
    sentence: str,
    state: str,
    centres: tuple[float, ...],
    *told: str,
    unit: str = "ms",
    value: float = 800.0,
    **more: Any,
) -> Scenario:
    return Scenario(
        sentence,
        "time_shown",
        state,
        {"a": record(measurements={"eager": processes(*centres)})},
        {"time": "a.eager", "tolerance": 0.1},
        published(value, unit),
        told=told,
        **more,
    )


TIMES = [
    _time(
        "a time is shown in the published unit",
        "reproduced",
        (0.8, 0.8),
        "800.00 ms (95 % interval 800.00 to 800.00)",
        "published: 800.00 ms",
        verdict={"measured": 800.0, "low": 800.0, "high": 800.0, "unit": "ms"},
    ),
    _time("a time within the tolerance above is the published one", "reproduced", (0.75, 0.75)),
    _time("a time within the tolerance below is the published one", "reproduced", (0.86, 0.86)),
    _time("a longer time is not the published one", "not_reproduced", (0.95, 0.95)),
    _time("nor is a shorter one", "not_reproduced", (0.6, 0.6)),
    _time("the interval counts, not its middle", "reproduced", (0.6, 0.7), verdict={"unit": "ms"}),
    _time("seconds stay seconds", "reproduced", (0.8, 0.8), unit="s", value=0.8, verdict={"measured": 0.8}),
    _time(
        "microseconds are parts of a second", "reproduced", (0.8, 0.8), unit="us", value=8e5, verdict={"measured": 8e5}
    ),
    _time("an end beyond every number is shown as none", "reproduced", (1e-300, 1e300), verdict={"high": None}),
    _time("one process gives no interval", "inconclusive", (0.8,), "an interval takes two processes"),
]


QUOTIENT = {
    "numerator": {"words": "eager", "of": {"of": "a.steps", "rows": {"name": "eager"}}},
    "denominator": {"words": "compiled", "of": {"of": "a.steps", "rows": {"name": "compiled"}}},
    "each": "step",
    "by": "total_s",
    "resolution": 0.05,
    "noise": "a.step",
    "tolerance": 0.1,
    "precision": 0.25,
    "if_absent": "not_applicable",
}
WITHOUT_LINEAR = {
    "numerator": {
        "words": "rest of eager",
        "of": {"of": "a.steps", "rows": {"name": "eager"}},
        "less": {"of": "a.steps", "rows": {"name": "linear"}},
    },
    "denominator": {
        "words": "rest compiled",
        "of": {"of": "a.steps", "rows": {"name": "compiled"}},
        "less": {"of": "a.steps", "rows": {"name": "packed"}},
    },
}


def _quotient(
    sentence: str,
    state: str,
    eager: float | tuple[float, ...],
    compiled: float | tuple[float, ...],
    *told: str,
    value: float = 1.6,
    spread: dict[str, float] | None = None,
    noise: tuple[float, ...] = (1.0, 1.0),
    linear: tuple[float, ...] = (0.4,),
    **more: Any,
) -> Scenario:
    """Take a quantity of each arm in one profiled step, or in several."""
    times = {"eager": eager, "compiled": compiled, "linear": linear, "packed": 0.2}
    steps = [
        {"step": 5 + 3 * number, **op(name, total_s=total)}
        for name, totals in times.items()
        for number, total in enumerate(totals if isinstance(totals, tuple) else (totals,))
    ]
    measured = {"step": [list(noise[:1]), list(noise[1:])]}
    return Scenario(
        sentence,
        "quotient",
        state,
        {"a": record(measurements=measured, steps=steps)},
        QUOTIENT | more.pop("parameters", {}),
        published(value, "ratio", **(spread or {})),
        told=told,
        **more,
    )


QUOTIENTS = [
    _quotient(
        "a quotient near the published one reproduces the claim, and both quantities are told",
        "reproduced",
        0.8,
        0.5,
        "1.60 (1.60 to 1.60 over the steps); eager: 800.000 ms, compiled: 500.000 ms; the published 1.60 is within 10 %",
        verdict={"measured": 1.6, "low": 1.6, "high": 1.6, "unit": "ratio"},
    ),
    _quotient(
        "of several steps the medians are divided, and the range is from the shortest over the longest to the reverse",
        "reproduced",
        (0.9, 0.7, 0.8),
        (0.5, 0.48, 0.52, 0.54),
        "1.57 (1.30 to 1.88 over the steps)",
        "eager: 800.000 ms (700.000 to 900.000, 3 steps), compiled: 510.000 ms (480.000 to 540.000, 4 steps)",
        verdict={"measured": 0.8 / 0.51, "low": 0.7 / 0.54, "high": 0.9 / 0.48},
    ),
    _quotient("a smaller one is partly", "partly", 0.7, 0.5, "another size than the published 1.60"),
    _quotient("a larger one is partly", "partly", 0.9, 0.5),
    _quotient("one just within the tolerance above is reproduced", "reproduced", 0.87, 0.5),
    _quotient("one just within the tolerance below is reproduced", "reproduced", 0.73, 0.5),
    _quotient("a range that reaches the published one from below reproduces it", "reproduced", (0.62, 0.74), 0.5),
    _quotient("a range that reaches it from above does too", "reproduced", (0.87, 0.99), 0.5),
    _quotient(
        "a range too wide to tell a size is partly",
        "partly",
        (0.6, 0.8, 1.1),
        0.5,
        "the steps differ too much to tell the size 1.60",
    ),
    _quotient("the other direction does not reproduce it", "not_reproduced", 0.5, 0.8, "the other direction"),
    _quotient("a published slow-down is not reproduced by a speed-up", "not_reproduced", 0.8, 0.5, value=0.5),
    _quotient("a published slow-down is reproduced by a slow-down", "reproduced", 0.5, 1.0, value=0.5),
    _quotient(
        "steps of which some are faster and some slower do not decide",
        "inconclusive",
        (0.8, 0.8, 0.49),
        0.5,
        "the steps do not tell it from 1",
    ),
    _quotient(
        "nor do they the other way round", "inconclusive", (0.4, 0.4, 0.51), 0.5, "the steps do not tell it from 1"
    ),
    _quotient(
        "what steps do not resolve is inconclusive",
        "inconclusive",
        0.51,
        0.5,
        "profiled steps do not resolve 5 %",
    ),
    _quotient("nor do they resolve the same the other way round", "inconclusive", 0.5, 0.51),
    _quotient("what they resolve is not", "partly", 0.54, 0.5),
    _quotient(
        "less than what the samples of one arm differ by is inconclusive",
        "inconclusive",
        0.6,
        0.5,
        "profiled steps do not resolve 25 %",
        noise=(1.0, 1.25),
    ),
    _quotient("the same the other way round", "inconclusive", 0.5, 0.6, noise=(1.25, 1.0)),
    _quotient("more than that is resolved", "partly", 0.64, 0.5, noise=(1.0, 1.25)),
    _quotient(
        "samples that differ by less than the claim's bound change nothing",
        "inconclusive",
        0.52,
        0.5,
        noise=(1.0, 1.01),
    ),
    _quotient("how long the samples are does not matter", "reproduced", 0.8, 0.5, noise=(20.0, 21.0)),
    _quotient("without any sample nothing is resolved", "inconclusive", 0.8, 0.5, noise=()),
    _quotient(
        "the part that is taken off is taken off both, in its own step",
        "reproduced",
        (1.2, 0.9),
        0.7,
        "rest of eager: 800.000 ms (800.000 to 800.000, 2 steps), rest compiled: 500.000 ms",
        linear=(0.4, 0.1),
        parameters=WITHOUT_LINEAR,
    ),
    _quotient(
        "rows of one step are added up",
        "reproduced",
        0.4,
        0.5,
        "eager: 800.000 ms",
        parameters={"numerator": {"words": "eager", "of": {"of": "a.steps", "rows": {"name": "eager|linear"}}}},
    ),
    _quotient(
        "a published range is as good as its value, at its upper end",
        "reproduced",
        1.04,
        0.5,
        spread={"low": 1.4, "high": 1.9},
    ),
    _quotient(
        "a published range is as good as its value, at its lower end",
        "reproduced",
        0.64,
        0.5,
        spread={"low": 1.4, "high": 1.9},
    ),
    _quotient(
        "a quantity that is not there gets the state that the claim names",
        "not_applicable",
        0.8,
        0.0,
        "compiled: 0.000 ms; so there is no quotient",
        verdict={"measured": None},
    ),
    _quotient("the numerator too", "not_applicable", 0.0, 0.5),
    _quotient("one step without it is enough", "not_applicable", 0.8, (0.5, 0.0)),
    _quotient(
        "no row at all is no quantity", "not_applicable", 0.8, (), "compiled: nothing", verdict={"measured": None}
    ),
    _quotient("and neither is it for the numerator", "not_applicable", (), 0.5, "Eager: nothing"),
]


# --- settings_in_force ----------------------------------------------------------------


def setting(name: str, state: str = "in_force", reason: str | None = None) -> dict[str, Any]:
    return {"name": name, "wanted": "1", "found": "1", "state": state, "reason": reason, "remedy": None}


def _settings(sentence: str, state: str, rows: list[dict[str, Any]], *told: str, **more: Any) -> Scenario:
    return Scenario(
        sentence,
        "settings_in_force",
        state,
        {},
        {"settings": "environment.settings", "names": ["KMP_BLOCKTIME", "LD_PRELOAD"]},
        environment=environment(settings=rows),
        told=told,
        **more,
    )


SETTINGS = [
    _settings(
        "all settings in force reproduce the claim",
        "reproduced",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD"), setting("OMP_NUM_THREADS", state="not_in_force")],
        "2 of 2 settings are in force.",
        verdict={"measured": "2 of 2", "evidence": ["environment"]},
    ),
    _settings(
        "one that is not in force is partly, and told with its reason",
        "partly",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD", state="not_in_force", reason="libjemalloc is not mapped")],
        "1 of 2",
        "not in force: LD_PRELOAD (libjemalloc is not mapped)",
        untold=("KMP_BLOCKTIME",),
    ),
    _settings(
        "one without a reason is told so",
        "partly",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD", state="not_in_force")],
        "LD_PRELOAD (no reason known)",
    ),
    _settings(
        "one that nobody attested is not in force", "partly", [setting("KMP_BLOCKTIME")], "LD_PRELOAD (not attested)"
    ),
    _settings(
        "one that is impossible here is partly, and told apart from what is not in force",
        "partly",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD", state="impossible", reason="no such library here")],
        "1 of 2 settings are in force; not possible on this machine: LD_PRELOAD (no such library here).",
        untold=("not in force",),
    ),
    _settings(
        "what is impossible and what is not in force are both named",
        "not_reproduced",
        [setting("KMP_BLOCKTIME", state="impossible", reason="refused"), setting("LD_PRELOAD", state="not_in_force")],
        "0 of 2 settings are in force; not possible on this machine: KMP_BLOCKTIME (refused); "
        "not in force: LD_PRELOAD (no reason known).",
    ),
    _settings(
        "what the claim needs and the machine cannot do marks its verdict",
        "partly",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD", state="impossible", reason="no such library here")],
        claim={"needs": ["KMP_BLOCKTIME", "LD_PRELOAD"]},
        verdict={"marks": ["LD_PRELOAD is not possible on this machine: no such library here."]},
    ),
    _settings(
        "a setting that the claim does not need marks nothing",
        "partly",
        [setting("KMP_BLOCKTIME"), setting("LD_PRELOAD", state="impossible", reason="no such library here")],
        claim={"needs": ["KMP_BLOCKTIME"]},
        verdict={"marks": []},
    ),
    _settings(
        "none in force does not reproduce it",
        "not_reproduced",
        [setting("KMP_BLOCKTIME", state="not_in_force")],
        "0 of 2",
    ),
    Scenario(
        "an environment without settings blocks the claim",
        "settings_in_force",
        "blocked",
        {},
        {"settings": "environment.settings", "names": ["KMP_BLOCKTIME"]},
        told=("The environment record holds no observation 'settings'",),
    ),
    Scenario(
        "settings without a name block the claim",
        "settings_in_force",
        "blocked",
        {},
        {"settings": "environment.settings", "names": ["KMP_BLOCKTIME"]},
        environment=environment(settings=[{"state": "in_force"}]),
    ),
]

# --- bound_by_memory, ratio_of_totals -----------------------------------------------------------------

BOUND = {
    "numerator": "a.eager",
    "between": "a.preallocated",
    "denominator": "a.inductor",
    "placebo": "a.placebo",
    "bytes": {"of": "a.bytes_moved"},
    "roofs": [{"time": "a.copy"}, {"time": "a.triad"}],
    "most": 0.7,
    "factors": ["allocation", "traffic"],
}
MOVED = {"eager": 90, "preallocated": 90, "inductor": 30, "copy": 20, "triad": 30}


def _bound(
    sentence: str,
    state: str,
    eager: tuple[float, ...],
    preallocated: tuple[float, ...],
    inductor: tuple[float, ...],
    *told: str,
    bytes_moved: dict[str, int] | None = None,
    copy: float = 1.0,
    placebo: tuple[float, ...] | None = None,
    **more: Any,
) -> Scenario:
    """Judge arms under a triad that takes a second, and a copy that takes as long and moves less."""
    times = {
        "eager": eager,
        "preallocated": preallocated,
        "inductor": inductor,
        "placebo": placebo or eager,
        "copy": tuple(copy for _ in eager),
        "triad": tuple(1.0 for _ in eager),
    }
    measured = {arm: processes(*centres) for arm, centres in times.items()}
    moved = [{"arm": arm, "bytes": amount} for arm, amount in (MOVED | (bytes_moved or {})).items() if amount]
    records = {"a": record(measurements=measured, bytes_moved=moved)}
    return Scenario(sentence, "bound_by_memory", state, records, BOUND, told=told, **more)


BOUNDS = [
    _bound(
        "arms at the roof whose traffic is the larger factor are bound by memory, and each number is told with its interval",
        "reproduced",
        (3.6, 3.6),
        (3.0, 3.0),
        (1.25, 1.25),
        "Eager over inductor 2.880 (2.880 to 2.880), with its 95 % interval; "
        "allocation 1.200 (1.200 to 1.200) times traffic 2.400 (2.400 to 2.400), by the bytes moved 3.000; "
        "the latter is 83 % (83 to 83 %) of its logarithm; "
        "bandwidth: preallocated 100 % (100 to 100 %) of triad, inductor 80 % (80 to 80 %) of triad; "
        "both are bound by memory, and the larger factor is traffic.",
        verdict={"measured": "traffic: 83 % (83 to 83 %) of the gain", "low": None, "high": None},
    ),
    _bound("a traffic that is the larger factor by little is so too", "reproduced", (6.0, 6.0), (3.0, 3.0), (1.0, 1.0)),
    _bound(
        "a gain of less than two is one",
        "reproduced",
        (3.1, 3.1),
        (3.0, 3.0),
        (2.0, 2.0),
        "inductor 75 % (75 to 75 %) of triad",
        bytes_moved={"inductor": 45},
    ),
    _bound(
        "where the other factor is the larger one it is partly",
        "partly",
        (12.0, 12.0),
        (3.0, 3.0),
        (1.0, 1.0),
        "both are bound by memory, and the larger factor is allocation.",
    ),
    _bound(
        "a fast arm that stays under the roof is not bound by it",
        "not_reproduced",
        (8.0, 8.0),
        (3.0, 3.0),
        (2.0, 2.0),
        "inductor 50 % (50 to 50 %) of triad",
        "less than 70 % of the roof, so that memory is not what bounds it.",
    ),
    _bound(
        "nor is the arm between",
        "not_reproduced",
        (8.0, 8.0),
        (6.0, 6.0),
        (1.0, 1.0),
        "preallocated 50 % (50 to 50 %) of triad",
    ),
    _bound(
        "one that stays under the roof counts, though the other is not told",
        "not_reproduced",
        (8.0,) * 8,
        (6.0,) * 8,
        (1.3, 1.55) * 4,
    ),
    _bound(
        "where the interval does not tell whether an arm reaches the roof nothing is said",
        "inconclusive",
        (8.0,) * 8,
        (3.0,) * 8,
        (1.3, 1.55) * 4,
        "inductor 70 % (65 to 7",
        "the intervals do not tell whether both reach 70 % of the roof.",
    ),
    _bound(
        "nor where it is the arm between of which it does not tell",
        "inconclusive",
        (16.0,) * 8,
        (3.9, 4.65) * 4,
        (1.0,) * 8,
        "preallocated 70 % (65 to 7",
        "inductor 100 %",
        "the intervals do not tell whether both reach 70 % of the roof.",
    ),
    _bound(
        "where the interval does not tell which factor is the larger one nothing is said",
        "inconclusive",
        (8.0, 10.0),
        (3.0, 3.0),
        (1.0, 1.0),
        "the intervals do not tell which factor is the larger one.",
    ),
    _bound(
        "the roof is the faster one of those that there are",
        "reproduced",
        (3.6, 3.6),
        (3.0, 3.0),
        (1.0, 1.0),
        "bandwidth: preallocated 75 % (75 to 75 %) of copy, inductor 75 % (75 to 75 %) of copy",
        copy=0.5,
    ),
    _bound(
        "a gain that is not told from none has nothing to explain, and its factors are told",
        "inconclusive",
        (1.2, 0.9),
        (3.0, 3.0),
        (1.0, 1.0),
        "times traffic 3.000 (3.000 to 3.000)",
        "the interval does not tell it from 1.",
        verdict={"measured": None},
    ),
    _bound(
        "nor has a gain within the noise",
        "inconclusive",
        (3.6, 3.6),
        (3.0, 3.0),
        (1.0, 1.0),
        "no more than the noise",
        placebo=(36.0, 36.0),
        verdict={"measured": None},
    ),
    _bound(
        "where the fast arm is the slower one there is no gain",
        "not_reproduced",
        (3.6, 3.6),
        (3.0, 3.0),
        (4.0, 4.0),
        "there is no gain to explain.",
        verdict={"measured": None},
    ),
    _bound("one process gives no interval", "inconclusive", (3.6,), (3.0,), (1.0,), "an interval takes two processes"),
    *[
        _bound(
            f"bytes of {arm} that nobody counted block the claim, by name",
            "blocked",
            (3.6, 3.6),
            (3.0, 3.0),
            (1.0, 1.0),
            f"Nobody counted the bytes that {arm!r} moves.",
            bytes_moved={arm: 0},
        )
        for arm in ("preallocated", "inductor", "copy")
    ],
    Scenario(
        "an arm between that was not measured blocks the claim, by name",
        "bound_by_memory",
        "blocked",
        {"a": record(measurements={"eager": QUIET, "inductor": QUIET})},
        BOUND,
        told=("debug/program", "'preallocated'"),
    ),
]

TOTALS = {
    "table": {"of": "a.kinds"},
    "words": "kind",
    "weight": "calls",
    "above": "plain",
    "below": "packed",
    "again": "placebo",
    "margin": 0.02,
    "if_absent": "not_applicable",
    "absent": "nothing is packed here",
}
KINDS = [
    {"kind": "wide", "calls": 3, "plain": "plain_wide", "packed": "packed_wide", "placebo": "placebo_wide"},
    {"kind": "small", "calls": 1, "plain": "plain_small", "packed": "packed_small", "placebo": "placebo_small"},
]


def _totals(
    sentence: str,
    state: str,
    wide: tuple[float, ...],
    *told: str,
    small: float = 0.001,
    again: float = 1.0,
    kinds: list[dict[str, Any]] | None = None,
    **more: Any,
) -> Scenario:
    """Judge a wide kind, called three times, in seconds a call, and a small one, over one second and a thousandth."""
    measured = {
        "plain_wide": processes(*wide),
        "packed_wide": processes(*(1.0 for _ in wide)),
        "placebo_wide": processes(*(again * value for value in wide)),
        "plain_small": processes(*(small for _ in wide)),
        "packed_small": processes(*(0.001 for _ in wide)),
        "placebo_small": processes(*(again * small for _ in wide)),
    }
    records = {"a": record(measurements=measured, kinds=KINDS if kinds is None else kinds)}
    return Scenario(sentence, "ratio_of_totals", state, records, TOTALS, told=told, **more)


OF_TOTALS = [
    _totals(
        "totals are weighted by calls, and told beside their times and the ratio of each kind",
        "reproduced",
        (1.5, 1.5),
        "1.500 (1.500 to 1.500), with its 95 % interval: 4501.000 ms (4501.000 to 4501.000) over "
        "3001.000 ms (3001.000 to 3001.000), 4 calls of 2 kinds; faster; "
        "each: wide 1.500 (1.500 to 1.500), small 1.000 (1.000 to 1.000).",
        verdict={"measured": 4.501 / 3.001, "low": 4.501 / 3.001, "high": 4.501 / 3.001},
    ),
    _totals(
        "a kind that is slower does not matter where it is called little",
        "reproduced",
        (1.5, 1.5),
        "small 0.100 (0.100 to 0.100)",
        small=0.0001,
    ),
    _totals("slower is not reproduced", "not_reproduced", (0.5, 0.5), "slower; each"),
    _totals("slower by little is slower", "not_reproduced", (0.95, 0.95), "slower; each"),
    _totals("faster by less than the margin is the same", "not_reproduced", (1.01, 1.01), "the same within 2 %; each"),
    _totals("so is slower by less than it", "not_reproduced", (0.99, 0.99), "the same within 2 %; each"),
    _totals(
        "faster, but perhaps by less than the margin, is partly reproduced",
        "partly",
        (1.0204, 1.0206),
        "faster, perhaps by less than 2 %; each",
    ),
    _totals("faster by more than the margin in the whole interval is", "reproduced", (1.03, 1.0302), "faster; each"),
    _totals(
        "an interval that holds 1 and reaches out of the margin says nothing",
        "inconclusive",
        (0.9, 1.2),
        "the interval does not tell it from 1; each",
    ),
    _totals("neither does one that is in it at one end", "inconclusive", (0.99, 1.012), "does not tell it from 1"),
    _totals(
        "what the placebo differs by is noise",
        "inconclusive",
        (1.5, 1.5),
        "no more than the noise: the placebo pair may differ by 60 %",
        again=1.6,
    ),
    _totals("one process gives no interval", "inconclusive", (1.5,), "an interval takes two processes"),
    _totals(
        "without any kind the claim gets the state that it names",
        "not_applicable",
        (1.5, 1.5),
        "Nothing is packed here.",
        kinds=[],
    ),
    _totals(
        "so it does where a kind has no such arm",
        "not_applicable",
        (1.5, 1.5),
        "Nothing is packed here.",
        kinds=[KINDS[0], KINDS[1] | {"packed": None}],
    ),
    _totals(
        "a kind that was not measured blocks the claim, by name",
        "blocked",
        (1.5, 1.5),
        "'packed_tall'",
        kinds=[KINDS[0], KINDS[1] | {"packed": "packed_tall"}],
    ),
    _totals("kinds that do not say how often they are called block it", "blocked", (1.5, 1.5), "'kind'", kinds=[{}]),
]


# --- gates: records, requirements, conditions, variants, drift -----------------------------------------

SEEN = {"checks": [check("seen", **{"is": True})]}
SIZES = {"conditions": {"batch": 128, "sequence_length": 128}}
MACHINE = {"conditions": {"machine": "Xeon(R) Platinum 8358"}}
REQUIRED = {
    "requires": [
        {"of": "a.right", "is": True, "words": "the output is right", "otherwise": "not_reproduced"},
        {"of": "a.on_path", "is": True, "words": "the fault is on the path", "otherwise": "not_applicable"},
    ]
}
FAILURE = Failure("ProcessFailed", "The worker was killed by SIGKILL.", "logs/debug/program.log")
KEPT = tuple(Artifact(kind, f"debug/program/{kind}", DIGEST, 1) for kind in ("output_code", "log", "repro"))

GATES = [
    Scenario("a missing record blocks the claim, by name", "holds", "blocked", {"a": record(seen=True)}, SEEN, missing=("a",), told=("There is no record debug/program.",), verdict={"evidence": ["debug/program"], "measured": None}),
    Scenario("a failed record blocks the claim, with its error and its log", "holds", "blocked", {"a": record(status="failed", error=FAILURE)}, SEEN, told=("debug/program failed: The worker was killed by SIGKILL (log: logs/debug/program.log).",)),
    Scenario("a refused record blocks the claim", "holds", "blocked", {"a": record(status="refused", error=FAILURE)}, SEEN, told=("debug/program was refused",)),
    Scenario("a failed record without an error still says that it failed", "holds", "blocked", {"a": record(status="failed", seen=True)}, SEEN, told=("failed: no error was recorded.",)),
    Scenario("an expected failure is an observation", "holds", "reproduced", {"a": record(status="expected_failure", seen=True)}, SEEN),
    Scenario("one bad record of two blocks the claim", "holds", "blocked", {"a": record(seen=True), "b": record("debug/other", status="failed", error=FAILURE)}, SEEN, told=("debug/other",)),
    Scenario("requirements that are met change nothing", "holds", "reproduced", {"a": record(seen=True, right=True, on_path=True)}, SEEN, REQUIRED),
    Scenario(
        "a requirement that is not met gives its state, with what was found, and the value is still shown",
        "holds",
        "not_applicable",
        {"a": record(seen=True, right=True, on_path=False)},
        SEEN,
        REQUIRED,
        verdict={"measured": True},
        told=("Does not hold: the fault is on the path (found: no).",),
    ),
    Scenario("the first requirement that is not met counts", "holds", "not_reproduced", {"a": record(seen=True, right=False, on_path=False)}, SEEN, REQUIRED, told=("the output is right",)),
    Scenario("a requirement is told before the sizes are", "holds", "not_reproduced", {"a": record(seen=True, right=False, on_path=True, batch=8)}, SEEN, REQUIRED | {"conditions": {"batch": 128}}, untold=("batch",)),
    Scenario("the published sizes change nothing", "holds", "reproduced", {"a": record(seen=True, batch=128, sequence_length=128)}, SEEN, SIZES, told=("Holds: seen fits.",)),
    Scenario(
        "other sizes are inconclusive, each named, and the value is still shown",
        "holds",
        "inconclusive",
        {"a": record(seen=True, batch=8, sequence_length=32)},
        SEEN,
        SIZES,
        verdict={"measured": True},
        told=("Batch 8 instead of the published 128, sequence length 32 instead of the published 128; here: Holds: seen fits.",),
    ),
    Scenario("a size that fits is not named", "holds", "inconclusive", {"a": record(seen=False, batch=8, sequence_length=128)}, SEEN, SIZES, untold=("sequence",)),
    Scenario("sizes count in every record that has them", "holds", "inconclusive", {"a": record(seen=True, batch=128, sequence_length=128), "b": record("debug/other", batch=8)}, SEEN, SIZES),
    Scenario("a record without a size leaves it to the others", "holds", "reproduced", {"a": record(seen=True, batch=128, sequence_length=128), "b": record("debug/other")}, SEEN, SIZES),
    Scenario("sizes that no record holds block the claim, by name", "holds", "blocked", {"a": record(seen=True, batch=128)}, SEEN, SIZES, told=("debug/program", "'sequence_length'")),
    Scenario("the tutorial's machine changes nothing", "holds", "reproduced", {"a": record(seen=True)}, SEEN, MACHINE),
    Scenario(
        "another machine is not applicable, and the value is still shown",
        "holds",
        "not_applicable",
        {"a": record(seen=True)},
        SEEN,
        MACHINE,
        environment(EPYC),
        verdict={"measured": True},
        told=(f"Comparable on Xeon(R) Platinum 8358 only, and this is {EPYC}; here: Holds: seen fits.",),
    ),
    Scenario("a machine without a name is another one", "holds", "not_applicable", {"a": record(seen=True)}, SEEN, MACHINE, environment(None), told=("an unknown CPU",)),
    Scenario("an environment that says nothing of its host is another one", "holds", "not_applicable", {"a": record(seen=True)}, SEEN, MACHINE, {}, told=("an unknown CPU",)),
    Scenario("on another machine other sizes are named too", "holds", "not_applicable", {"a": record(seen=True, batch=8)}, SEEN, {"conditions": {"machine": "Xeon", "batch": 128}}, environment(EPYC), told=("Comparable on Xeon only", "batch 8 instead")),
    Scenario("on the tutorial's machine other sizes are inconclusive", "holds", "inconclusive", {"a": record(seen=True, batch=8)}, SEEN, {"conditions": {"machine": "Xeon", "batch": 128}}),
    Scenario("what blocks a claim is not hidden by its conditions", "holds", "blocked", {"a": record(batch=8, sequence_length=8)}, SEEN, SIZES, told=("'seen'",)),
    Scenario(
        "today's default is judged beside the published variant, each on its own records",
        "holds",
        "reproduced",
        {"a": record(seen=True), "today_a": record("debug/program_today", seen=False)},
        SEEN,
        verdict={
            "evidence": ["debug/program"],
            "today": {
                "state": "not_reproduced",
                "measured": False,
                "low": None,
                "high": None,
                "reason": "Does not hold: seen fits (found: no).",
                "evidence": ["debug/program_today"],
            },
        },
    ),
    Scenario("a blocked default leaves the published variant as it is", "holds", "reproduced", {"a": record(seen=True), "today_a": record("debug/today", status="failed", error=FAILURE)}, SEEN, verdict={"measured": True}),
    Scenario(
        "the kinds of artefacts that a claim names are linked after the records, each record once",
        "holds",
        "reproduced",
        {"a": record(seen=True, artifacts=KEPT), "b": record(seen=True, artifacts=KEPT)},
        SEEN,
        {"artifacts": ["output_code", "repro"]},
        verdict={"evidence": ["debug/program", "debug/program/output_code", "debug/program/repro"]},
    ),
    Scenario("drift is told where the records show it", "holds", "reproduced", {"a": record(seen=True, nodes=["neg"])}, SEEN, {"drift": [{"when": {"of": "a.nodes", "lacks": ["clone"]}, "text": "The clone is gone."}, {"when": {"of": "a.seen", "is": True}, "text": "It is seen."}]}, verdict={"drift": "The clone is gone. It is seen."}),
    Scenario("drift is not told where they do not", "holds", "reproduced", {"a": record(seen=True, nodes=["neg", "clone"])}, SEEN, {"drift": [{"when": {"of": "a.nodes", "lacks": ["clone"]}, "text": "The clone is gone."}]}, verdict={"drift": None}),
    Scenario("drift of today's default is looked for in its records", "holds", "reproduced", {"a": record(seen=True), "today_a": record("debug/today", seen=False)}, SEEN, {"drift": [{"when": {"of": "a.seen", "is": False}, "variant": "today", "text": "Changed."}]}, verdict={"drift": "Changed."}),
    Scenario("drift of the published variant is not looked for in today's records", "holds", "reproduced", {"a": record(seen=True), "today_a": record("debug/today", seen=False)}, SEEN, {"drift": [{"when": {"of": "a.seen", "is": False}, "text": "Changed."}]}, verdict={"drift": None}),
    Scenario("drift is not told of a record that failed, and what comes after it still is", "holds", "reproduced", {"a": record(seen=True), "today_a": record("debug/today", status="failed", error=FAILURE, seen=False)}, SEEN, {"drift": [{"when": {"of": "a.seen", "is": False}, "variant": "today", "text": "Changed."}, {"when": {"of": "a.seen", "is": True}, "text": "Seen."}]}, verdict={"drift": "Seen."}),
    Scenario("statement, section, note and published value are handed through", "holds", "reproduced", {"a": record(seen=True)}, SEEN, {"note": "A slip."} | published(5, "count"), verdict={"id": "X1", "section": "A section", "statement": "A statement.", "note": "A slip.", "unit": "count", "published": {"value": 5, "unit": "count", "text": "5"}}),
]  # fmt: skip

SCENARIOS = [
    *HOLDS,
    *SAME_ITEMS,
    *COUNTS,
    *EQUAL_BETWEEN,
    *RANKING,
    *KERNELS,
    *RATIOS,
    *SEVERAL,
    *TIMES,
    *QUOTIENTS,
    *SETTINGS,
    *BOUNDS,
    *OF_TOTALS,
    *GATES,
]


def contradiction(judge: Any, scenario: Scenario) -> str | None:
    """Return how the verdict of ``judge`` (the function) differs from the scenario; None where it does not."""
    from dataclasses import asdict

    (verdict,) = judge(*scenario.build())
    found = asdict(verdict)
    wanted = {"state": scenario.state, **scenario.verdict}
    for name, value in wanted.items():
        if not _alike(found[name], value):
            return f"{name} is {found[name]!r}, not {value!r}"
    for words in scenario.told:
        if words not in found["reason"]:
            return f"the reason does not say {words!r}: {found['reason']}"
    for words in scenario.untold:
        if words in found["reason"]:
            return f"the reason says {words!r}: {found['reason']}"
    return None


def _alike(found: Any, wanted: Any) -> bool:
    if isinstance(found, float) and isinstance(wanted, float):
        return abs(found - wanted) <= 1e-9 * abs(wanted)
    return type(found) is type(wanted) and found == wanted
