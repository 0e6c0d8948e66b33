"""The profile step turns what its worker saw into observations; a worker's recorded answers stand for it here."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.config import load_preset
from cpulab.host.launch import Environment, load_environment, run_measured
from cpulab.profile import traces
from cpulab.profile.step import CASES
from cpulab.progress import Reporter
from cpulab.step import Bench, observe

if TYPE_CHECKING:
    from cpulab.records import Record

DATA = Path(__file__).parents[1] / "data" / "profile"


Answer = dict[str, Any]
# What the bench makes of the attestation of a process that has every setting.
ATTESTATION = {"in_force": 15, "impossible": "", "seconds": 0.02}

Profiled = Callable[..., "tuple[Record, Answer]"]


def _as_recorded(answer: Answer, scratch: Path) -> None:
    """Change nothing."""


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiled:
    """Observe a case with its recorded answer, changed by ``change``; give the record and what the worker was asked."""

    def look(case: str, change: Callable[[Answer, Path], None] = _as_recorded) -> tuple[Record, Answer]:
        asked: Answer = {}

        def worker(
            bench: Bench, _module: str, arguments: Answer, *, variables: dict[str, str], timeout_s: float
        ) -> Answer:
            asked.update(arguments, variables=variables, timeout_s=timeout_s)
            answer: Answer = json.loads((DATA / f"{case}_answer.json").read_text())
            answer["attestation"] = ATTESTATION
            code = DATA / f"{case}_output_code.py.txt"
            answer["sources"] = [code.read_text()] if code.exists() else []
            for step in (*answer["steps"], *answer["published_schedule"]):
                _write_trace(bench.scratch / step["trace"], step["ops"])
            change(answer, bench.scratch)
            return answer

        monkeypatch.setattr(Bench, "worker", worker)
        environment = Environment(sys.executable, {}, [0], [0], "0" * 64, tmp_path / "environment.json")
        log = tmp_path / "logs" / "profile" / f"{case}.log"
        variant, preset = CASES[case].variant, load_preset("smoke")
        with Reporter(case, 1, log, io.StringIO()) as reporter:
            bench = Bench("profile", case, variant, preset, "a/model", 7, environment, tmp_path, reporter)
            return observe(bench, CASES[case].look, tmp_path / "profile" / f"{case}.json"), asked

    return look


def _write_trace(path: Path, ops: list[Answer]) -> None:
    recorded = DATA / f"compiled_as_published_{path.name}"
    if recorded.exists() and any(op["name"] == "mkl::_mkl_linear" for op in ops):
        shutil.copy(recorded, path)
        return
    whole = {"ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}
    events = [{**whole, "name": op["name"]} for op in ops for _ in range(op["calls"])]
    path.write_text(json.dumps({"traceEvents": events}))


def test_the_depth_is_the_networks_own_and_not_what_the_preset_asks_for(profiled: Profiled) -> None:
    record, _ = profiled("eager_as_published", lambda answer, _: answer.update(layers=24))
    assert record.observations["layers"] == 24


def test_the_record_holds_that_its_process_was_attested(profiled: Profiled) -> None:
    assert profiled("eager_as_published")[0].observations["attestations"] == [{"process": 0, **ATTESTATION}]


def test_the_four_cases_differ_in_what_they_ask_for(profiled: Profiled) -> None:
    found = {}
    for case in ("eager_as_published", "compiled_as_published", "compiled_default"):
        record, asked = profiled(case)
        found[case] = (
            record.variant,
            asked["compiled"],
            asked["attention"],
            asked["freezing"],
            asked["published_schedule"],
        )
    assert found == {
        "eager_as_published": ("as_published", False, "eager", False, True),
        "compiled_as_published": ("as_published", True, "eager", True, False),
        "compiled_default": ("default", True, "sdpa", False, False),
    }
    assert set(CASES) == {*found, "eager_default"}
    assert CASES["eager_default"].look.keywords == {
        "compiled": False, "attention": "sdpa", "freezing": False, "published_schedule": False,
    }  # fmt: skip


def test_a_compile_has_a_cache_of_its_own_that_goes_with_the_scratch_folder(profiled: Profiled, tmp_path: Path) -> None:
    _, asked = profiled("compiled_default")
    cache = Path(asked["variables"]["TORCHINDUCTOR_CACHE_DIR"])
    assert cache.is_absolute()
    assert tmp_path / "scratch" in cache.parents
    assert asked["timeout_s"] == load_preset("smoke").profile.timeout_s


def test_a_compiled_profile_says_which_kernels_ran_and_what_is_not_fused(profiled: Profiled) -> None:
    record, _ = profiled("compiled_default")
    seen = record.observations
    assert record.error is None
    assert len(seen["kernels"]) == len(seen["fused_kernels"]) == 8
    assert seen["unmapped_kernels"] == []
    assert {kernel["file"] for kernel in seen["kernels"]} == {"output_code.py"}
    assert seen["elementwise_ops_left"] == []
    assert seen["elementwise_calls_left"] == [
        {"name": "aten::copy_", "inside": "aten::addmm", "kind": "copy", "calls": 32}
    ]
    assert "elementwise_ops" not in seen


def test_a_kernel_of_the_profile_that_was_not_generated_is_named(profiled: Profiled) -> None:
    def lose(answer: Answer, scratch: Path) -> None:
        answer["sources"] = [answer["sources"][0].replace("graph_0_cpp_fused_relu_view_4", "graph_0_other")]

    record, _ = profiled("compiled_default", lose)
    assert record.observations["unmapped_kernels"] == ["graph_0_cpp_fused_relu_view_4"]


def test_the_line_of_a_kernel_is_that_of_the_code_which_is_kept(profiled: Profiled, tmp_path: Path) -> None:
    record, _ = profiled("compiled_as_published")
    lines = (tmp_path / "profile/compiled_as_published/output_code.py").read_text().splitlines()
    for kernel in record.observations["kernels"]:
        assert lines[kernel["line"] - 1].startswith(f"{kernel['name']} = ")


@pytest.mark.parametrize("case", ["compiled_as_published", "compiled_default"])
def test_every_fused_kernel_has_the_operators_that_it_takes_the_place_of(profiled: Profiled, case: str) -> None:
    seen = profiled(case)[0].observations
    rows = seen["kernel_origins"]
    assert {row["name"] for row in seen["fused_kernels"]} <= {row["kernel"] for row in rows}
    eager = {op["name"]: op["calls"] for op in profiled("eager_as_published")[0].observations["ops"]}
    fused = [row for row in rows if row["kernel"].startswith("graph_")]
    # No input's operators are among them: each of eager's is in one kernel alone.
    for name in ("aten::add", "aten::relu"):
        assert sum(row["nodes"] for row in fused if row["name"] == name) == eager[name]


def test_a_packed_linear_takes_the_place_of_addmm(profiled: Profiled) -> None:
    rows = profiled("compiled_as_published")[0].observations["kernel_origins"]
    packed = [(row["name"], row["nodes"]) for row in rows if row["kernel"] == "mkl::_mkl_linear"]
    assert packed == [("aten::addmm", 32)]


def test_an_elementwise_op_that_is_still_dispatched_is_named(profiled: Profiled) -> None:
    def add(answer: Answer, scratch: Path) -> None:
        for step in answer["steps"]:
            step["elementwise"].append({"name": "aten::mul", "inside": None, "kind": "pointwise", "calls": 1})

    record, _ = profiled("compiled_as_published", add)
    assert record.observations["elementwise_ops_left"] == ["aten::mul"]


def test_an_eager_profile_names_its_elementwise_ops_and_no_kernels(profiled: Profiled) -> None:
    seen = profiled("eager_as_published")[0].observations
    assert seen["elementwise_ops"] == ["aten::add", "aten::clamp_min", "aten::clone", "aten::mul", "aten::relu"]
    assert "kernels" not in seen


def test_the_published_schedule_is_observed_with_its_steps(profiled: Profiled) -> None:
    seen = profiled("eager_as_published")[0].observations
    assert (seen["published_schedule_asked"], seen["published_schedule_traces"]) == (5, 3)
    assert seen["published_schedule_steps"] == [21, 32, 43]
    assert seen["published_schedule_traces_valid"] is True
    assert seen["traces_exported"] == 2


def test_the_table_of_the_median_step_is_recorded_whole(profiled: Profiled) -> None:
    answer = json.loads((DATA / "compiled_as_published_answer.json").read_text())

    def three(changed: Answer, scratch: Path) -> None:
        step = changed["steps"][0]
        shutil.copy(scratch / step["trace"], scratch / "trace_8.json")
        slow = {**step, "step": 8, "step_total_s": 99.0, "ops": step["ops"][:1], "trace": "trace_8.json"}
        changed["steps"] = [slow, step, {**slow, "step_total_s": 0.0}]

    seen = profiled("compiled_as_published", three)[0].observations
    assert seen["ops"] == answer["steps"][0]["ops"]
    assert [row["step"] for row in seen["op_steps"]] == [8] + [5] * len(seen["ops"]) + [8]
    assert [row["step"] for row in seen["step_accounts"]] == [8, 5, 8]
    assert (seen["profiled_step"], seen["step_total_s"]) == (5, answer["steps"][0]["step_total_s"])
    assert seen["step_totals_s"] == [99.0, answer["steps"][0]["step_total_s"], 0.0]


def test_traces_tables_and_code_are_kept(profiled: Profiled, tmp_path: Path) -> None:
    record, _ = profiled("compiled_as_published")
    assert {(one.kind, one.path) for one in record.artifacts} == {
        ("output_code", "profile/compiled_as_published/output_code.py"),
        ("trace", "profile/compiled_as_published/traces/trace_5.json.gz"),
        ("trace", "profile/compiled_as_published/traces/trace_8.json.gz"),
        ("op_table", "profile/compiled_as_published/ops.csv"),
    }
    assert all((tmp_path / one.path).stat().st_size == one.bytes > 0 for one in record.artifacts)
    assert (record.observations["traces_valid"], record.observations["traces_hold_ops"]) == (True, True)


def test_a_trace_cut_short_is_an_observation_and_no_failure(profiled: Profiled) -> None:
    def cut(answer: Answer, scratch: Path) -> None:
        trace = scratch / answer["steps"][0]["trace"]
        trace.write_bytes(trace.read_bytes()[:-2000])

    record, _ = profiled("compiled_as_published", cut)
    seen = record.observations
    assert (record.status, seen["traces_valid"], seen["traces_hold_ops"]) == ("ok", False, False)
    assert "trace_5.json.gz is not gzipped JSON" in seen["trace_problems"][0]


def test_a_trace_that_lacks_a_call_of_the_table_is_valid_but_does_not_hold_it(profiled: Profiled) -> None:
    def call_more(answer: Answer, scratch: Path) -> None:
        answer["steps"][0]["ops"][0]["calls"] += 1

    seen = profiled("compiled_as_published", call_more)[0].observations
    assert (seen["traces_valid"], seen["traces_hold_ops"]) == (True, False)
    assert len(seen["trace_problems"]) == 1


def test_a_larger_model_and_more_profiled_steps_are_expected_to_take_longer() -> None:
    tutorial, quick, smoke = map(load_preset, ("tutorial", "quick", "smoke"))
    for case in CASES.values():
        assert case.expected_s(smoke) < case.expected_s(quick) < case.expected_s(tutorial)
        more = replace(tutorial, profile=replace(tutorial.profile, active=tutorial.profile.active + 1))
        assert case.expected_s(more) > case.expected_s(tutorial)


@pytest.mark.torch
def test_the_worker_reads_tables_calls_and_traces_from_the_profiler_itself(environment: Path, tmp_path: Path) -> None:
    script = """
import json, torch
from cpulab.profile.worker import elementwise, is_pointwise, published_schedule, take
names = ["aten::add", "aten::add_", "aten::relu", "aten::clamp_min", "aten::copy_", "aten::addmm", "aten::view", "ProfilerStep*"]
bias, matrix = torch.ones(8), torch.ones(8, 8)
plan = {"wait": 0, "warmup": 1, "active": 1, "repeat": 1}
call = lambda: torch.relu(torch.addmm(bias, matrix, matrix))
(addmm,) = take(call, 2, plan, "addmm_", lambda profiler: {"calls": elementwise(profiler)})
seen = {"pointwise": [name for name in names if is_pointwise(name)], "calls": addmm["calls"], "published": published_schedule(0)}
print(json.dumps(seen))
"""
    completed = run_measured(load_environment(environment), ["python", "-c", script], cwd=tmp_path, timeout_s=120)
    assert completed.returncode == 0, completed.stderr
    seen = json.loads(completed.stdout)
    assert seen["pointwise"] == ["aten::add", "aten::add_", "aten::relu", "aten::clamp_min"]
    calls = {(call["name"], call["inside"], call["kind"]): call["calls"] for call in seen["calls"]}
    assert calls["aten::copy_", "aten::addmm", "copy"] == 1
    assert calls["aten::clamp_min", "aten::relu", "pointwise"] == 1
    assert [step["step"] for step in seen["published"]] == [21, 32, 43]
    for step in seen["published"]:
        rows = {row["name"]: row for row in step["ops"]}
        assert {"aten::neg", "aten::maximum", "aten::cat"} <= set(rows)
        assert sum(row["self_s"] for row in step["ops"]) == pytest.approx(step["step_total_s"])
        assert rows["ProfilerStep*"]["total_s"] == pytest.approx(step["step_total_s"])
        assert rows["aten::neg"]["share"] == pytest.approx(rows["aten::neg"]["self_s"] / step["step_total_s"])
        assert rows["ProfilerStep*"]["self_s"] < rows["ProfilerStep*"]["total_s"]
        packed = tmp_path / f"{step['trace']}.gz"
        traces.pack(tmp_path / step["trace"], packed)
        assert traces.missing_calls(step["ops"], traces.calls(packed)) == []


@pytest.mark.torch
def test_a_kernel_is_known_by_the_operators_that_it_computes_and_not_by_those_of_its_inputs(
    environment: Path, tmp_path: Path
) -> None:
    script = """
import json, torch
from cpulab.profile.origins import Origins
origins = Origins()
def program(x, weight):
    product = torch.relu(x).neg() @ weight
    return torch.tanh(product) * 2 + product
with torch.no_grad(), origins.recorded():
    torch.compile(program)(torch.randn(64, 64), torch.randn(64, 64))
print(json.dumps(sorted((row["kernel"], row["name"], row["nodes"]) for row in origins.rows)))
"""
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    completed = run_measured(
        load_environment(environment), ["python", "-c", script], variables=variables, cwd=tmp_path, timeout_s=300
    )
    assert completed.returncode == 0, completed.stderr
    found: dict[str, dict[str, int]] = {}
    for kernel, name, nodes in json.loads(completed.stdout):
        found.setdefault(kernel, {})[name] = nodes
    assert sorted(found.values(), key=len) == [
        {"aten::mm": 1}, {"aten::relu": 1, "aten::neg": 1}, {"aten::tanh": 1, "aten::mul": 1, "aten::add": 1},
    ]  # fmt: skip
    assert found["aten::mm"] == {"aten::mm": 1}
    assert all(kernel.startswith("graph_0_cpp_fused_") for kernel in found if kernel != "aten::mm")
