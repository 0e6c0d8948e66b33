"""Our reducer on the real PyTorch: faults are reduced to their op, and the program that is left proves it."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.config import load_preset
from cpulab.debug import faults
from cpulab.host.launch import load_environment, run_measured
from cpulab.minify.reduce import prove, reduce
from cpulab.progress import Reporter
from cpulab.step import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.torch

PROJECT = Path(__file__).parents[2]
DATA = PROJECT / "tests" / "data" / "minify"
TUTORIAL = {"file": str(PROJECT / "benchmarks" / "tutorial_float32.py"), "function": "negate_and_maximum"}
HEALTHY = faults.variant_variables("scalar")
DOUBLED = {**HEALTHY, **faults.variables("neg_doubled", "scalar")}
NEG = "aten.neg.default"


@pytest.fixture
def bench(environment: Path, tmp_path: Path) -> Iterator[Bench]:
    with Reporter("minify", 60, tmp_path / "results" / "log", io.StringIO()) as reporter:
        bench = Bench(
            step="minify", case="reduced", variant="scalar", preset=load_preset("smoke"), model="", seed=0,
            environment=load_environment(environment), results=tmp_path / "results", reporter=reporter,
        )  # fmt: skip
        bench.folder.mkdir(parents=True)
        bench.scratch.mkdir(parents=True)
        yield bench


def script(bench: Bench, name: str, *arguments: str, variables: dict[str, str] | None = None) -> str:
    """Run a script of tests/data/minify in the measured environment and return what it printed."""
    command = ["python", str(DATA / name), *arguments]
    settings = {**bench.new_cache(), **(variables or {})}
    completed = run_measured(
        bench.environment, command, variables=settings, cwd=bench.scratch, timeout_s=300, running=bench.running
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    return completed.stdout


def reduced_by(bench: Bench, name: str, *arguments: str, asked: Any, variables: dict[str, str]) -> Any:
    """Run a script that takes ASKED.json and ANSWER.json and return its answer."""
    paths = [bench.scratch / "asked.json", bench.scratch / "answer.json"]
    paths[0].write_text(json.dumps(asked))
    script(bench, name, *arguments, *(str(path.resolve()) for path in paths), variables=variables)
    return json.loads(paths[1].read_text())


def test_the_tutorials_fault_is_reduced_to_neg_alone_in_forked_children_and_the_program_proves_it(bench: Bench) -> None:
    found = reduce(bench, TUTORIAL, isolate=True, variables=DOUBLED)
    assert found["reason"] is None
    assert found["threads_at_fork"] == []  # nothing that a fork would lose, under libiomp5 and jemalloc
    minimal = found["minimal"]
    assert (minimal["ops"], minimal["nodes"], minimal["inputs"]) == ([NEG], 3, 1)
    assert found["steps"][0]["nodes_before"] == 5
    assert found["progress"][-1] == {
        "queries": sum(step["queries"] for step in found["steps"]),
        "nodes": 3,
        "inputs": 1,
    }
    file = bench.results / minimal["file"]
    proof = prove(bench, file, faulty=DOUBLED, healthy=HEALTHY)
    assert (proof["fails"], proof["passes"]) == (True, True)
    assert (proof["exit_status_with"], proof["exit_status_without"]) == (1, 0)
    assert re.search(r"output 0: 1 of 1 elements differ, first at \(0, 0\): \S+ in eager, \S+ compiled",
                     proof["output_with"])  # fmt: skip
    text = file.read_text()
    assert set(re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)) == {"torch"}
    assert str(bench.results) not in text
    assert "config.cpp.simdlen = 1" in text


def test_the_program_sets_the_variant_itself_and_is_clean(bench: Bench) -> None:
    target = {"file": str(faults.PROGRAMS), "function": "maximum_with_negated_uint8"}
    variables = {**HEALTHY, **faults.variables("neg_without_cast", "scalar")}
    found = reduce(bench, target, test="exception", exception="CppCompileError", variables=variables)
    # Alone, neg is valid C++: it takes two types in one call to be none.
    assert found["minimal"]["ops"] == [NEG, "aten.maximum.default"]
    assert (found["minimal"]["nodes"], found["minimal"]["inputs"]) == (5, 2)
    file = bench.results / found["minimal"]["file"]
    # Nothing but the fault is asked of the process: without the variant's variable the file must still be scalar.
    faulty = faults.variables("neg_without_cast", "scalar")
    proof = prove(bench, file, faulty=faulty, healthy={})
    assert (proof["fails"], proof["passes"]) == (True, True)
    assert "compiled raises InductorError: CppCompileError" in proof["output_with"]
    ruff = shutil.which("ruff") or str(Path(sys.executable).with_name("ruff"))
    for command in (
        ["check"],
        ["check", "--select", "E,F,W,I,N,B,UP,D,RET,SIM", "--ignore", "D203,D213"],
        ["format", "--check"],
    ):
        checked = subprocess.run([ruff, *command, "--isolated", str(file)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stdout


def test_graphs_of_every_kind_are_reduced_to_the_faulty_op(bench: Bench) -> None:
    functions = {
        "twenty_and_more": "forward",
        "adds_in_place": "forward",
        "two_graphs": "forward",
        "random_inside": "forward",
        "cosine_of_product": "backward",
        "in_a_branch": "forward",
        "right": "forward",
    }
    asked = [
        {"target": {"file": str(DATA / "programs.py"), "function": function}, "seed": 0, "direction": direction,
         "test": "accuracy", "folder": str(bench.scratch / function)}
        for function, direction in functions.items()
    ]  # fmt: skip
    answers = dict(zip(functions, reduced_by(bench, "reduce_all.py", asked=asked, variables=DOUBLED), strict=True))
    right = answers.pop("right")
    assert right["minimal"] is None
    assert right["reason"] == "nothing to minify: alone, the graph that Inductor gets does not fail"
    branch = answers.pop("in_a_branch")
    assert branch["minimal"]["ops"] == ["higher_order.cond", "getitem"]
    assert {function: answer["minimal"]["ops"] for function, answer in answers.items()} == {
        function: [NEG] for function in answers
    }
    assert answers["twenty_and_more"]["steps"][0]["nodes_before"] > 20
    assert sum(step["queries"] for step in answers["twenty_and_more"]["steps"]) <= 8
    assert (answers["two_graphs"]["graphs"], answers["two_graphs"]["graph"]) == (2, 1)
    assert "int64 (1,)" in answers["adds_in_place"]["minimal"]["shapes"]


@pytest.mark.parametrize(("how", "test"), [("crash", "crash"), ("hang", "hang"), ("crash", "accuracy")])
def test_a_candidate_that_dies_or_hangs_costs_itself_alone(bench: Bench, how: str, test: str) -> None:
    asked = {
        "target": TUTORIAL, "seed": 0, "direction": "forward", "test": test, "isolate": True,
        "folder": str(bench.scratch / "reduced"), "candidate_timeout_s": 30 if how == "crash" else 6,
    }  # fmt: skip
    found = reduced_by(bench, "broken_neg.py", how, asked=asked, variables=HEALTHY)
    if test == "accuracy":  # a crash is no wrong result
        assert found["minimal"] is None
        assert found["reason"].endswith("; 1 ended without a result")
    else:
        assert found["minimal"]["ops"] == [NEG]


def test_tensors_are_written_down_to_the_bit_with_their_layout(bench: Bench) -> None:
    assert script(bench, "round_trip.py") == "done\n"


def test_a_case_that_cannot_be_read_is_said_to_be_so(bench: Bench) -> None:
    found = reduce(bench, {"file": str(DATA / "programs.py"), "function": "no_such"}, variables=HEALTHY)
    assert found["minimal"] is None
    assert found["reason"] == "programs.py defines no 'no_such'."
