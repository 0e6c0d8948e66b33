"""The page of a walk: every line has its partners' numbers, the guilty link is marked, and the page stands alone."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pages import Page, parsed

from cpulab.debug import walk
from cpulab.records import Record
from cpulab.report.render import walk_pages

WALKS = Path(__file__).parents[1] / "data" / "debug" / "walks"
VERDICTS: dict[str, Any] = {"claims": []}
FAULT = "auto tmp2 = -tmp1;"
ATTACK = "<script>alert(1)</script>"


def record(name: str = "one_kernel", **accused: Any) -> Record:
    graph = json.loads((WALKS / f"{name}.json").read_text(encoding="utf-8"))
    seen = walk.observations(walk.walk(graph, **accused))
    return Record(
        "debug", "case", "scalar", "smoke", "ok", "0" * 64, ["cpulab"], "2026-01-01T00:00:00Z", 1.0, observations=seen
    )


def page(shown: Record, folder: Path) -> str:
    (html,) = walk_pages(VERDICTS, {shown.name: shown}, folder).values()
    return html


def rows(html: str) -> dict[str, Page]:
    return {found[1]: parsed(found[0]) for found in re.finditer(r'<tr id="([^"]+)".*?</tr>', html, re.DOTALL)}


def test_every_partner_is_there_and_names_the_line_back(tmp_path: Path) -> None:
    lines = rows(page(record("forward"), tmp_path))
    partners = {one: {(a["href"] or "")[1:] for a in row.all("a")} for one, row in lines.items()}
    assert sum(map(len, partners.values())) > 100
    for one, others in partners.items():
        for other in others:
            assert one in partners[other]


def test_a_partner_is_called_by_the_number_of_its_line(tmp_path: Path) -> None:
    shown = record()
    (statement,) = [row for row in shown.observations["walk_rows"] if row["text"].strip() == FAULT]  # type: ignore[union-attr, index, call-overload]
    words = rows(page(shown, tmp_path))[statement["id"].replace(":", "-")].text  # type: ignore[index, call-overload, union-attr]
    assert words.startswith(f"{statement['line']} {FAULT} fused IR 27")  # type: ignore[index, call-overload]


def test_the_fault_is_marked_in_words_and_its_way_is_written_out(tmp_path: Path) -> None:
    html = page(record(guilty=[FAULT]), tmp_path)
    marked = [row for row in re.findall(r"<tr id=.*?</tr>", html, re.DOTALL) if "marked" in row.partition(">")[0]]
    assert len(marked) == 1
    assert parsed(marked[0]).text.startswith(f"52 {FAULT} the fault")
    trail = re.search(r'<div class="trail".*?</div>', html, re.DOTALL)
    assert trail is not None
    words = parsed(trail[0]).text
    assert "The guilty link" in words
    for step in (
        "Source 26 return torch.cat",
        "FX graph 4 neg:",
        "IR before fusion 27 neg = ops.neg",
        f"C++ 52 {FAULT}",
    ):
        assert step in words


def test_where_nobody_is_at_fault_nothing_is_marked(tmp_path: Path) -> None:
    html = page(record(), tmp_path)
    assert "Nobody is at fault" in parsed(html).text
    assert 'class="line linked leads' not in html


@pytest.mark.parametrize("name", ["one_kernel", "forward", "backward"])
def test_the_page_is_whole_and_takes_nothing_from_elsewhere(name: str, tmp_path: Path) -> None:
    html = page(record(name), tmp_path)
    found = parsed(html)
    assert found.faults == found.open == []
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {(a["href"] or "")[1:] for a in found.all("a") if (a["href"] or "").startswith("#")} <= set(ids)
    assert not any("src" in attributes for _, attributes in found.elements)
    assert not re.search(r"url\(|@import|fetch\(|https?://", html)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert script is not None
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()}'" in html
    assert len(html) < 200_000


def test_text_of_a_program_is_text_and_never_markup(tmp_path: Path) -> None:
    shown = record()
    for row in shown.observations["walk_rows"]:  # type: ignore[union-attr]
        row.update(text=ATTACK, part=ATTACK)  # type: ignore[union-attr]
    html = page(shown, tmp_path)
    assert ATTACK not in html
    assert len(parsed(html).all("script")) == 1


def test_what_was_left_out_of_a_long_program_is_said(tmp_path: Path) -> None:
    shown = record()
    shown.observations["walk_left_out"] = 1234
    assert "1234 lines that lead to other kernels are left out" in parsed(page(shown, tmp_path)).text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Debian's chromium")
def test_a_line_that_is_chosen_lights_up_its_partners_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "walk.html"
    path.write_text(page(record(guilty=[FAULT]), tmp_path), encoding="utf-8")
    # A fragment chooses a line as a click does.
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"file://{path}#fx-4"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    lit = {one for one, row in rows(done.stdout).items() if "lit" in (row.elements[0][1]["class"] or "").split()}
    assert lit == {
        "source-program.py-26", "fx-4", "ir_pre-1", "ir_pre-27", "ir_post-1", "ir_post-27", "cpp-35", "cpp-52", "cpp-86",
    }  # fmt: skip
    trail = re.search(r'<div class="trail".*?</div>', done.stdout, re.DOTALL)
    assert trail is not None
    assert "FX graph, line 4: leads to the fault" in parsed(trail[0]).text
