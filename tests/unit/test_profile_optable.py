"""The op table is data: whole, of one step, with its fused kernels mapped to the generated code."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cpulab.profile import kernels, optable

DATA = Path(__file__).parents[1] / "data" / "profile"
COMPILED = ["compiled_as_published", "compiled_default"]


def steps(case: str) -> list[dict]:
    return json.loads((DATA / f"{case}_answer.json").read_text())["steps"]


def ops(case: str) -> list[dict]:
    return steps(case)[0]["ops"]


def generated(case: str) -> list[kernels.Kernel]:
    return kernels.parse((DATA / f"{case}_output_code.py.txt").read_text())


@pytest.mark.parametrize("case", COMPILED)
def test_every_fused_kernel_of_the_profile_maps_to_its_own_generated_kernel(case: str) -> None:
    fused = optable.fused_kernels(ops(case), generated(case))
    assert {row["name"]: row["kernel"] for row in fused} == {
        kernel.profiled_as: kernel.name for kernel in generated(case)
    }


def test_fused_kernels_keep_the_calls_and_time_of_their_rows() -> None:
    fused = optable.fused_kernels(ops("compiled_as_published"), generated("compiled_as_published"))
    rows = {row["name"]: row for row in ops("compiled_as_published")}
    assert sum(row["calls"] for row in fused) == 29
    for row in fused:
        assert {key: row[key] for key in rows[row["name"]]} == rows[row["name"]]


def test_a_fused_kernel_that_was_not_generated_has_none() -> None:
    fused = optable.fused_kernels(ops("compiled_as_published"), generated("compiled_as_published")[1:])
    assert [row["name"] for row in fused if row["kernel"] is None] == [
        "graph_0_cpp_fused_constant_pad_nd_embedding_slice_0"
    ]


def test_an_eager_table_has_no_fused_kernels() -> None:
    assert optable.fused_kernels(ops("eager_as_published"), []) == []


def test_shares_of_a_whole_table_add_up_to_one() -> None:
    for case in (*COMPILED, "eager_as_published"):
        assert sum(row["share"] for row in ops(case)) == pytest.approx(1)


@pytest.mark.parametrize(("totals", "chosen"), [([3.0], 3.0), ([5.0, 1.0, 2.0], 2.0), ([4.0, 1.0, 3.0, 2.0], 2.0)])
def test_the_step_with_the_median_total_speaks_for_the_run(totals: list[float], chosen: float) -> None:
    assert optable.median_step([{"step_total_s": total} for total in totals])["step_total_s"] == chosen


def test_every_profiled_step_is_kept_whole() -> None:
    rows = optable.every_step(steps("eager_as_published"))
    assert len({row["step"] for row in rows}) == 2
    for step in steps("eager_as_published"):
        of_step = [
            {key: value for key, value in row.items() if key != "step"} for row in rows if row["step"] == step["step"]
        ]
        assert of_step == step["ops"]


@pytest.mark.parametrize("case", [*COMPILED, "eager_as_published"])
def test_what_no_operation_accounts_for_is_the_wall_time_less_their_self_times(case: str) -> None:
    for step, account in zip(steps(case), optable.accounts(steps(case)), strict=True):
        own = next(op for op in step["ops"] if op["name"] == optable.STEP)
        assert account["step"] == step["step"]
        assert account["wall_s"] == own["total_s"] == pytest.approx(step["step_total_s"])
        assert account["accounted_s"] + account["unaccounted_s"] == pytest.approx(account["wall_s"])
        # Nothing ran beside the step's own thread, so that it is the step's own self time.
        assert account["unaccounted_s"] == pytest.approx(own["self_s"], abs=1e-8)


def test_operations_that_ran_side_by_side_account_for_more_than_the_step_took() -> None:
    parallel = [
        {"name": optable.STEP, "self_s": 0.5, "total_s": 2.0},
        {"name": "aten::mm", "self_s": 3.0, "total_s": 3.0},
    ]
    (account,) = optable.accounts([{"step": 5, "ops": parallel}])
    assert account == {"step": 5, "wall_s": 2.0, "accounted_s": 3.0, "unaccounted_s": -1.0}


def test_the_csv_holds_every_row_of_every_step_and_a_line_for_the_time_nobody_accounts_for() -> None:
    profiled = steps("eager_as_published")
    rows = list(csv.DictReader(io.StringIO(optable.to_csv(profiled))))
    assert tuple(rows[0]) == optable.COLUMNS
    for step, account in zip(profiled, optable.accounts(profiled), strict=True):
        own = [row for row in rows if row["step"] == str(step["step"])]
        assert [row["name"] for row in own if row["kind"] != "unaccounted"] == [op["name"] for op in step["ops"]]
        assert [float(row["self_s"]) for row in own[:-1]] == [op["self_s"] for op in step["ops"]]
        assert (own[-1]["kind"], float(own[-1]["self_s"])) == ("unaccounted", account["unaccounted_s"])
        assert [float(row["total_s"]) for row in own if row["kind"] == "step"] == [account["wall_s"]]
        added = sum(float(row["self_s"]) for row in own if row["kind"] != "step")
        assert added == pytest.approx(account["wall_s"])
