"""The claims file: what it holds, and what is refused with the entry that is wrong."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cpulab.claims import Claims, load, roles
from cpulab.errors import BadClaims
from cpulab.paths import PROJECT
from cpulab.records import validator
from cpulab.rules import RULES, STATES

if TYPE_CHECKING:
    from pathlib import Path

TUTORIAL = PROJECT / "workflow" / "claims" / "inductor_debug_cpu.yaml"

IN_ORDER = [
    "D1",
    "D2",
    "D3",
    "D4",
    "D5",
    "D6",
    "D7",
    "D8",
    "L1",
    "L2",
    "C1",
    "C2",
    "C3",
    "C4",
    "C5",
    "C6",
    "A1",
    "A2",
    "M1",
    "M2",
    "M3",
    "M4",
    "M5",
    "E1",
    "E2",
    "B1",
    "B2",
    "B3",
    "B4",
    "P1",
    "P2",
    "P3",
    "P4",
    "P5",
    "P6",
    "P7",
    "P8",
    "K1",
    "K2",
    "K3",
    "K4",
]


@pytest.fixture(scope="module")
def tutorial() -> Claims:
    return load(TUTORIAL)


def test_the_tutorial_has_every_claim_in_its_order(tutorial: Claims) -> None:
    assert [claim.id for claim in tutorial.claims] == IN_ORDER


def test_claims_of_one_section_stand_together(tutorial: Claims) -> None:
    sections = [claim.section for claim in tutorial.claims]
    assert [one for one, before in zip(sections, [None, *sections], strict=False) if one != before] == list(
        dict.fromkeys(sections)
    )


def test_records_named_as_evidence_are_those_that_the_steps_write(tutorial: Claims) -> None:
    named = {
        name for claim in tutorial.claims for held in (claim.evidence, claim.today or {}) for name in held.values()
    }
    assert named == {
        *(f"debug/{program}_{variant}" for program in ("program", "compile_error", "accuracy") for variant in ("scalar", "vectorized")),
        "minify/accuracy",
        *(f"benchmark/{case}" for case in ("mobilebert_as_published", "mobilebert_default", "fused_pattern")),
        *(f"benchmark/{case}_tuning" for case in ("mobilebert", "fused_pattern")),
        *(f"profile/{arm}_{variant}" for arm in ("eager", "compiled") for variant in ("as_published", "default")),
        "roofline/pattern",
        "roofline/linear",
    }  # fmt: skip


def test_published_figures_are_those_that_the_tutorial_prints(tutorial: Claims) -> None:
    found = {claim.id: claim.published["value"] for claim in tutorial.claims}
    assert found["B1"] == pytest.approx(802.1023553796113, abs=0.005)
    assert found["B2"] == pytest.approx(339.95180135127157, abs=0.005)
    assert found["B3"] == pytest.approx(2.359459053287382, abs=1e-6)
    assert found["K2"] == pytest.approx(6.0286805751604735, abs=1e-6)
    assert found["P5"] == pytest.approx(376.888 / 231.573, abs=1e-3)


def test_the_published_range_of_the_other_operations_is_that_of_the_tutorials_own_tables(tutorial: Claims) -> None:
    other = next(claim for claim in tutorial.claims if claim.id == "P6").published
    assert other["low"] == pytest.approx((802.102 - 376.888) / (339.952 - 231.573), abs=0.005)
    assert other["high"] == pytest.approx((810.920 - 376.888) / (336.642 - 231.573), abs=0.005)
    assert other["low"] < other["value"] < other["high"]


def test_a_claim_without_its_optional_parts_has_none_of_them(tutorial: Claims) -> None:
    bare = next(claim for claim in tutorial.claims if claim.id == "M5")
    assert (bare.today, bare.note) == (None, None)
    assert not any((bare.conditions, bare.needs, bare.requires, bare.drift))
    assert next(claim for claim in tutorial.claims if claim.id == "B4").artifacts == []


def test_roles_are_found_however_deep_they_stand() -> None:
    parameters = {
        "numerator": {"words": "x", "of": {"of": "a.total"}, "less": {"of": "b.linear"}},
        "checks": [{"of": "environment.settings", "is": "c.text"}],
        "properties": {"of": "d.nothing"},
    }
    assert roles(parameters) == {"a", "b", "environment"}


def test_the_schema_knows_the_rules_and_states_that_the_judge_knows() -> None:
    schema = validator("claims").schema["$defs"]
    assert set(schema["claim"]["properties"]["rule"]["enum"]) == set(RULES)
    assert tuple(schema["state"]["enum"]) == STATES
    assert {one["if"]["properties"]["rule"]["const"] for one in schema["claim"]["allOf"]} == set(RULES)


# --- what is refused ------------------------------------------------------------------------------

GOOD: dict[str, Any] = {
    "title": "A tutorial",
    "url": "https://example.org",
    "versions": {"torch": "2.0"},
    "machine": "A machine",
    "claims": [
        {
            "id": "X1",
            "section": "A section",
            "statement": "A statement.",
            "published": {"value": 1, "unit": None, "text": "one"},
            "evidence": {"a": "debug/program"},
            "today": {"a": "debug/program_today"},
            "rule": "holds",
            "with": {"checks": [{"of": "a.seen", "is": True, "words": "it is seen"}]},
        }
    ],
}


def _load(tmp_path: Path, data: Any) -> Claims:
    path = tmp_path / "claims.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return load(path)


def _changed(**changes: Any) -> dict[str, Any]:
    data = deepcopy(GOOD)
    data["claims"][0] |= changes
    return data


def test_the_least_claims_file_is_taken(tmp_path: Path) -> None:
    (claim,) = _load(tmp_path, GOOD).claims
    assert (claim.id, claim.rule, claim.evidence) == ("X1", "holds", {"a": "debug/program"})
    assert claim.parameters == GOOD["claims"][0]["with"]


CHECK = {"of": "a.seen", "is": True, "words": "it is seen"}
RATIO = {
    "numerator": "a.eager",
    "denominator": "a.inductor",
    "placebo": "a.placebo",
    "tolerance": 0.1,
    "precision": 0.25,
}


@pytest.mark.parametrize(
    ("changes", "where", "problem"),
    [
        ({"rule": "trust_me"}, "claim X1, rule", "'trust_me' is not one of"),
        ({"confidence": 1}, "claim X1", "'confidence' was unexpected"),
        ({"with": {"checks": [CHECK | {"certainly": 1}]}}, "claim X1, with.checks.0", "'certainly' was unexpected"),
        ({"with": {"checks": [CHECK | {"at_least": 1}]}}, "claim X1, with.checks.0", "is valid under each of"),
        ({"with": {"checks": [{"of": "a.seen", "words": "it"}]}}, "claim X1, with.checks.0", ""),
        ({"with": {"checks": [{"of": "a.seen", "is": 1}]}}, "claim X1, with.checks.0", "'words' is a required property"),
        ({"with": {"checks": [CHECK | {"otherwise": "fine"}]}}, "claim X1, with.checks.0.otherwise", "'fine'"),
        ({"with": {"checks": []}}, "claim X1, with.checks", ""),
        ({"with": RATIO}, "claim X1, with", ""),
        ({"rule": "ratio", "with": RATIO | {"tolerance": "wide"}}, "claim X1, with.tolerance", "'wide' is not of type"),
        ({"rule": "time_shown", "with": {"tolerance": 0.1}}, "claim X1, with", "'time' is a required property"),
        ({"published": {"value": 1, "unit": None}}, "claim X1, published", "'text' is a required property"),
        ({"evidence": {"a": "no record"}}, "claim X1, evidence.a", "does not match"),
        ({"evidence": {"environment": "debug/program"}}, "claim X1", "is the environment record"),
        ({"today": {"b": "debug/program"}}, "claim X1", "`today` has other roles than `evidence`"),
        ({"with": {"checks": [CHECK | {"of": "b.seen"}]}}, "claim X1", "'b.seen' names the role 'b'"),
        ({"requires": [CHECK | {"of": "b.seen", "otherwise": "blocked"}]}, "claim X1", "names the role 'b'"),
        ({"requires": [CHECK]}, "claim X1, requires.0", "'otherwise' is a required property"),
        ({"drift": [{"when": CHECK | {"of": "b.seen"}, "text": "It changed."}]}, "claim X1", "names the role 'b'"),
        ({"drift": [{"text": "It changed."}]}, "claim X1, drift.0", "'when' is a required property"),
        ({"rule": "ratio", "with": RATIO | {"placebo": "b.placebo"}}, "claim X1", "'b.placebo' names the role 'b'"),
        ({"with": {"checks": [{"of": "a.seen", "matches": "(", "words": "it"}]}}, "claim X1", "'(' is not a regular"),
        ({"with": {"checks": [CHECK | {"rows": {"name": "["}}]}}, "claim X1", "'[' is not a regular expression"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_refused_by_name(tmp_path: Path, changes: dict[str, Any], where: str, problem: str) -> None:
    with pytest.raises(BadClaims) as refused:
        _load(tmp_path, _changed(**changes))
    assert f"claims.yaml is wrong at {where}: " in str(refused.value)
    assert problem in str(refused.value)
    assert str(refused.value).endswith("Correct that entry and rerun.")


def test_a_time_or_a_ratio_needs_a_published_number(tmp_path: Path) -> None:
    words = {"published": {"value": "much faster", "unit": "ratio", "text": "much faster"}}
    with pytest.raises(BadClaims, match=r"claim X1, published\.value: 'much faster' is not of type 'number'"):
        _load(tmp_path, _changed(rule="ratio", **{"with": RATIO}, **words))


def test_a_time_needs_a_unit_of_time(tmp_path: Path) -> None:
    hours = {"published": {"value": 1, "unit": "h", "text": "an hour"}}
    with pytest.raises(BadClaims, match=r"claim X1, published\.unit: 'h' is not one of"):
        _load(tmp_path, _changed(rule="time_shown", **{"with": {"time": "a.eager", "tolerance": 0}}, **hours))


def test_drift_of_todays_records_needs_such_records(tmp_path: Path) -> None:
    data = _changed(drift=[{"when": CHECK, "variant": "today", "text": "It changed."}])
    assert _load(tmp_path, data).claims[0].drift
    del data["claims"][0]["today"]
    with pytest.raises(BadClaims, match="claim X1: `drift` looks at today's records, and there is no `today`"):
        _load(tmp_path, data)


def test_two_claims_of_one_id_are_refused(tmp_path: Path) -> None:
    data = deepcopy(GOOD)
    data["claims"].append(deepcopy(data["claims"][0]))
    with pytest.raises(BadClaims, match="claim X1: another claim has the same id"):
        _load(tmp_path, data)


def test_a_claim_without_an_id_is_named_by_its_place(tmp_path: Path) -> None:
    data = deepcopy(GOOD)
    del data["claims"][0]["id"]
    with pytest.raises(BadClaims, match="the claim in place 1: 'id' is a required property"):
        _load(tmp_path, data)


def test_a_claim_that_is_no_mapping_is_named_by_its_place(tmp_path: Path) -> None:
    with pytest.raises(BadClaims, match="the claim in place 1: 'D1'"):
        _load(tmp_path, GOOD | {"claims": ["D1"]})


def test_an_unknown_key_of_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadClaims, match=r"its top level: .*'author' was unexpected"):
        _load(tmp_path, GOOD | {"author": "nobody"})


def test_what_is_no_yaml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadClaims, match=r"its syntax: .*line 1"):
        _load(tmp_path, "title: [")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadClaims, match="its top level: None is not of type 'object'"):
        _load(tmp_path, "")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadClaims, match="its path: there is no such file"):
        load(tmp_path / "none.yaml")
