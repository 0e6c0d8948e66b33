"""How the benchmark step starts its processes and what its record holds."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpulab.config import Sampling, known_presets, load_preset
from cpulab.errors import UnfitCase
from cpulab.measure.process import observed, sample
from cpulab.measure.step import CASES
from cpulab.records import schema_problem

DATA = Path(__file__).parents[1] / "data" / "measure"
ATTESTATION = {"in_force": 15, "impossible": "", "seconds": 0.02}
SAMPLING = Sampling(budget_s=100, min_processes=2, max_processes=3, warmup=5, rounds=20, half_width=0.02)


def answers() -> list[dict[str, Any]]:
    return [tuned(cache) for cache in ("cold", "warm")]


def tuned(cache: str) -> dict[str, Any]:
    """Return what the bench makes of a tuned worker's answer."""
    answer = json.loads((DATA / f"fused_pattern_{cache}.json").read_text())
    del answer["attested"]
    return answer | {"attestation": ATTESTATION}


class RecordedBench:
    """A bench whose worker answers with what real processes answered."""

    def __init__(self, folder: Path) -> None:
        self.scratch = folder
        self.preset = load_preset("smoke")
        self.model = "a model"
        self.seed = 7
        self.stages: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.protocols: list[dict[str, Any]] = []
        self.variables: list[dict[str, str]] = []
        self.reporter = SimpleNamespace(stage=self.stages.append)

    def new_cache(self) -> dict[str, str]:
        return {"TORCHINDUCTOR_CACHE_DIR": str(self.scratch.resolve() / f"cache{len(self.stages)}")}

    def worker(
        self, module: str, asked: dict[str, Any], *, variables: dict[str, str], timeout_s: float, tuned: bool = True
    ) -> Any:
        assert tuned
        assert timeout_s > self.preset.benchmark.budget_s
        self.variables.append(variables)
        if module == "cpulab.measure.protocol_worker":
            self.protocols.append(asked)
            row = {"warmup": asked["warmup"], "iterations": asked["iterations"], "seconds": 1.0, "first_call": 0.1}
            return {"rows": [{"arm": arm, **row} for arm in asked["arms"]], "peak_memory": 1e6 * len(self.protocols)}
        self.asked.append(asked)
        return answers()[min(len(self.asked), 2) - 1]


def test_processes_are_measured_until_the_sampling_stops(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    processes, reason = sample(bench, SAMPLING, {"kind": "program"}, freezing=False)

    assert (len(processes), reason) == (3, "processes")
    assert len(bench.stages) == 3


def test_all_processes_of_a_case_share_one_cache_folder_below_its_scratch(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    sample(bench, SAMPLING, {"kind": "program"}, freezing=False)
    caches = {variables["TORCHINDUCTOR_CACHE_DIR"] for variables in bench.variables}

    assert len(caches) == 1
    assert Path(caches.pop()).is_relative_to(tmp_path.resolve())
    assert all(variables["HF_HUB_OFFLINE"] == "1" for variables in bench.variables)


def test_each_process_goes_on_in_the_orders_where_the_last_one_stopped(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    sample(bench, SAMPLING, {"kind": "program"}, freezing=False)

    assert [asked["first_round"] for asked in bench.asked] == [0, 20, 40]


def test_deadlines_share_the_budget(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    sample(bench, SAMPLING, {"kind": "program"}, freezing=False)
    first, second = (asked["deadline"] for asked in bench.asked[:2])

    # Half of it each, and the recorded first process left all of its half to the second.
    assert second - first == pytest.approx(50, abs=5)


@pytest.mark.parametrize(
    ("case", "attention", "freezing"),
    [("mobilebert_as_published", "eager", True), ("mobilebert_default", "sdpa", False)],
)
def test_the_variants_of_the_model_differ_in_attention_and_freezing(
    tmp_path: Path, case: str, attention: str, freezing: bool
) -> None:
    bench = RecordedBench(tmp_path)
    CASES[case].look(bench)
    asked = bench.asked[0]

    assert (asked["subject"]["attention"], asked["freezing"]) == (attention, freezing)
    assert asked["subject"]["model"] == "a model"
    assert (asked["subject"]["layers"], asked["subject"]["batch"], asked["subject"]["seed"]) == (2, 2, 7)


def test_the_pattern_is_measured_by_its_own_budget(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    CASES["fused_pattern"].look(bench)

    assert bench.asked[0]["subject"]["program"] == "fused_pattern"
    assert bench.asked[0]["rounds"] == bench.preset.pattern.rounds


def test_the_record_keeps_every_sample_of_every_process() -> None:
    kept = {one.name: one for one in observed(answers(), "budget").measurements}

    assert list(kept) == ["eager", "inductor", "placebo", "first_call"]
    for arm in ("eager", "inductor", "placebo"):
        assert [dataclasses.asdict(one) for one in kept[arm].processes] == [answer["arms"][arm] for answer in answers()]
    assert [one.values for one in kept["first_call"].processes] == [[answer["first_call"]] for answer in answers()]
    assert (kept["eager"].unit, kept["first_call"].unit) == ("s", "s")


def test_the_tutorials_own_protocol_is_run_once_and_each_arm_alone_for_its_peak_memory(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    found = CASES["mobilebert_as_published"].look(bench)
    both, eager, inductor = bench.protocols

    assert (both["arms"], both["warmup"], both["iterations"]) == (["eager", "inductor"], 10, 50)
    assert (eager["arms"], inductor["arms"]) == (["eager"], ["inductor"])
    assert all(asked["freezing"] and asked["subject"]["attention"] == "eager" for asked in bench.protocols)
    assert len({variables["TORCHINDUCTOR_CACHE_DIR"] for variables in bench.variables}) == 1
    assert [row["arm"] for row in found.observations["protocol"]] == ["eager", "inductor"]  # type: ignore[union-attr, index]
    peaks = {one.name: one.processes[0].values for one in found.measurements if one.unit == "byte"}
    assert peaks == {"peak_memory_eager": [2e6], "peak_memory_inductor": [3e6]}


@pytest.mark.parametrize("case", ["mobilebert_as_published", "mobilebert_default", "fused_pattern"])
def test_what_a_case_takes_counts_the_processes_after_its_samples(tmp_path: Path, case: str) -> None:
    bench = RecordedBench(tmp_path)
    CASES[case].look(bench)
    part = bench.preset.pattern if case == "fused_pattern" else bench.preset.benchmark

    one = part.budget_s / part.min_processes
    assert CASES[case].expected_s(bench.preset) == pytest.approx(part.budget_s + len(bench.protocols) * one)


def test_each_process_knows_the_quietest_reading_of_the_sentinel_before_it(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    sample(bench, SAMPLING, {"kind": "program"}, freezing=False)
    cold, warm = (answer["sentinel_s"] for answer in answers())

    assert [asked["sentinel_s"] for asked in bench.asked] == [None, cold, min(cold, warm)]


def test_a_case_that_cannot_be_timed_is_the_users_to_correct(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    bench.worker = lambda *_, **__: {"unfit": "it changes its inputs."}  # type: ignore[method-assign]

    with pytest.raises(UnfitCase, match=r"cannot be timed: it changes its inputs\. Correct it"):
        sample(bench, SAMPLING, {"kind": "case"}, freezing=False)


def test_the_record_says_how_many_rounds_were_disturbed_and_taken_again() -> None:
    first, second = answers()
    second["watch"] = [
        {"first_round": 0, "rounds": 3, "disturbed": False, "because": ""},
        {"first_round": 3, "rounds": 19, "disturbed": True, "because": "threads waited"},
    ]
    second["orders"] += ["eager inductor placebo"] * 2
    seen = observed([first, second], "budget").observations

    assert (seen["rounds_taken"], seen["rounds_disturbed"], seen["rounds_again"]) == (42, 19, 2)
    assert seen["watch"][-1] == {"process": 1, **second["watch"][1]}  # type: ignore[index]
    assert [one["process"] for one in seen["warmups"]] == [0, 1]  # type: ignore[union-attr, index]


def test_the_record_says_what_was_built_how_it_compares_and_why_sampling_stopped() -> None:
    seen = observed(answers(), "budget").observations

    assert (seen["rows"], seen["columns"], seen["freezing"]) == (16384, 512, False)
    assert (seen["compiled_is_right"], seen["oracle"]) == (True, "eager")
    assert seen["stopped_by"] == "budget"
    assert (seen["first_call_caches"], seen["inductor_cache"]) == (["cold", "warm"], ["miss", "hit"])
    assert [one["process"] for one in seen["round_orders"]] == [0, 1]
    assert seen["attestations"] == [{"process": 0, **ATTESTATION}, {"process": 1, **ATTESTATION}]


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_process_with_a_wrong_result_makes_the_result_wrong(wrong: int) -> None:
    processes = answers()
    # The right one differs by more, and float64 bore it out.
    processes[wrong]["correctness"] |= {"compiled_is_right": False, "largest_error": 1e-3, "oracle": "float64"}
    processes[1 - wrong]["correctness"] |= {"largest_error": 1e-2, "oracle": "float64"}
    seen = observed(processes, "budget").observations

    assert (seen["compiled_is_right"], seen["largest_error"], seen["oracle"]) == (False, 1e-3, "float64")


@pytest.mark.parametrize("infinite", [0, 1])
def test_of_several_wrong_results_one_that_is_not_finite_is_kept(infinite: int) -> None:
    processes = answers()
    for number, error in ((infinite, None), (1 - infinite, 1e-3)):
        processes[number]["correctness"] |= {"compiled_is_right": False, "largest_error": error}

    assert observed(processes, "budget").observations["largest_error"] is None


@pytest.mark.parametrize("larger", [0, 1])
def test_of_several_right_results_the_least_exact_is_kept(larger: int) -> None:
    processes = answers()
    processes[larger]["correctness"]["largest_error"] = 1e-5

    assert observed(processes, "budget").observations["largest_error"] == 1e-5


def test_what_is_observed_fits_the_schema_of_records() -> None:
    kept = observed(answers(), "interval")
    record = {
        "schema_version": 1, "step": "benchmark", "case": "fused_pattern", "variant": "default", "preset": "smoke",
        "status": "ok", "environment": "0" * 64, "command": [], "start": "2026-01-01T00:00:00Z", "duration_s": 1.0,
        "artifacts": [], "error": None, "digest": "0" * 64,
        "observations": kept.observations, "measurements": [dataclasses.asdict(one) for one in kept.measurements],
    }  # fmt: skip

    assert schema_problem("record", record) is None


@pytest.mark.parametrize("preset", known_presets())
def test_the_budgets_of_a_preset_leave_time_for_its_least_number_of_processes(preset: str) -> None:
    sizes = load_preset(preset)

    for sampling in (sizes.benchmark, sizes.pattern, sizes.tuning, sizes.pattern_tuning):
        assert sampling.min_processes <= sampling.max_processes
        assert sampling.rounds % 2 == 0
