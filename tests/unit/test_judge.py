"""The judge: what it says of which records, and what it refuses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from judge_scenarios import (
    DIGEST,
    FAILURE,
    SCENARIOS,
    XEON,
    Scenario,
    claim,
    claims,
    contradiction,
    environment,
    record,
    setting,
)

from cpulab import records
from cpulab.claims import load
from cpulab.errors import BadClaims, BadFile, MixedPresets, OtherEnvironment
from cpulab.judge import cpu_model, judge, judge_files, summary
from cpulab.paths import PROJECT
from cpulab.rules import RULES, STATES

if TYPE_CHECKING:
    from pathlib import Path

CLAIMS = PROJECT / "workflow" / "claims" / "inductor_debug_cpu.yaml"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.rule}: {one.sentence}")
def test_scenario(scenario: Scenario) -> None:
    assert contradiction(judge, scenario) is None


def test_no_two_scenarios_have_the_same_sentence() -> None:
    sentences = [(one.rule, one.sentence) for one in SCENARIOS]
    assert len(sentences) == len(set(sentences))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: f"{one.rule}: {one.sentence}")
def test_a_reason_is_one_sentence_that_begins_large_and_ends_with_a_full_stop(scenario: Scenario) -> None:
    (verdict,) = judge(*scenario.build())
    assert re.match(r"[A-Z0-9]", verdict.reason)
    assert verdict.reason.endswith(".")
    assert "\n" not in verdict.reason
    assert ".." not in verdict.reason.replace(" ...", "")


def test_claims_are_judged_in_the_order_of_the_tutorial() -> None:
    seen = {"checks": [{"of": "environment.seen", "is": True, "words": "it is seen"}]}
    entries = [claim(id=name, parameters=seen) for name in ("B2", "A1", "C3")]
    assert [verdict.id for verdict in judge(claims(*entries), {}, {})] == ["B2", "A1", "C3"]


def test_a_verdict_on_counts_carries_the_published_ones_for_the_report() -> None:
    verdict = next(verdict for verdict in judge(load(CLAIMS), {}, environment()) if verdict.id == "P2")
    counts = verdict.published["counts"]
    assert counts["aten::linear"] == 362
    assert len(counts) == 19


def test_judging_needs_neither_torch_nor_any_step() -> None:
    code = "import sys, cpulab.judge; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = run.stdout.split()
    rooms = ("host", "debug", "minify", "measure", "profile", "report", "archive", "step", "cases", "models")
    assert "cpulab.judge" in loaded
    assert not {"torch", *(f"cpulab.{room}" for room in rooms)} & set(loaded)


def test_the_real_claims_are_all_blocked_without_a_record() -> None:
    assert {verdict.state for verdict in judge(load(CLAIMS), {}, environment())} == {"blocked"}


# --- files ---------------------------------------------------------------------------------------


SETTING = setting("KMP_BLOCKTIME")
QUIET = {"default_run_is_silent": True, "default_run_debug_lines": []}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A results folder with an environment and one record made under it."""
    data = {
        "python": "/opt/cpu/bin/python",
        "variables": {"KMP_BLOCKTIME": "1", "LD_PRELOAD": "/home/me/lib/libiomp5.so:/usr/lib/libjemalloc.so.2"},
        "plan": {"cpus": [0, 1], "memory_nodes": [0], "memory_refused": None},
        "versions": {"torch": "2.13.0+cpu"},
        "settings": [SETTING],
        "host": {"cpu_model": {"value": XEON, "reason": None}},
    }
    path = tmp_path / "environment.json"
    sealed = {**data, "digest": records.digest(data)}
    path.write_text(json.dumps(sealed))
    _keep(tmp_path, record("debug/program_scalar", environment=records.digest(data), **QUIET))
    return tmp_path


def _keep(run: Path, one: records.Record) -> Path:
    path = run / f"{one.name}.json"
    records.dump(path, one)
    return path


def _judge(run: Path, *paths: Path) -> dict[str, object]:
    judge_files(CLAIMS, run / "environment.json", paths, run / "verdicts.json")
    return records.load_data(run / "verdicts.json", "verdicts")


@pytest.fixture(autouse=True)
def _any_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's own schema is the environment room's affair."""
    checked = records.schema_problem
    monkeypatch.setattr(
        records, "schema_problem", lambda schema, data: None if schema == "environment" else checked(schema, data)
    )


def test_verdicts_name_the_preset_the_environment_and_the_versions_they_hold_for(run: Path) -> None:
    data = _judge(run, run / "debug/program_scalar.json")
    assert data["preset"] == "tutorial"
    assert data["versions"] == {"torch": "2.13.0+cpu"}
    assert data["title"] == "Inductor CPU backend debugging and profiling"
    assert data["environment"] == {
        "digest": records.load(run / "debug/program_scalar.json").environment,
        "cpu_model": XEON,
        "threads": 2,
        "cpus": [0, 1],
        "memory_nodes": [0],
        # By name: where the libraries stand on the machine is nobody's affair.
        "variables": {"KMP_BLOCKTIME": "1", "LD_PRELOAD": "libiomp5.so:libjemalloc.so.2"},
        "settings": [SETTING],
    }


def test_memory_that_the_kernel_does_not_bind_has_no_nodes_in_the_verdicts() -> None:
    plan = {"cpus": [0], "memory_nodes": [0], "memory_refused": {"reason": "refused", "remedy": "allow it"}}
    assert summary(environment(plan=plan, variables={}))["memory_nodes"] is None


def test_verdicts_hold_every_claim_with_its_state(run: Path) -> None:
    found = {one["id"]: one["state"] for one in _judge(run, run / "debug/program_scalar.json")["claims"]}
    assert list(found) == [one.id for one in load(CLAIMS).claims]
    assert found["D1"] == "reproduced"
    assert found["D2"] == "blocked"


def test_the_same_files_give_the_same_verdicts(run: Path) -> None:
    assert _judge(run, run / "debug/program_scalar.json") == _judge(run, run / "debug/program_scalar.json")


def test_without_any_record_every_claim_is_still_there(run: Path) -> None:
    data = _judge(run)
    assert data["preset"] is None
    assert len(data["claims"]) == len(load(CLAIMS).claims)


def test_a_failed_record_costs_its_claims_and_not_the_verdicts(run: Path) -> None:
    good = records.load(run / "debug/program_scalar.json")
    failed = replace(good, status="failed", observations={}, error=FAILURE)
    (first, *_) = _judge(run, _keep(run, failed))["claims"]
    assert first["state"] == "blocked"
    assert FAILURE.log in first["reason"]


def test_records_of_two_presets_are_not_judged(run: Path) -> None:
    good = records.load(run / "debug/program_scalar.json")
    other = _keep(run, replace(good, case="program_vectorized", preset="smoke"))
    with pytest.raises(MixedPresets, match="smoke, tutorial"):
        _judge(run, run / "debug/program_scalar.json", other)
    assert not (run / "verdicts.json").exists()


def test_a_record_of_another_environment_is_not_judged_and_named(run: Path) -> None:
    good = records.load(run / "debug/program_scalar.json")
    other = _keep(run, replace(good, case="program_vectorized", environment=DIGEST))
    with pytest.raises(OtherEnvironment, match=r"^debug/program_vectorized ran under another environment.*\. Rerun "):
        _judge(run, run / "debug/program_scalar.json", other)
    assert not (run / "verdicts.json").exists()


def test_a_record_cut_short_is_not_judged(run: Path) -> None:
    path = run / "debug/program_scalar.json"
    path.write_text(path.read_text()[:-40])
    with pytest.raises(BadFile, match="cut short"):
        _judge(run, path)


def test_a_record_edited_by_hand_is_not_judged(run: Path) -> None:
    path = run / "debug/program_scalar.json"
    path.write_text(path.read_text().replace('"default_run_is_silent": true', '"default_run_is_silent": false'))
    with pytest.raises(BadFile, match="changed after it was written"):
        _judge(run, path)


def test_an_environment_edited_by_hand_is_not_judged(run: Path) -> None:
    path = run / "environment.json"
    path.write_text(path.read_text().replace("Xeon", "Zeon"))
    with pytest.raises(BadFile, match="changed after it was written"):
        _judge(run, run / "debug/program_scalar.json")


def test_a_wrong_claims_file_is_refused_before_anything_is_written(run: Path, tmp_path: Path) -> None:
    with pytest.raises(BadClaims):
        judge_files(tmp_path / "none.yaml", run / "environment.json", [], run / "verdicts.json")
    assert not (run / "verdicts.json").exists()


def test_the_cpu_has_no_name_where_the_environment_does_not_say_it() -> None:
    assert cpu_model({}) is None
    assert cpu_model(environment(None)) is None
    assert cpu_model(environment(XEON)) == XEON


def test_states_are_in_order_of_goodness() -> None:
    assert STATES == ("reproduced", "partly", "not_reproduced", "inconclusive", "not_applicable", "blocked")


def test_every_rule_has_scenarios_for_more_than_two_states() -> None:
    states = {rule: {one.state for one in SCENARIOS if one.rule == rule} for rule in RULES}
    assert all(len(found) > 2 for found in states.values()), states
