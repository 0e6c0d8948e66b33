"""The walk leads from the user's line to its lines of C++ and back, by what Inductor itself keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpulab.debug import artefacts, links, walk
from cpulab.paths import LIBRARY

WALKS = Path(__file__).parents[1] / "data" / "debug" / "walks"
PROGRAM = (LIBRARY / "cpulab" / "cases.py").read_text(encoding="utf-8")
SOURCES = {
    "/home/user/program.py": PROGRAM,
    "/home/user/record_walks.py": (WALKS.parent / "record_walks.py").read_text(encoding="utf-8"),
}
FAULT = "auto tmp2 = -tmp1;"


def recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((WALKS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def walked(name: str, **accused: Any) -> dict[str, Any]:
    return walk.walk(recorded(name), SOURCES, **accused)


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for column in walk.COLUMNS for row in found[column]}


def partners(found: dict[str, Any], text: str) -> dict[str, list[str]]:
    """Return the texts that a line leads to, directly or not, by level."""
    by_id = rows(found)
    (start,) = [one for one, row in by_id.items() if row["text"].strip() == text]
    reached = {start}
    for link in sorted(found["links"], key=lambda link: walk.COLUMNS.index(link["from"].partition(":")[0])):
        if link["from"] in reached:
            reached.add(link["to"])
    return {
        column: [row["text"].strip() for row in found[column] if row["id"] in reached - {start}]
        for column in walk.COLUMNS
    }


@pytest.mark.parametrize("name", ["one_kernel", "forward", "backward"])
def test_both_ends_of_every_link_are_there_and_it_leads_on(name: str) -> None:
    found = walked(name)
    by_id = rows(found)
    assert len(by_id) == sum(len(found[column]) for column in walk.COLUMNS)
    assert len(found["links"]) > 20
    for link in found["links"]:
        ends = [walk.COLUMNS.index(link[end].partition(":")[0]) for end in ("from", "to")]
        assert {link["from"], link["to"]} <= set(by_id)
        assert ends[0] < ends[1]


@pytest.mark.parametrize("name", ["one_kernel", "forward", "backward"])
def test_every_statement_that_an_op_of_the_ir_gave_is_reached_from_the_program(name: str) -> None:
    found = walked(name)
    by_end: dict[str, list[str]] = {}
    for link in found["links"]:
        by_end.setdefault(link["to"], []).append(link["from"])
    marks = links.marks(recorded(name)["code"])
    inputs = next(row["text"] for row in found["fx"] if "def forward(" in row["text"])
    seen = 0
    for row in found["cpp"]:
        mark = marks.get(row["line"])
        if mark is None or not mark.fx or f"{mark.fx[0]}:" in inputs:
            continue
        levels, left = set(), [row["id"]]
        while left:
            one = left.pop()
            levels.add(one.partition(":")[0])
            left += by_end.get(one, [])
        assert levels == set(walk.COLUMNS), row
        seen += 1
    assert seen >= 3


def test_the_users_line_leads_to_all_that_was_made_of_it() -> None:
    reached = partners(walked("one_kernel"), "return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)")
    assert [text.partition(":")[0] for text in reached["fx"]] == ["neg", "maximum"]
    assert {"op0: SchedulerNode(ComputedBuffer)", "neg = ops.neg(load_1)"} <= set(reached["ir_pre"])
    assert reached["ir_pre"] == reached["ir_post"]
    assert {FAULT, "auto tmp3 = max_propagate_nan(tmp0, tmp2);"} <= set(reached["cpp"])


def test_a_node_leads_to_its_own_statement_and_to_no_other() -> None:
    found = walked("one_kernel")
    node = next(row["text"].strip() for row in found["fx"] if row["text"].strip().startswith("neg:"))
    reached = partners(found, node)
    statements = [text for text in reached["cpp"] if text.startswith("auto tmp")]
    assert statements == [FAULT]
    assert reached["source"] == []


def test_nodes_and_their_ops_are_followed_through_fusion() -> None:
    found = walked("forward")
    by_id = rows(found)
    (fused,) = [row for row in found["ir_post"] if ": FusedSchedulerNode(" in row["text"]]
    members = fused["part"].split("_")
    into = [by_id[link["from"]] for link in found["links"] if link["to"] == fused["id"]]
    assert [row["text"].partition(":")[0] for row in into if row["id"].startswith("ir_pre")] == members
    for member in members:
        texts = [
            (by_id[link["from"]]["text"].strip(), by_id[link["to"]]["text"].strip())
            for link in found["links"]
            if link["by"] == "loop body" and link["to"].startswith("ir_post") and by_id[link["to"]]["part"] == member
        ]
        assert len(texts) > 2
        assert all("ops." in before and "ops." in after for before, after in texts)


def test_a_call_of_a_library_is_linked_by_inductors_own_mappings() -> None:
    reached = partners(walked("forward"), 'mm: "f32[4, 4]" = torch.ops.aten.mm.default(primals_1, primals_2)')
    assert any(text.startswith("extern_kernels.mm(") for text in reached["cpp"])


def test_a_backward_without_mappings_still_has_its_lines() -> None:
    assert "cppCodeToPost" not in recorded("backward")["mappings"]
    found = walked("backward")
    assert {link["by"] for link in found["links"]} == {"stack trace", "origins", "loop body", "scheduler node"}


def test_the_guilty_statement_and_all_that_lead_to_it_are_marked() -> None:
    found = walked("one_kernel", guilty=[FAULT])
    by_id = rows(found)
    told = [(one.partition(":")[0], by_id[one]["text"].strip().partition(":")[0]) for one in found["guilty"]]
    assert told[1:] == [
        ("fx", "neg"),
        ("ir_pre", "neg = ops.neg(load_1)"),
        ("ir_post", "neg = ops.neg(load_1)"),
        ("cpp", FAULT),
    ]
    assert told[0][0] == "source"
    (guilty,) = [link for link in found["links"] if link["guilty"]]
    assert (by_id[guilty["from"]]["text"].strip(), by_id[guilty["to"]]["text"].strip()) == (told[3][1], FAULT)


def test_nobody_is_marked_where_nobody_is_accused() -> None:
    found = walked("one_kernel")
    assert found["guilty"] == []
    assert not any(link["guilty"] for link in found["links"])


def test_the_same_statement_of_another_node_is_not_marked() -> None:
    assert walked("one_kernel", guilty=[FAULT], guilty_fx="neg")["guilty"]
    other = walked("one_kernel", guilty=[FAULT], guilty_fx="maximum")
    assert [one.partition(":")[0] for one in other["guilty"]] == ["source", "fx"]


def test_a_line_of_c_plus_plus_has_the_number_it_has_in_the_output_code() -> None:
    found = walked("one_kernel")
    code = links.unmarked(recorded("one_kernel")["code"]).split("\n")
    assert all(code[row["line"] - 1].strip() == row["text"].strip() for row in found["cpp"])


def test_the_program_is_shown_around_the_line_only_where_it_is_the_program() -> None:
    assert walked("one_kernel")["source"][0]["text"].startswith("def negate_and_maximum")
    other = walk.walk(recorded("one_kernel"), {"/home/user/program.py": "\n" * 100})
    assert [row["text"] for row in other["source"]] == ["return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)"]


def test_no_folder_of_the_machine_is_shown() -> None:
    assert "/home/user" not in json.dumps(walked("forward"))


def test_a_long_program_is_cut_to_its_guilty_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = artefacts.kernels(links.unmarked(recorded("one_kernel")["code"]))
    whole = walked("one_kernel", guilty=[FAULT])
    graph = recorded("one_kernel")
    others = "".join(f"other_{n} = async_compile.cpp_pybinding([], r'''\nint x;\n''')\n" for n in range(30))
    graph["code"] = graph["code"].replace("async_compile.wait", f"{others}async_compile.wait", 1)
    monkeypatch.setattr(walk, "MOST_LINES", 40)
    cut = walk.walk(graph, SOURCES, guilty=[FAULT])
    assert {row["part"] for row in cut["cpp"]} >= {kernel.name}
    assert cut["left_out"] > 0
    assert len(cut["cpp"]) < len(whole["cpp"]) + 30
    assert cut["guilty"] == whole["guilty"]
    by_id = rows(cut)
    assert all({link["from"], link["to"]} <= set(by_id) for link in cut["links"])
