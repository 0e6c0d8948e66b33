"""What the roofline step measures, built in the measured environment: one process for all tests of this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpulab.host.launch import load_environment, run_measured

pytestmark = pytest.mark.torch

PROBE = Path(__file__).parents[1] / "data" / "roofline" / "subjects_probe.py"
MATRIX, ROW = 16384 * 512 * 4, 512 * 4


@pytest.fixture(scope="module")
def found(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("roofline")
    answer = folder / "answer.json"
    completed = run_measured(
        load_environment(environment), ["python", str(PROBE), str(folder), str(answer)], timeout_s=300
    )
    assert completed.returncode == 0, completed.stderr
    return dict(json.loads(answer.read_text()))


def test_copy_and_triad_compute_what_they_say_on_every_element(found: dict[str, Any]) -> None:
    assert found["touched"] == [[1.0], [2.0], [0.0]]
    assert found["right"]
    assert found["worked"] == [[2.5], [2.0], [1.0]]


def test_one_wrong_element_is_seen(found: dict[str, Any]) -> None:
    assert not found["wrong"]


def test_the_kernels_are_compiled_once_for_all_processes(found: dict[str, Any]) -> None:
    assert found["built_once"]


def test_eager_without_allocation_computes_the_same_into_the_same_memory(found: dict[str, Any]) -> None:
    assert found["pattern"]["equal"]
    assert found["pattern"]["same_memory"]
    assert found["pattern"]["facts"]["preallocated_is_right"]
    assert found["pattern"]["arms"] == ["preallocated", "copy", "triad"]


def test_bytes_are_counted_tensor_by_tensor(found: dict[str, Any]) -> None:
    moved = {row["arm"]: row["bytes"] for row in found["pattern"]["facts"]["bytes_moved"]}

    # Four operations with a matrix in and one out, of which one has two in and three have a row.
    assert moved["eager"] == moved["preallocated"] == 4 * 2 * MATRIX + MATRIX + 3 * ROW
    assert moved["inductor"] == 3 * MATRIX + 3 * ROW
    assert (moved["copy"], moved["triad"]) == (2 * MATRIX, 3 * MATRIX)


def test_the_roofs_of_the_pattern_have_arrays_of_its_size(found: dict[str, Any]) -> None:
    assert found["pattern"]["facts"]["array_bytes"] == MATRIX


def test_every_roof_says_what_a_call_moves_or_computes_and_on_how_many_threads(found: dict[str, Any]) -> None:
    rows = {row["arm"]: row for row in found["machine"]["roofs"]}

    assert sorted(rows) == found["machine"]["arms"] == found["machine"]["asked"]
    assert (rows["copy"]["bytes"], rows["triad_one"]["bytes"]) == (2 * 8000, 3 * 8000)
    assert rows["matmul_float32"]["flop"] == 2 * 2048**3
    assert (rows["copy"]["threads"], rows["copy_one"]["threads"]) == (found["machine"]["threads"], 1)


def test_a_product_on_one_thread_leaves_the_others_for_the_next(found: dict[str, Any]) -> None:
    assert found["machine"]["threads_kept"]


def test_a_cpu_without_bfloat16_is_not_asked_for_it(found: dict[str, Any]) -> None:
    assert found["without_bfloat16"]


def test_layers_are_counted_by_shape_with_the_most_arithmetic_first(found: dict[str, Any]) -> None:
    assert [(row["rows"], row["in_features"], row["out_features"], row["bias"]) for row in found["layers"]] == [
        (6, 8, 32, True),
        (6, 32, 8, False),
    ]
    assert [(row["calls"], row["flop"]) for row in found["layers"]] == [(2, 2 * 6 * 8 * 32)] * 2
    assert found["hooks_gone"]


def test_packed_weights_give_what_plain_ones_do_with_a_bias_and_without(found: dict[str, Any]) -> None:
    assert found["packing"] in found["linear"]
    for built in found["linear"].values():
        assert built["close"] == [True, True]
        assert built["bias_matters"]
        assert built["facts"]["packed_is_right"]
        assert len(built["arms"]) == 6
