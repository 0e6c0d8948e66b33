"""The page: what it says, that it stands alone, and that nothing it is given can break it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pages import Results, parsed, record_paths

from cpulab import records
from cpulab.errors import BadFile
from cpulab.paths import PROJECT
from cpulab.records import Failure, dump_data
from cpulab.report.render import render_files, tables
from cpulab.report.views import STATES

GOLD = Path(__file__).parents[1] / "data" / "report" / "gold.html"
ATTACK = "<script>alert(1)</script>"


def test_the_page_is_the_gold_one(results: Results) -> None:
    # The style sheet and the script are files of their own; a change there is seen there.
    page = re.sub(r"(<(style|script)>).*?(</\2>)", r"\1\3", results.page(), flags=re.DOTALL)
    page = re.sub(r"sha256-[\w+/=]+", "sha256-", page)
    if os.environ.get("CPULAB_ACCEPT_GOLD") == "1":
        GOLD.write_text(page, encoding="utf-8")
    assert page == GOLD.read_text(encoding="utf-8"), "see tests/report/README.md for how to accept a new page"


def test_the_same_input_gives_the_same_bytes_in_whatever_order_it_comes(folder: Path) -> None:
    pages = []
    for paths in (record_paths(folder), record_paths(folder)[::-1]):
        render_files(folder / "verdicts.json", folder / "environment.json", paths, folder / "report.html")
        pages.append((folder / "report.html").read_bytes())
    assert pages[0] == pages[1]


def test_every_element_is_closed_and_every_id_is_there_once(results: Results) -> None:
    page = parsed(results.page())
    assert page.faults == []
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_links_within_the_page_lead_somewhere(results: Results) -> None:
    page = parsed(results.page())
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    targets = {(link["href"] or "")[1:] for link in page.all("a") if (link["href"] or "").startswith("#")}
    assert len(targets) > 50
    assert targets <= ids


def test_links_to_files_lead_to_what_the_records_name(results: Results) -> None:
    named = {"environment.json", *tables(results.verdicts, results.records, results.folder)}
    for record in results.records.values():
        named |= {f"{record.name}.json", f"logs/{record.name}.log", *(one.path for one in record.artifacts)}
        if "walk_rows" in record.observations:
            named.add(f"walk/{record.name.replace('/', '_')}.html")
    links = {link["href"] for link in parsed(results.page()).all("a")}
    files = {href for href in links if href and not href.startswith(("#", "https://"))}
    assert files <= named
    assert {f"{record.name}.json" for record in results.records.values()} <= files


def test_the_page_takes_nothing_from_the_network(results: Results) -> None:
    html = results.page()
    page = parsed(html)
    assert not any("src" in attributes or "srcset" in attributes for _, attributes in page.elements)
    assert [link["href"] for link in page.all("link")] == ["data:,"]
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|new Image|WebSocket", html)
    assert {tag for tag, attributes in page.elements if "http" in str(attributes.get("href"))} <= {"a"}
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy


def test_every_claim_is_there_with_its_statement_and_its_reason(results: Results) -> None:
    html = results.page()
    text = parsed(html).text
    assert len(results.verdicts["claims"]) == 41
    for claim in results.verdicts["claims"]:
        assert f'<tbody id="{claim["id"]}"' in html
        for words in (claim["statement"], claim["reason"], claim["published"]["text"]):
            assert " ".join(words.split()) in text


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_told_by_a_word_and_a_symbol_and_not_by_colour_alone(results: Results, state: str) -> None:
    results.claim("D1")["state"] = state
    row = re.search(r'<tbody id="D1".*?</tr>', results.page(), re.DOTALL)
    assert row is not None
    words = parsed(row[0]).text
    assert words.endswith(f"{STATES[state].symbol} {STATES[state].word}")
    assert len({one.symbol for one in STATES.values()}) == len(STATES)


def test_today_and_drift_stand_beside_what_was_published(results: Results) -> None:
    claim = results.claim("D5")
    claim["drift"] = "The clone is gone since 2.1."
    claim["today"] = {**claim["today"], "state": "not_applicable", "reason": "Today there is no such thing."}
    row = re.search(r'<tbody id="D5".*?</tbody>\s*<tbody id="D6"', results.page(), re.DOTALL)
    assert row is not None
    words = parsed(row[0]).text
    assert "As published Today\N{RIGHT SINGLE QUOTATION MARK}s default" in words
    assert "\N{EN DASH} not applicable" in words
    assert "Today there is no such thing." in words
    assert "Changed since The clone is gone since 2.1." in words


def test_what_was_measured_has_its_interval_and_its_unit(results: Results) -> None:
    results.claim("B1").update(measured=812.345, low=790.0, high=835.0, unit="ms")
    assert "812 ms (790 to 835)" in parsed(results.page()).text.replace("\N{NO-BREAK SPACE}", " ")


def test_text_of_a_record_is_text_and_never_markup(results: Results) -> None:
    _attack(results, "debug/program_scalar", kernel_lines=[ATTACK], fx_nodes=[ATTACK])
    _attack(results, "minify/accuracy", strategies_available=[ATTACK])
    ops = [{"name": ATTACK, "calls": 1, "self_s": 1.0, "total_s": 1.0, "share": 1.0}]
    _attack(results, "profile/eager_default", ops=ops)
    results.claim("D1")["reason"] = ATTACK
    results.environment["host"]["cpu_model"]["value"] = ATTACK
    html = results.page()
    assert ATTACK not in html
    assert html.count("&lt;script&gt;alert(1)") >= 6
    assert len(parsed(html).all("script")) == 1


def test_a_figure_escapes_its_words(results: Results) -> None:
    steps = [{**step, "strategy": ATTACK} for step in results.records["minify/accuracy"].observations["steps"]]  # type: ignore[dict-item, union-attr]
    _attack(results, "minify/accuracy", steps=steps)
    assert ATTACK not in results.page()


def _attack(results: Results, name: str, **observations: Any) -> None:
    record = results.records[name]
    results.records[name] = replace(record, observations={**record.observations, **observations})


def test_a_missing_record_is_said_and_breaks_nothing(results: Results) -> None:
    for name in list(results.records):
        record = results.records.pop(name)
        page = parsed(results.page())
        assert page.faults == []
        assert f"{name} has no record, so it is not shown" in page.text
        results.records[name] = record


def test_a_page_without_any_record_is_still_a_page(results: Results) -> None:
    results.records.clear()
    results.verdicts["preset"] = None
    page = parsed(results.page())
    assert page.faults == []
    assert "How to rerun and cite" in page.text


def test_a_record_that_observed_nothing_breaks_nothing(results: Results) -> None:
    for name, record in results.records.items():
        results.records[name] = replace(record, observations={}, measurements=[], artifacts=[])
    assert parsed(results.page()).faults == []


def _failed(results: Results, name: str, log: str) -> None:
    failure = Failure("ProcessFailed", "The worker was killed by SIGKILL after 3 s.", log)
    results.records[name] = replace(
        results.records[name], status="failed", observations={}, measurements=[], artifacts=[], error=failure
    )


def test_a_failed_step_shows_its_reason_and_the_end_of_its_log(results: Results) -> None:
    log = results.folder / "logs" / "profile" / "compiled_default.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join([*(f"logged {number}" for number in range(100)), ATTACK]))
    _failed(results, "profile/compiled_default", "logs/profile/compiled_default.log")
    claim = results.claim("P4")
    claim["today"] = {**claim["today"], "state": "blocked"}
    html = results.page()
    words = parsed(html).text
    told = "profile/compiled_default failed: The worker was killed by SIGKILL after 3 s."
    assert words.count(told) == 2  # where the exhibit would be, and where the claim is
    assert "logged 99" in words
    assert "logged 50" not in words
    assert ATTACK not in html


def test_a_log_outside_of_the_results_is_not_read(results: Results) -> None:
    (results.folder.parent / "secret.log").write_text("not for this page")
    _failed(results, "profile/compiled_default", "../secret.log")
    assert "not for this page" not in results.page()


def test_a_size_that_is_not_the_published_one_is_said_at_the_top(results: Results) -> None:
    assert "Not the published size. Preset smoke:" in parsed(results.page()).text
    results.verdicts["preset"] = "tutorial"
    assert "Not the published size" not in parsed(results.page()).text


def test_weights_that_are_not_the_published_ones_are_said_at_the_top(results: Results) -> None:
    for weights, told in (("seeded", "The weights are random"), ("own", "The model is not the tutorial's")):
        for name, record in results.records.items():
            if "weights" in record.observations:
                results.records[name] = replace(record, observations={**record.observations, "weights": weights})
        assert told in parsed(results.page()).text


def test_why_the_weights_are_not_the_published_ones_is_said(results: Results) -> None:
    found = {"weights": "seeded", "problem": "the hub does not answer"}
    record = replace(results.records["profile/eager_default"], step="model", case="weights", observations=found)
    results.records[record.name] = record
    page = parsed(results.page())
    assert "Weights seeded; the hub does not answer" in page.text
    assert "model/weights.json" in {link["href"] for link in page.all("a")}


def test_calls_are_set_against_the_published_ones(results: Results) -> None:
    results.claim("P2")["published"] |= {
        "counts": {"aten::linear": 362, "aten::never": 7},
        "conditions": {"layers": 24},
    }
    calls = next(op["calls"] for op in _ops(results) if op["name"] == "aten::linear")
    words = parsed(results.page()).text
    assert re.search(rf"aten::linear 362 {calls} {calls - 362:+d} layers 2 and not 24 ", words)
    assert "aten::never 7 0 -7 layers 2 and not 24 0 layers 2 and not 24" in words


def _ops(results: Results) -> list[dict[str, Any]]:
    return results.records["profile/eager_as_published"].observations["ops"]  # type: ignore[return-value]


def test_the_first_twenty_operations_are_shown_by_self_time_and_the_rest_folded(results: Results) -> None:
    html = results.page()
    table = re.search(r'aria-label="Operations, profile/eager_as_published".*?</table>', html, re.DOTALL)
    assert table is not None
    names = re.findall(r'<th scope="row"><code>(.*?)</code>', table[0])
    ops = [op for op in sorted(_ops(results), key=lambda op: -op["self_s"]) if op["name"] != "ProfilerStep*"]
    assert names == [op["name"] for op in ops[:20]]
    assert f"All {len(ops)} operations" in html


def test_what_the_machine_cannot_do_marks_the_claims_that_need_it(results: Results) -> None:
    results.verdicts["claims"][0]["marks"] = ["numactl -m is not possible on this machine: refused."]
    assert '<span class="mark">numactl -m is not possible on this machine: refused.</span>' in results.page()


def test_a_setting_that_is_not_in_force_and_one_that_is_impossible_look_different(results: Results) -> None:
    row = results.verdicts["environment"]["settings"][0]
    results.verdicts["environment"]["settings"] = [
        row | {"state": "impossible", "reason": "refused", "remedy": "allow it"},
        row | {"state": "not_in_force", "reason": "another value"},
    ]
    html = results.page()
    assert "not possible here</span></td><td>refused; allow it</td>" in html
    assert "no</span></td><td>another value</td>" in html


def test_the_folder_of_the_project_is_not_told(results: Results) -> None:
    results.environment["settings"] = []
    results.verdicts["environment"]["settings"] = [
        {
            "name": "LD_PRELOAD",
            "wanted": f"{PROJECT}/.venv-cpu/lib/libiomp5.so",
            "found": None,
            "state": "not_in_force",
            "reason": None,
            "remedy": None,
        }
    ]
    html = results.page()
    assert str(PROJECT) not in html
    assert ".venv-cpu/lib/libiomp5.so" in html


def test_a_record_changed_by_hand_leaves_the_old_report(folder: Path) -> None:
    output = folder / "report.html"
    output.write_text("the old one")
    path = folder / "minify" / "accuracy.json"
    path.write_text(path.read_text().replace('"minimal_nodes": 3', '"minimal_nodes": 2'))
    with pytest.raises(BadFile, match="changed after it was written"):
        render_files(folder / "verdicts.json", folder / "environment.json", record_paths(folder), output)
    assert output.read_text() == "the old one"


def test_verdicts_of_another_shape_are_refused(folder: Path) -> None:
    verdicts = records.load_data(folder / "verdicts.json", "verdicts")
    (folder / "verdicts.json").write_text("{}")
    with pytest.raises(BadFile):
        render_files(folder / "verdicts.json", folder / "environment.json", [], folder / "report.html")
    dump_data(folder / "verdicts.json", "verdicts", verdicts)
    render_files(folder / "verdicts.json", folder / "environment.json", [], folder / "report.html")
    assert (folder / "report.html").exists()
