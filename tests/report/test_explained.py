"""A user's own case has one section: the verdict in plain words, what it rests on, and what is not known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pytest
from pages import parsed

from cpulab import records
from cpulab.debug import walk
from cpulab.explain.record import observations
from cpulab.records import Artifact, Failure, Record
from cpulab.report import explained, render, views

WALKS = Path(__file__).parents[1] / "data" / "debug" / "walks"
REAL = Path(__file__).parents[1] / "data" / "report" / "explained"
ATTACK = "<script>alert(1)</script>"

DIFFERENCE = {
    "output": "result", "name": "values", "detail": None, "largest_error": 1.5, "relative_error": 0.25, "elements": 8,
    "of": 64, "causes": {"unexplained": 8}, "wrong": True, "eager_error": 0.0, "compiled_error": 1.5,
}  # fmt: skip


def rung(backend: str, **told: Any) -> dict[str, Any]:
    return {
        "backend": backend, "code": "default", "passed": True, "kind": None, "ending": "ok", "exception": None,
        "exception_chain": "", "message": None, "first_differing": None, "largest_error": 0.0, "differences": [],
        "dynamo_ran": True, "aot_autograd_ran": backend != "eager", "inductor_ran": backend == "inductor", "graphs": 1,
        "kernels": 0, **told,
    }  # fmt: skip


def answer(**told: Any) -> dict[str, Any]:
    """Return what explain says of a program whose negation is wrong, and what ``told`` changes of it."""
    steps = [
        {
            "strategy": "truncate suffix", "granularity": 2, "nodes_before": 6, "inputs_before": 2, "nodes_after": 3,
            "inputs_after": 1, "success": True, "queries": 4, "seconds": 1.25,
        },
    ]  # fmt: skip
    return {
        "case": "/home/user/secret/mine.py:f", "component": "inductor", "kind": "accuracy", "path": "vectorized",
        "op": "aten.neg.default", "subsystem": "lowerings", "direction": "forward", "reason": "8 of 64 are wrong.",
        "differences": ["values"], "errors": {"eager": 1e-7, "inductor": 1.5},
        "minimal": {"nodes": 3, "ops": ["aten.neg.default"], "inputs": 1, "file": "explain/mine_f/minimal.py",
                    "reason": None, "steps": steps},
        "bisector": {"backend": "inductor", "subsystem": "lowerings", "lowering": "aten.maximum", "agrees": False},
        "walk": None, "backward": None, "notes": ["Dynamo broke the graph 2 times."],
        "ladder": [rung("eager"), rung("aot_eager"), rung("inductor", passed=False, kind="accuracy",
                   first_differing="result", largest_error=1.5, differences=[DIFFERENCE])],
        **told,
    }  # fmt: skip


def record(**told: Any) -> Record:
    seen = observations(answer(**told), Path("/home/user/secret/mine.py"))
    return Record(
        "explain", "mine_f", "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-01-01T00:00:00Z", 1.0,
        observations=seen,
    )  # fmt: skip


def section(*records: Record) -> str:
    """Render the section of cases as the page does."""
    shown = [views.Shown(one.name, one, "the end of its log" if one.error else "") for one in records]
    template = render._jinja().get_template("cases.html.j2")
    return template.render(cases=explained.cases(shown), states=views.STATES)


def words(*records: Record) -> str:
    return parsed(section(*records)).text


def test_a_wrong_result_names_who_is_at_fault_where_and_in_which_code() -> None:
    text = words(record())
    assert "Inductor is at fault: the result is wrong at aten.neg.default in vectorized code." in text
    assert "8 of 64 are wrong." in text
    assert "Dynamo broke the graph 2 times." in text


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"component": None, "kind": None}, "✓ Right: nobody is at fault"),
        ({"component": None, "kind": "precision_policy"}, "Nobody is at fault: the precision is another one by policy"),
        ({"component": None, "kind": "hang"}, "Not judged: eager itself does not come to an end"),
        ({"component": None, "kind": "invalid_case"}, "Not judged: this is no case that can be compared"),
        ({"component": "dynamo", "kind": "crash", "op": None, "path": None}, "Dynamo is at fault: the process crashes"),
        ({"direction": "backward"}, "Inductor is at fault: the result is wrong in the backward at aten.neg.default"),
    ],
)
def test_each_verdict_has_its_words(told: dict[str, Any], said: str) -> None:
    assert said in words(record(**told))


def test_the_ladder_the_differences_and_the_errors_stand_in_tables() -> None:
    text = words(record())
    assert "inductor default ✗ failed accuracy result 1.5 Dynamo, AOTAutograd, Inductor" in text
    assert "result values 8 of 64 1.5 0.25 unexplained 8 yes" in text
    assert "Error of eager against float64 1e-07" in text
    assert "Error of Inductor against float64 1.5" in text


def test_the_bisector_stands_beside_and_a_disagreement_is_said() -> None:
    text = words(record())
    assert "Ours inductor lowerings aten.neg.default CompilerBisector inductor lowerings aten.maximum" in text
    assert "The two disagree." in text
    agreed = {"backend": "inductor", "subsystem": None, "lowering": None, "agrees": True}
    assert "disagree" not in words(record(bisector=agreed))
    assert "CompilerBisector" not in words(record(bisector=None))


def test_the_least_program_is_shown_with_its_steps_and_linked() -> None:
    shown = record()
    shown.observations.update(minimal_file="explain/mine_f/minimal.py", minimal_program="print(-x)")
    html = section(shown)
    page = parsed(html)
    assert "print(-x)" in page.text
    assert "truncate suffix 2 6 2 3 1 smaller 4 1.25" in page.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "explain/mine_f/minimal.py" in {a["href"] for a in page.all("a")}
    assert "Nodes of the graph, step by step" in html


def test_why_there_is_no_least_program_is_said() -> None:
    minimal = {"nodes": None, "ops": None, "file": None, "reason": "alone, the graph does not fail."}
    assert "No least program: alone, the graph does not fail." in words(record(minimal=minimal))


def test_a_case_whose_step_failed_has_its_section_and_costs_the_others_nothing() -> None:
    failure = Failure("ProcessFailed", "The worker was killed.", "logs/explain/other_g.log")
    failed = replace(record(), case="other_g", status="failed", observations={}, error=failure)
    html = section(record(), failed)
    text = parsed(html).text
    assert "explain/other_g failed: The worker was killed." in text
    assert "No verdict: the step itself failed" in text
    assert "Inductor is at fault" in text
    assert 'id="case-other_g"' in html
    assert 'id="case-mine_f"' in html


def test_a_case_that_cannot_be_judged_says_why() -> None:
    told: dict[str, Any] = {"component": None, "kind": "invalid_case", "reason": "mine.py has a syntax error in line 3.",
                            "ladder": [], "errors": None, "bisector": None, "op": None}  # fmt: skip
    text = words(record(**told))
    assert "mine.py has a syntax error in line 3." in text
    assert "The ladder" not in text


def test_its_walk_is_linked_and_the_guilty_link_is_written_out() -> None:
    shown = record()
    graph = json.loads((WALKS / "one_kernel.json").read_text(encoding="utf-8"))
    shown.observations.update(walk.observations(walk.walk(graph, guilty=["auto tmp2 = -tmp1;"], guilty_fx="neg")))
    html = section(shown)
    assert "walk/explain_mine_f.html" in {a["href"] for a in parsed(html).all("a")}
    chain = re.search(r'<ol class="chain">.*?</ol>', html, re.DOTALL)
    assert chain is not None
    assert parsed(chain[0]).text.endswith("C++ auto tmp2 = -tmp1; line 52")


def test_tlparses_report_is_linked_where_there_is_one() -> None:
    assert "tlparse" not in words(record())
    kept = [Artifact("tlparse", "explain/mine_f/tlparse/index.html", "0" * 64, 1)]
    kept += [Artifact("tlparse_file", f"explain/mine_f/tlparse/{n}.txt", "0" * 64, 1) for n in range(30)]
    page = parsed(section(replace(record(), artifacts=kept)))
    assert "explain/mine_f/tlparse/index.html" in {a["href"] for a in page.all("a")}
    assert not any("tlparse/1.txt" in (a["href"] or "") for a in page.all("a"))


def test_nothing_of_the_users_folders_is_shown_and_text_is_never_markup() -> None:
    shown = record(reason=ATTACK, notes=[ATTACK], op=ATTACK)
    shown.observations["minimal_program"] = ATTACK
    html = section(shown)
    assert "/home/user" not in html
    assert ATTACK not in html
    page = parsed(html)
    assert page.faults == page.open == []


def test_a_record_with_nothing_in_it_breaks_nothing() -> None:
    assert parsed(section(replace(record(), observations={}))).faults == []
    assert parsed(section(replace(record(), observations={"case": "mine.py:f"}))).faults == []


def test_a_page_without_cases_has_no_section_of_them() -> None:
    template = (render.TEMPLATES / "report.html.j2").read_text(encoding="utf-8")
    assert (
        jinja2.Template(re.findall(r"\{% if cases %\}.*?\{% endif %\}", template, re.DOTALL)[0]).render(cases=[]) == ""
    )


def real(name: str) -> Record:
    return records.load(REAL / f"{name}.json")


def test_a_real_fault_is_told_from_the_verdict_to_its_line_of_c_plus_plus() -> None:
    html = section(real("doubled"))
    page = parsed(html)
    assert page.faults == page.open == []
    assert "✗ Inductor is at fault: the result is wrong at aten.neg.default in vectorized code" in page.text
    assert "Ours inductor lowerings aten.neg.default CompilerBisector inductor lowerings neg" in page.text
    chain = re.search(r'<ol class="chain">.*?</ol>', html, re.DOTALL)
    assert chain is not None
    steps = parsed(chain[0]).text
    for step in (
        "torch.neg(hidden)",
        "torch.ops.aten.neg.default(relu)",
        "neg = ops.neg(relu)",
        "auto tmp2 = (tmp1 + tmp1);",
    ):
        assert step in steps
    assert "def minimal(relu):" in page.text
    assert "guilty node alone 1 8 2 3 1 smaller 1" in page.text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("crash", "Not judged: eager itself crashes. Eager itself crashes with a segmentation fault (SIGSEGV)."),
        ("broken", "Not judged: this is no case that can be compared. broken.py has a syntax error in line 1"),
        ("silent", "silent returns nothing and changes none of its inputs, so there is nothing to compare."),
    ],
)
def test_a_real_case_that_cannot_be_judged_says_why_and_costs_the_others_nothing(name: str, said: str) -> None:
    text = words(real(name), real("doubled"))
    assert said in text
    assert "Inductor is at fault: the result is wrong at aten.neg.default" in text
