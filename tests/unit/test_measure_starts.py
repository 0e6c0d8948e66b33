"""How tuned and untuned processes take turns, and what their record holds."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cpulab.config import Sampling, load_preset
from cpulab.measure.starts import STARTS, observed_starts, sample_starts
from cpulab.measure.step import CASES
from cpulab.records import schema_problem
from cpulab.statistics import placebo_between_processes, ratio_between_processes

DATA = Path(__file__).parents[1] / "data" / "measure"
SAMPLING = Sampling(budget_s=100, min_processes=2, max_processes=4, warmup=5, rounds=20, half_width=0.02)
SUBJECT = {"kind": "program", "program": "fused_pattern", "seed": 0}


class RecordedBench:
    """A bench whose worker answers with what a real process of its start kind answered, slower by ``drift`` each time."""

    def __init__(self, folder: Path, drift: float = 0.0) -> None:
        self.scratch = folder
        self.drift = drift
        self.preset = load_preset("smoke")
        self.model = "a model"
        self.seed = 7
        self.environment = SimpleNamespace(threads=2)
        self.reporter = SimpleNamespace(stage=lambda _: None)
        self.asked: list[dict[str, Any]] = []
        self.variables: list[dict[str, str]] = []
        self.starts: list[str] = []

    def new_cache(self, name: str) -> dict[str, str]:
        return {"TORCHINDUCTOR_CACHE_DIR": str(self.scratch / name)}

    def worker(
        self, _module: str, asked: dict[str, Any], *, variables: dict[str, str], timeout_s: float, tuned: bool
    ) -> dict[str, Any]:
        assert timeout_s > 600
        self.asked.append(asked)
        self.variables.append(variables)
        self.starts.append("tuned" if tuned else "untuned")
        answer = json.loads((DATA / f"fused_pattern_{'warm' if tuned else 'untuned'}.json").read_text())
        answer["arms"].pop("placebo")
        for arm in answer["arms"].values():
            arm["values"] = [value * (1 + self.drift) ** len(self.starts) for value in arm["values"]]
        if tuned:
            del answer["attested"]
            answer["attestation"] = {"in_force": 15, "impossible": "", "seconds": 0.02}
        return dict(answer)


def taken(bench: RecordedBench, **changes: float) -> tuple[list[dict[str, Any]], str]:
    return sample_starts(bench, dataclasses.replace(SAMPLING, **changes), SUBJECT)  # type: ignore[arg-type]


def test_a_block_is_two_mirrored_pairs_and_the_next_block_is_its_mirror_image(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    taken(bench, min_processes=4)

    assert bench.starts == [
        "tuned", "untuned", "untuned", "tuned",
        "untuned", "tuned", "tuned", "untuned",
    ]  # fmt: skip


def test_sampling_stops_after_whole_blocks_and_its_numbers_are_processes_of_each_start_kind(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    processes, reason = taken(bench, min_processes=4)

    assert (len(processes), reason) == (8, "interval")
    assert Counter(process["start"] for process in processes) == {"tuned": 4, "untuned": 4}


def test_sampling_goes_on_until_the_wider_of_the_two_ratios_is_narrow(tmp_path: Path) -> None:
    class Uneven(RecordedBench):
        def worker(self, *asked: Any, **more: Any) -> dict[str, Any]:
            answer = super().worker(*asked, **more)
            factor = 1 + len(self.starts) / 3
            answer["arms"]["inductor"]["values"] = [value * factor for value in answer["arms"]["inductor"]["values"]]
            return answer

    assert taken(RecordedBench(tmp_path))[1] == "interval"
    assert taken(Uneven(tmp_path))[1] == "processes"


def test_a_steady_drift_moves_neither_the_ratio_nor_its_placebo(tmp_path: Path) -> None:
    def intervals(drift: float) -> list[float]:
        processes, _ = taken(RecordedBench(tmp_path, drift))
        kept = {
            one.name: [each.values for each in one.processes] for one in observed_starts(processes, "x", 2).measurements
        }
        arms = kept["eager_untuned"], kept["eager_tuned"]
        return [ratio_between_processes(*arms).estimate, placebo_between_processes(*arms).estimate]

    assert intervals(0.1) == pytest.approx(intervals(0.0))


def test_each_start_kind_shares_a_cache_of_its_own(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    taken(bench)
    caches = {(start, one["TORCHINDUCTOR_CACHE_DIR"]) for start, one in zip(bench.starts, bench.variables, strict=True)}

    assert caches == {("tuned", str(tmp_path / "tuned")), ("untuned", str(tmp_path / "untuned"))}


def test_each_process_takes_two_arms_and_goes_on_in_the_orders_of_its_start_kind(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    taken(bench, min_processes=4)

    assert all(asked["arms"] == ["eager", "inductor"] for asked in bench.asked)
    for start in STARTS:
        first = [asked["first_round"] for asked, one in zip(bench.asked, bench.starts, strict=True) if one == start]
        assert first == [0, 20, 40, 60]


def test_the_processes_that_are_due_share_the_budget(tmp_path: Path) -> None:
    bench = RecordedBench(tmp_path)
    taken(bench)
    first, second, third, last = (asked["deadline"] for asked in bench.asked)

    # 100 s over four, three, two processes and one; the recorded ones take no time.
    assert [second - first, third - second, last - third] == pytest.approx([100 / 12, 100 / 6, 50], abs=5)


@pytest.mark.parametrize(("case", "kind"), [("mobilebert_tuning", "model"), ("fused_pattern_tuning", "program")])
def test_a_case_measures_todays_default_by_its_own_part_of_the_preset(tmp_path: Path, case: str, kind: str) -> None:
    bench = RecordedBench(tmp_path)
    found = CASES[case].look(bench)  # type: ignore[arg-type]
    part = bench.preset.tuning if kind == "model" else bench.preset.pattern_tuning

    assert {asked["subject"]["kind"] for asked in bench.asked} == {kind}
    assert {asked["subject"].get("attention", "sdpa") for asked in bench.asked} == {"sdpa"}
    assert not any(asked["freezing"] for asked in bench.asked)
    assert bench.asked[0]["rounds"] == part.rounds
    assert CASES[case].expected_s(bench.preset) == part.budget_s
    assert found.observations["tuned_threads"] == 2


def test_the_record_keeps_every_sample_of_every_process_by_arm_and_start(tmp_path: Path) -> None:
    processes, _ = taken(RecordedBench(tmp_path, 0.1), max_processes=2)
    kept = {one.name: one for one in observed_starts(processes, "interval", 2).measurements}

    assert sorted(kept) == sorted(f"{name}_{start}" for name in ("eager", "inductor", "first_call") for start in STARTS)
    for start, places in (("tuned", (0, 3)), ("untuned", (1, 2))):
        for arm in ("eager", "inductor"):
            assert [dataclasses.asdict(one) for one in kept[f"{arm}_{start}"].processes] == [
                processes[place]["arms"][arm] for place in places
            ]
    assert (kept["eager_tuned"].unit, kept["first_call_untuned"].unit) == ("s", "s")


def test_the_record_says_in_which_order_the_processes_ran_and_what_was_in_force_in_each(tmp_path: Path) -> None:
    processes, _ = taken(RecordedBench(tmp_path))
    seen: Any = observed_starts(processes, "interval", 2).observations

    assert [one["start"] for one in seen["process_order"]] == ["tuned", "untuned", "untuned", "tuned"]
    assert [(one["process"], one["in_force"]) for one in seen["attestations"]] == [(0, 15), (3, 15)]
    untuned = {name: value for name, value in seen["untuned"][0].items() if name != "seconds"}
    assert untuned == {
        "process": 1, "openmp_runtime": "libgomp.so.1", "malloc": "libc.so.6", "torch_threads": 2, "cpus": "0-1",
        "memory_policy": "default",
    }  # fmt: skip
    assert [one["process"] for one in seen["untuned"]] == [1, 2]
    assert seen["first_call_untuned_caches"] == ["cold", "warm"]
    assert "/" not in json.dumps(seen["untuned"])


def test_what_is_observed_fits_the_schema_of_records(tmp_path: Path) -> None:
    kept = observed_starts(taken(RecordedBench(tmp_path))[0], "interval", 2)
    record = {
        "schema_version": 1, "step": "benchmark", "case": "fused_pattern_tuning", "variant": "default",
        "preset": "smoke", "status": "ok", "environment": "0" * 64, "command": [], "start": "2026-01-01T00:00:00Z",
        "duration_s": 1.0, "artifacts": [], "error": None, "digest": "0" * 64,
        "observations": kept.observations, "measurements": [dataclasses.asdict(one) for one in kept.measurements],
    }  # fmt: skip

    assert schema_problem("record", record) is None
