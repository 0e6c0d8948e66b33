"""The tutorial's claims judged on records of real runs (tests/data/judge): what torch 2.13 gives at the smallest size."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from judge_scenarios import EPYC, environment, setting

from cpulab.claims import load
from cpulab.judge import Verdict, judge
from cpulab.paths import PROJECT
from cpulab.records import load_all

RECORDED = Path(__file__).parents[1] / "data" / "judge"
CLAIMS = PROJECT / "workflow" / "claims" / "inductor_debug_cpu.yaml"


@cache
def verdicts() -> dict[str, Verdict]:
    records = load_all(sorted(RECORDED.glob("*/*.json")))
    settings = [
        setting(name) for claim in load(CLAIMS).claims if claim.id == "E1" for name in claim.parameters["names"]
    ]
    return {one.id: one for one in judge(load(CLAIMS), records, environment(EPYC, settings=settings))}


# Claim -> as published, today's default.
STATES = {
    "D1": ("reproduced", "reproduced"),
    "D2": ("reproduced", "reproduced"),
    "D3": ("reproduced", "reproduced"),
    "D4": ("reproduced", "reproduced"),
    "D5": ("partly", "partly"),
    "D6": ("partly", "partly"),
    "D7": ("reproduced", "reproduced"),
    "D8": ("reproduced", "reproduced"),
    "L1": ("reproduced", "reproduced"),
    "L2": ("reproduced", "not_applicable"),
    "C1": ("reproduced", "partly"),
    "C2": ("partly", "not_applicable"),
    "C3": ("reproduced", "not_applicable"),
    "C4": ("reproduced", "not_applicable"),
    "C5": ("reproduced", "reproduced"),
    "C6": ("reproduced", "not_applicable"),
    "A1": ("reproduced", "not_applicable"),
    "A2": ("reproduced", "not_applicable"),
    "M1": ("reproduced", None),
    "M2": ("partly", None),
    "M3": ("partly", None),
    "M4": ("reproduced", None),
    "M5": ("reproduced", None),
    "E1": ("reproduced", None),
    "E2": ("inconclusive", None),
    "B1": ("not_applicable", "not_applicable"),
    "B2": ("not_applicable", "not_applicable"),
    "B3": ("inconclusive", "inconclusive"),
    "B4": ("reproduced", "reproduced"),
    "P1": ("inconclusive", "inconclusive"),
    "P2": ("inconclusive", "inconclusive"),
    "P3": ("reproduced", "not_applicable"),
    "P4": ("reproduced", "reproduced"),
    "P5": ("inconclusive", "inconclusive"),
    "P6": ("inconclusive", "inconclusive"),
    "P7": ("reproduced", "reproduced"),
    "P8": ("partly", "partly"),
    "K1": ("inconclusive", "inconclusive"),
    "K2": ("partly", None),
    "K3": ("inconclusive", None),
    "K4": ("inconclusive", None),
}


@pytest.mark.parametrize("identity", STATES)
def test_real_records_give_each_claim_its_state(identity: str) -> None:
    verdict = verdicts()[identity]
    found = verdict.state, verdict.today.state if verdict.today else None
    assert found == STATES[identity], (verdict.reason, verdict.today)


def test_every_claim_is_judged_on_real_records() -> None:
    assert list(verdicts()) == list(STATES)


def test_what_is_missing_and_what_is_new_is_named() -> None:
    assert "missing: clone" in verdicts()["D5"].reason
    assert "not published: Remove outputs, Consolidate Inputs" in verdicts()["M3"].reason
    assert "found: 5, 4, 3" in verdicts()["M2"].reason


def test_the_small_size_is_named_and_the_ratio_still_shown() -> None:
    speedup = verdicts()["B3"]
    assert speedup.reason.startswith("Batch 2 instead of the published 128, sequence length 32")
    assert isinstance(speedup.measured, float)


def test_what_the_tuning_is_worth_is_told_of_each_arm_and_beside_the_threads_of_both() -> None:
    worth = verdicts()["E2"]
    arms = ["eager MobileBERT", "compiled MobileBERT", "the eager pattern", "the compiled pattern"]
    assert [part.rsplit(" ", 1)[0] for part in str(worth.measured).split(", ")] == arms
    assert all(f"{arm} " in worth.reason for arm in arms)
    assert worth.reason.endswith("threads untuned: 2, tuned: 2.")
    assert worth.evidence == ["benchmark/mobilebert_tuning", "benchmark/fused_pattern_tuning"]


def test_another_cpu_is_named_and_the_time_still_shown() -> None:
    eager = verdicts()["B1"]
    assert EPYC in eager.reason
    assert isinstance(eager.measured, float)
    assert eager.unit == "ms"


def test_drift_is_told_where_it_is_seen() -> None:
    drifted = {name for name, verdict in verdicts().items() if verdict.drift}
    assert drifted == {
        "D5",
        "D6",
        "D7",
        "L2",
        "C1",
        "C2",
        "C6",
        "A1",
        "A2",
        "M1",
        "M2",
        "M3",
        "P3",
        "P4",
        "P6",
        "P7",
        "K1",
    }


def test_the_kernel_is_found_by_its_operations() -> None:
    assert str(verdicts()["K1"].measured).startswith("cpp_fused_add_addmm_mul_relu_view_")
