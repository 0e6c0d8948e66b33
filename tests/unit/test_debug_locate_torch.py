"""Every registered fault is located in the real PyTorch: by the walk to its op and line, and by PyTorch's bisector."""

from __future__ import annotations

import ast
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fault_table import ROWS, Row, asked_for

from cpulab.debug import faults
from cpulab.host.launch import load_environment, run_measured

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
RIGHT_PROGRAMS = HERE.parent / "data" / "debug" / "right_programs.py"

Answers = dict[str, dict[str, Any]]


def functions(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.fixture(scope="module")
def run(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    loaded = load_environment(environment)

    def run(program: list[str], asked: dict[str, Any], variables: dict[str, str] | None = None) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("locate")
        (folder / "asked.json").write_text(json.dumps(asked))
        if loaded.isa_trials.is_dir():
            shutil.copytree(loaded.isa_trials, folder / "cache", ignore=shutil.ignore_patterns("locks"))
        completed = run_measured(
            loaded,
            ["python", *program, str(folder / "asked.json"), str(folder / "answer.json")],
            variables={"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), **(variables or {})},
            cwd=folder,
            timeout_s=600,
        )
        assert completed.returncode == 0, completed.stderr[-3000:]
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
        return {**answer, "stdout": completed.stdout}

    return run


@pytest.fixture(scope="module")
def answers(run: Callable[..., dict[str, Any]]) -> Answers:
    """The whole table, filled in by two processes side by side."""
    fault_programs = [(str(faults.PROGRAMS), name) for name in functions(faults.PROGRAMS)]
    others = [(str(RIGHT_PROGRAMS), name) for name in functions(RIGHT_PROGRAMS)]
    rows = {override: tuple(row for row in ROWS if row.override == override) for override in faults.OVERRIDES}
    asked = {
        "scalar": asked_for(rows["scalar"], fault_programs, scalar=True),
        "vector": asked_for(rows["vector"], others, scalar=False),
    }
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda one: run([str(HERE / "fault_table.py")], one), asked.values())
        return dict(zip(asked, found, strict=True))


def test_every_generator_of_every_fault_is_a_row_with_the_op_that_is_registered() -> None:
    rows = {(row.fault, row.override): row for row in ROWS if row.direction == "forward" and row.program is None}
    for fault in faults.FAULTS.values():
        for override, generator in fault.generators.items():
            row = rows[fault.name, override]
            assert row.op == (fault.op if generator.breaks else None)
            assert (row.exception is not None) == (generator.breaks == "compile")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_walk_names_the_op_its_line_and_the_way_there(answers: Answers, row: Row) -> None:
    found = answers[row.override]["rows"][row.name]["located"]
    assert found["op"] == row.op
    assert found["exception"] == row.exception
    if row.op is None:
        assert found["guilty"] is found["kernel"] is None
        return
    assert found["confirmed_alone"] is row.alone
    assert row.line in found["kernel"]["cpp"]
    assert [one["level"] for one in found["chain"]] == ["torch", "aten", "ops", "cpp"]
    assert [one["level"] for one in found["chain"] if one["guilty"]] == ["cpp"]
    torch_line, aten, _, cpp = found["chain"]
    program = HERE / torch_line["file"] if row.fault == "exp_of_neg" else faults.PROGRAMS
    assert program.name == torch_line["file"]
    assert program.read_text(encoding="utf-8").splitlines()[torch_line["line"] - 1].strip() == torch_line["text"]
    assert aten["text"].startswith(f"{found['guilty']} = {row.op}(")
    assert (cpp["text"], cpp["line"]) == (found["kernel"]["cpp"], found["kernel"]["line"])
    guilty = [one for one in found["lines"] if one["guilty"]]
    assert found["kernel"]["line"] in {one["line"] for one in guilty}
    assert {one["fx"] for one in guilty} == {found["guilty"]}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_least_graph_is_the_ops_alone_and_its_program_fails_with_the_fault_and_passes_without(
    answers: Answers, row: Row
) -> None:
    found = answers[row.override]["rows"][row.name]
    if row.least is None:
        assert found["reduced"]["minimal"] is None
        assert found["reduced"]["reason"].startswith("nothing to minify")
        return
    assert found["reduced"]["minimal"]["ops"] == row.least
    assert (found["fails"], found["passes"]) == (True, True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_bisector_names_what_is_told_beside_the_walk(answers: Answers, row: Row) -> None:
    found = answers[row.override]["rows"][row.name]["bisected"]
    assert found["op"] == row.bisected
    if row.bisected is None:
        assert found["backend"] is None
        assert found["said"] == "it found nothing wrong"
    else:
        assert (found["backend"], found["subsystem"]) == ("inductor", "lowerings")
        assert found["lowering"] in found["said"]


def test_the_faulty_line_is_among_those_marked_in_the_tail_too(answers: Answers) -> None:
    found = answers["vector"]["rows"]["sum_drops_tail-vector-forward"]["located"]
    assert "tmp_acc0_vec = tmp_acc0_vec;" in [one["cpp"] for one in found["lines"] if one["guilty"]]


def test_nodes_say_where_the_difference_begins_and_how_it_goes_on(answers: Answers) -> None:
    found = answers["vector"]["rows"]["neg_added_to_itself-vector-forward"]["located"]
    seen = {one["name"]: (one["diverges"], one["inputs_diverge"], one["diverges_alone"]) for one in found["nodes"]}
    assert seen == {
        "div": (False, False, False),
        "neg": (True, False, True),
        "maximum": (True, True, False),
        "add": (True, True, False),
    }


@pytest.mark.parametrize("override", faults.OVERRIDES)
def test_on_right_programs_nobody_is_named(answers: Answers, override: str) -> None:
    right = answers[override]["right"]
    assert len(right) == 10
    assert {name: ops for name, ops in right.items() if any(ops)} == {}
    assert all(right.values())


@pytest.mark.parametrize("override", faults.OVERRIDES)
def test_faults_are_gone_afterwards(answers: Answers, override: str) -> None:
    assert answers[override]["left"] == {}


def test_both_workers_answer_for_a_fault_that_came_by_the_environment(run: Callable[..., dict[str, Any]]) -> None:
    asked = {
        "target": {"file": str(faults.PROGRAMS), "function": "widened_sum_of_uint8"},
        "seed": 0,
        "direction": "forward",
    }
    variables = {**faults.variables("add_without_cast", "scalar"), **faults.variant_variables("scalar")}
    with ThreadPoolExecutor(2) as pool:
        located = pool.submit(run, ["-m", "cpulab.debug.locate_worker"], asked, variables)
        stopped = pool.submit(run, ["-m", "cpulab.debug.bisect_worker"], {**asked, "seconds": 0}, variables)
    assert located.result()["op"] == "aten.add.Tensor"
    assert located.result()["kernel"]["cpp"] == "auto tmp2 = tmp0 + tmp1;"
    assert stopped.result()["backend"] is None
    assert stopped.result()["said"] == "it was stopped after 0 s and 0 runs"
    assert stopped.result()["stdout"] == ""
