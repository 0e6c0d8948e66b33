"""What the page shows of verdicts and records."""

from __future__ import annotations

import pytest

from cpulab.records import Record
from cpulab.report import views


def claims(**states: int) -> list[dict[str, str]]:
    return [{"state": state} for state, number in states.items() for _ in range(number)]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"reproduced": 3}, "All 3 of the tutorial's findings hold on this machine."),
        ({"reproduced": 1, "partly": 1}, "1 of the tutorial's 2 findings holds on this machine; 1 holds in part."),
        (
            {"reproduced": 2, "not_reproduced": 1, "inconclusive": 2, "blocked": 3},
            (
                "2 of the tutorial's 8 findings hold on this machine; 1 does not hold, 2 cannot be decided and "
                "3 are blocked."
            ),
        ),
        ({"not_applicable": 1}, "0 of the tutorial's 1 findings hold on this machine; 1 has no counterpart here."),
    ],
)
def test_the_outcome_is_one_sentence_that_counts_every_claim(states: dict[str, int], said: str) -> None:
    assert views.outcome(claims(**states)) == said


def test_the_tally_counts_every_state_in_order_of_goodness() -> None:
    counted = [(state.key, number) for state, number in views.tally(claims(blocked=1, reproduced=2))]
    assert counted == [
        ("reproduced", 2), ("partly", 0), ("not_reproduced", 0), ("inconclusive", 0), ("not_applicable", 0), ("blocked", 1),
    ]  # fmt: skip


def shown(**observations: object) -> views.Shown:
    record = Record(
        "benchmark", "x", "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-03-01T10:00:00Z", 1.0,
        observations,  # type: ignore[arg-type]
    )  # fmt: skip
    return views.Shown("benchmark/x", record, "")


def test_a_link_belongs_to_the_line_of_its_number_and_text() -> None:
    lines = ["auto tmp0 = a;", "auto tmp1 = b;", "auto tmp0 = a;"]
    links = [{"line": 1, "cpp": "auto tmp0 = a;", "fx": "neg", "ir": "load", "aten": None}]
    found = views.kernel_lines(lines, links, {"auto tmp1 = b;": "here", None: "nowhere"})
    assert [line.fx for line in found] == ["neg", None, None]
    assert [line.mark for line in found] == [None, "here", None]
    assert [line.linked for line in found] == [True, False, False]


def test_a_kernel_begins_and_ends_with_a_line_that_says_something_and_keeps_its_numbers() -> None:
    found = views.kernel_lines(["", "void kernel() {", "", "}", "  "], [])
    assert [(line.number, line.text) for line in found] == [(2, "void kernel() {"), (3, ""), (4, "}")]


def test_the_ladder_has_a_column_for_every_backend_that_any_case_climbed() -> None:
    rung = {"passed": True, "dynamo_ran": True}
    full = shown(ladder=[{"backend": "eager", **rung}, {"backend": "inductor", **rung}])
    short = shown(ladder=[{"backend": "eager", **rung}])
    ladder = views.ladder([full, short, views.Shown("debug/gone", None, "")])
    assert [one["backend"] for one in ladder.backends] == ["eager", "inductor"]
    assert [[rung is not None for rung in row.rungs] for row in ladder.rows] == [[True, True], [True, False]]
    assert [gap.name for gap in ladder.gaps] == ["debug/gone"]


def test_evidence_without_a_record_has_no_link() -> None:
    cases = {"debug/there": shown(), "debug/gone": views.Shown("debug/gone", None, "")}
    names = ["debug/there", "debug/gone", "debug/there/output_code.py", "environment"]
    assert [link.target for link in views.evidence(names, cases)] == [
        "debug/there.json", None, "debug/there/output_code.py", "environment.json",
    ]  # fmt: skip
