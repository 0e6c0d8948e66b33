"""What the page shows of profiles: every time accounted for, what compiling changed, and why calls differ."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pages import parsed

from cpulab.records import Record
from cpulab.report import profiles
from cpulab.report.render import render_files, tables
from cpulab.report.views import Shown

if TYPE_CHECKING:
    from pathlib import Path

    from pages import Results

EAGER = {
    "aten::add": (4, 0.4, 0.4),
    "aten::mul": (1, 0.1, 0.1),
    "aten::view": (2, 0.02, 0.02),
    "ProfilerStep*": (1, 0.48, 1.0),
}
COMPILED = {
    "graph_0_cpp_fused_add_mul_0": (2, 0.3, 0.3),
    "aten::view": (1, 0.01, 0.01),
    "ProfilerStep*": (1, 0.19, 0.5),
}


def shown(rows: dict[str, tuple[int, float, float]], **observations: Any) -> Shown:
    ops = [
        {"name": name, "calls": row[0], "self_s": row[1], "total_s": row[2], "share": row[1]}
        for name, row in rows.items()
    ]
    wall = rows["ProfilerStep*"][2]
    accounted = sum(row[1] for name, row in rows.items() if name != "ProfilerStep*")
    seen = {
        "ops": ops,
        "op_steps": [{"step": step, **op, "self_s": op["self_s"] * factor} for step, factor in ((5, 1), (8, 2)) for op in ops],
        "profiled_step": 5,
        "step_accounts": [
            {"step": step, "wall_s": wall * factor, "accounted_s": accounted, "unaccounted_s": (wall - accounted) * factor}
            for step, factor in ((5, 1), (8, 2))
        ],
    }  # fmt: skip
    record = Record(
        "profile", "x", "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-03-01T10:00:00Z", 1.0,
        seen | observations, [],
    )  # fmt: skip
    return Shown("profile/x", record, "")


def compiled(**observations: Any) -> Shown:
    name = "graph_0_cpp_fused_add_mul_0"
    seen = {
        "fused_kernels": [{"name": name, "calls": 2, "total_s": 0.3, "kernel": "cpp_fused_add_mul_0"}],
        "kernels": [{"name": "cpp_fused_add_mul_0", "profiled_as": name, "file": "output_code.py", "line": 12}],
        "kernel_origins": [
            {"kernel": name, "name": "aten::mul", "nodes": 1},
            {"kernel": name, "name": "aten::add", "nodes": 4},
            {"kernel": "aten::view", "name": "aten::view", "nodes": 1},
        ],
    }
    return shown(COMPILED, **(seen | observations))


def test_the_step_is_no_operation_of_its_table_and_what_is_left_of_it_is_told() -> None:
    table = profiles.table(shown(EAGER).seen)
    assert [op.name for op in table.ops] == ["aten::add", "aten::mul", "aten::view"]
    assert table.wall_s == 1.0
    assert table.unaccounted is not None
    assert (table.unaccounted.self_s, table.unaccounted.share) == pytest.approx((0.48, 0.48))
    assert sum(op.self_s for op in table.ops) + table.unaccounted.self_s == pytest.approx(table.wall_s)


def test_a_time_has_its_range_over_all_profiled_steps() -> None:
    table = profiles.table(shown(EAGER).seen)
    assert (table.ops[0].low, table.ops[0].high) == (0.4, 0.8)
    assert table.unaccounted is not None
    assert (table.unaccounted.low, table.unaccounted.high) == pytest.approx((0.48, 0.96))


def test_a_record_from_before_the_accounts_keeps_its_table() -> None:
    seen = {"ops": shown(EAGER).seen["ops"]}
    table = profiles.table(seen)
    assert [op.name for op in table.ops] == ["ProfilerStep*", "aten::add", "aten::mul", "aten::view"]
    assert (table.unaccounted, table.wall_s, table.ops[0].low) == (None, None, None)


def test_differences_come_by_size_and_add_up_to_that_of_the_whole_step() -> None:
    found = profiles.differences(shown(EAGER), compiled())
    assert [(one.name, one.kind) for one in found] == [
        ("aten::add", "op"), ("graph_0_cpp_fused_add_mul_0", "kernel"), ("aten::mul", "op"), ("aten::view", "op"),
        ("", "unaccounted"), ("", "step"),
    ]  # fmt: skip
    assert [one.difference_s for one in found] == pytest.approx([-0.4, 0.3, -0.1, -0.01, -0.29, -0.5])
    assert sum(one.difference_s for one in found[:-1]) == pytest.approx(found[-1].difference_s)


def test_a_fused_kernel_says_what_it_takes_the_place_of_and_an_operator_where_it_is_now() -> None:
    rows = {one.name: one for one in profiles.differences(shown(EAGER), compiled())}
    kernel = rows["graph_0_cpp_fused_add_mul_0"]
    assert kernel.replaces == [("aten::add", 4), ("aten::mul", 1)]
    assert kernel.kernel is not None
    assert (kernel.kernel.name, kernel.kernel.file, kernel.kernel.line) == ("cpp_fused_add_mul_0", "output_code.py", 12)
    assert rows["aten::add"].replaced_by == [("graph_0_cpp_fused_add_mul_0", 4)]


def test_an_operator_that_is_called_as_before_takes_no_place() -> None:
    view = next(one for one in profiles.differences(shown(EAGER), compiled()) if one.name == "aten::view")
    assert (view.replaces, view.replaced_by) == ([], [])


def test_a_kernel_that_the_generated_code_does_not_hold_has_no_place_in_it() -> None:
    (kernel,) = profiles.kernels(compiled(kernels=[]).seen)
    assert (kernel.file, kernel.line) == (None, None)


def test_an_arm_without_a_table_leaves_no_differences() -> None:
    missing = Shown("profile/x", None, "")
    assert profiles.differences(missing, compiled()) == profiles.differences(shown(EAGER), missing) == []


def test_the_csv_of_differences_holds_every_row_with_what_became_of_it() -> None:
    found = profiles.differences(shown(EAGER), compiled())
    rows = list(csv.DictReader(io.StringIO(profiles.to_csv(found))))
    assert [row["kind"] for row in rows] == [one.kind for one in found]
    add, kernel = rows[0], rows[1]
    assert (add["eager_calls"], add["eager_self_s"], add["compiled_calls"]) == ("4", "0.4", "")
    assert add["replaced_by"] == "graph_0_cpp_fused_add_mul_0 4"
    assert (kernel["replaces"], kernel["file"], kernel["line"]) == ("aten::add 4; aten::mul 1", "output_code.py", "12")
    assert (rows[-1]["eager_self_s"], rows[-1]["eager_total_s"], rows[-1]["difference_s"]) == ("", "1.0", "-0.5")


def counts(calls: int, layers: int = 24, **changes: Any) -> profiles.Count:
    ops = [{"name": "aten::bmm", "calls": calls}]
    published = {
        "counts": {"aten::bmm": 48},
        "causes": [{"name": "aten::bmm", "found": 0, "because": "sdpa is one operation"}],
        "conditions": {"layers": 24},
    }
    here = Shown("profile/x", replace(shown(EAGER).record, observations={"ops": ops, "layers": layers}), "")  # type: ignore[type-var]
    (count,) = profiles.call_counts(published | changes, here, Shown("profile/y", None, ""))
    return count


def test_a_count_that_differs_has_its_cause_and_one_that_does_not_has_none() -> None:
    assert (counts(0).difference, counts(0).cause) == ("-48", "sdpa is one operation")
    assert (counts(48).difference, counts(48).cause) == ("0", "")
    assert counts(47).cause == "no cause known"


def test_the_cause_at_another_depth_is_the_depth() -> None:
    assert counts(0, layers=2).cause == "layers 2 and not 24"


def test_what_was_not_counted_has_no_cause() -> None:
    assert (counts(0).today, counts(0).cause_today) == (None, "")


def test_verdicts_from_before_the_causes_still_give_the_counts() -> None:
    assert counts(0, causes=[], conditions={}).cause == "no cause known"


def test_the_page_shows_the_time_that_no_operation_accounts_for_in_every_table(results: Results) -> None:
    html = results.page()
    for name in ("eager_as_published", "compiled_as_published", "eager_default", "compiled_default"):
        table = re.search(rf'aria-label="Operations, profile/{name}".*?</table>', html, re.DOTALL)
        assert table is not None
        assert re.search(r"No operation accounts for .*The whole step ", parsed(table[0]).text)
        assert "ProfilerStep" not in table[0]


def test_the_page_links_each_kernel_to_its_line_in_the_generated_code(results: Results) -> None:
    html = results.page()
    table = re.search(r'aria-label="Fused kernels, profile/compiled_as_published".*?</table>', html, re.DOTALL)
    assert table is not None
    seen = results.records["profile/compiled_as_published"].observations
    kernels: Any = seen["kernels"]
    for kernel in kernels:
        assert (
            f'<a href="profile/compiled_as_published/output_code.py">output_code.py</a>, line {kernel["line"]}<'
            in table[0]
        )
    assert table[0].count("<a ") == len(kernels)


def test_the_report_leaves_the_differences_of_both_variants_as_csv(folder: Path, results: Results) -> None:
    paths = sorted(folder.glob("*/*.json"))
    render_files(folder / "verdicts.json", folder / "environment.json", paths, folder / "report.html")
    written = {path.relative_to(folder).as_posix(): path.read_text() for path in (folder / "tables").iterdir()}
    assert written == tables(results.verdicts, results.records, folder)
    assert set(written) == {profiles.path("as_published"), profiles.path("default")}
    assert {f'"{path}"' for path in written} <= set(re.findall(r'href=("tables/[^"]+")', results.page()))
