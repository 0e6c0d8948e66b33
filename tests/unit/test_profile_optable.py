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


def ops(case: str) -> list[dict]:
    return json.loads((DATA / f"{case}_answer.json").read_text())["steps"][0]["ops"]


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
    assert all(
        (row["calls"], row["total_s"]) == (rows[row["name"]]["calls"], rows[row["name"]]["total_s"]) for row in fused
    )


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


def test_the_csv_holds_every_row_and_column() -> None:
    rows = list(csv.DictReader(io.StringIO(optable.to_csv(ops("eager_as_published")))))
    assert [row["name"] for row in rows] == [op["name"] for op in ops("eager_as_published")]
    assert [float(row["self_s"]) for row in rows] == [op["self_s"] for op in ops("eager_as_published")]
    assert set(rows[0]) == set(optable.COLUMNS)
