"""How the roofline step chooses its arrays and its arms, and what its records hold."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.config import known_presets, load_preset
from cpulab.records import schema_problem
from cpulab.roofline import step

if TYPE_CHECKING:
    from cpulab.step import Observed

ENVIRONMENT = Path(__file__).parents[1] / "data" / "report" / "results" / "environment.json"
MIB = 2**20


def machine(root: Path, caches: dict[int, tuple[str, str]], available: int = 100_000 * MIB) -> Path:
    """Make a tree with a last-level cache (its size, and the CPUs that share it) for each CPU, and a small one below."""
    for cpu, (size, shared) in caches.items():
        for index, (level, words, cpus) in enumerate(((1, "32K", str(cpu)), (3, size, shared), (2, "1024K", str(cpu)))):
            folder = root / f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", str(level)), ("size", words), ("shared_cpu_list", cpus)):
                (folder / name).write_text(f"{text}\n")
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available // 1024} kB\n")
    return root


def test_a_cache_that_cpus_share_counts_once(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: ("32768K", "0-1"), 1: ("32768K", "0-1"), 2: ("32M", "2-3")})
    assert step.last_level_cache([0, 1], root) == 32 * MIB
    assert step.last_level_cache([0, 1, 2], root) == 64 * MIB


def test_caches_that_are_not_told_are_unknown(tmp_path: Path) -> None:
    root = machine(tmp_path, {0: ("32M", "0"), 1: ("unknown", "1")})
    assert step.last_level_cache([0, 1], root) is None
    assert step.last_level_cache([7], root) is None


def test_an_array_is_four_times_the_caches_where_the_memory_has_room_for_three(tmp_path: Path) -> None:
    root = machine(tmp_path, {}, available=1200 * MIB)
    assert step.array_bytes(10 * MIB, root) == 40 * MIB
    assert step.array_bytes(1000 * MIB, root) == 200 * MIB


def test_the_memory_that_a_cgroup_grants_counts(tmp_path: Path) -> None:
    root = machine(tmp_path, {}, available=12_000 * MIB)
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text("0::/\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/memory.max").write_text(f"{600 * MIB}\n")
    assert step.array_bytes(1000 * MIB, root) == 100 * MIB


def test_an_array_for_unknown_caches_or_memory_has_a_size_all_the_same(tmp_path: Path) -> None:
    assert step.array_bytes(None, tmp_path) == 256 * MIB


@dataclasses.dataclass
class Bench:
    """A bench whose workers answer at once: as a measured process that takes a second a call, or with the model."""

    environment: Any
    preset: Any
    scratch: Path
    model: str = "a model"
    seed: int = 7
    layers: dict[str, Any] = dataclasses.field(default_factory=dict)
    asked: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    @property
    def reporter(self) -> Any:
        return SimpleNamespace(stage=self.asked.count)

    def new_cache(self) -> dict[str, str]:
        return {}

    def worker(self, module: str, asked: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.asked.append(asked)
        if module == "cpulab.roofline.worker":
            return self.layers
        assert module == "cpulab.measure.worker"
        right = {"compiled_is_right": True, "largest_error": 0.0}
        return {
            "arms": {arm: {"warmup": [2.0], "values": [1.0, 1.0], "disturbed": []} for arm in asked["arms"]},
            "orders": [" ".join(asked["arms"])] * 2,
            "planned_rounds": 2,
            "warmup_rounds": 1,
            "steady": True,
            "calls_per_sample": 1,
            "watch": [],
            "sentinel_s": 1e-4,
            "harness_s_per_sample": 1e-6,
            "inductor_cache": None,
            "attestation": {"in_force": 15, "impossible": "", "seconds": 0.02},
            "graph_breaks": 0,
            "freezing": asked["freezing"],
            "facts": {"kind": asked["subject"]["kind"]},
            "first_call": 3.0,
            **({"correctness": right} if "inductor" in asked["arms"] else {}),
        }


def look(bench: Bench, case: str) -> Observed:
    return step.CASES[case].look(bench)  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(SimpleNamespace(path=ENVIRONMENT, cpus=[0]), load_preset("smoke"), tmp_path)


def test_roofs_are_measured_on_all_threads_and_on_one(bench: Bench) -> None:
    found = look(bench, "machine")
    arms = bench.asked[0]["arms"]

    assert arms == bench.asked[0]["subject"]["arms"] == [one.name for one in found.measurements]
    assert {f"{arm}_one" for arm in arms if not arm.endswith("_one")} == {arm for arm in arms if arm.endswith("_one")}
    assert {"copy", "triad", "matmul_float32"} <= set(arms)
    assert bench.asked[0]["subject"]["array_bytes"] > 0
    assert "last_level_cache_bytes" in found.observations


@pytest.mark.parametrize(
    ("flags", "has"), [(["avx512f"], False), (["amx_bf16"], True), (["bf16"], True), (None, False)]
)
def test_bfloat16_is_multiplied_where_the_cpu_does_so_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, flags: list[str] | None, has: bool
) -> None:
    monkeypatch.setattr(step, "load_data", lambda *_: {"host": {"vector_flags": {"value": flags}}})
    look(bench, "machine")
    arms = bench.asked[0]["arms"]
    assert ("matmul_bfloat16" in arms, "matmul_bfloat16_one" in arms) == (has, has)


def test_the_pattern_is_measured_beside_roofs_and_without_allocation(bench: Bench) -> None:
    found = look(bench, "pattern")
    assert bench.asked[0]["arms"] == ["eager", "preallocated", "inductor", "placebo", "copy", "triad"]
    assert found.observations["compiled_is_right"] is True


def test_each_case_samples_by_its_own_part_of_the_preset_and_in_the_seed_of_the_run(bench: Bench) -> None:
    bench.layers = {"layers": LAYERS, "packing": "mkl", "facts": FACTS}
    for case in step.CASES:
        look(bench, case)
        sampling = getattr(bench.preset.roofline, case)
        assert bench.asked[-1]["rounds"] == sampling.rounds
        assert bench.asked[-1]["subject"]["kind"] == case
        assert bench.asked[-1]["subject"]["seed"] == 7
        assert step.CASES[case].expected_s(bench.preset) == sampling.budget_s


@pytest.mark.parametrize("preset", known_presets())
def test_no_case_of_a_preset_asks_for_more_processes_than_it_allows(preset: str) -> None:
    for case in step.CASES:
        sampling = getattr(load_preset(preset).roofline, case)
        assert sampling.min_processes <= sampling.max_processes


LAYERS = [
    {"rows": 64, "in_features": 512, "out_features": 128, "bias": True, "calls": 14, "flop": 2 * 64 * 512 * 128},
    {"rows": 64, "in_features": 512, "out_features": 128, "bias": False, "calls": 1, "flop": 2 * 64 * 512 * 128},
]
FACTS = {"batch": 2, "sequence_length": 32, "layers": 2, "weights": "seeded"}


def test_each_layer_is_measured_plain_packed_and_again(bench: Bench) -> None:
    bench.layers = {"layers": LAYERS, "packing": "mkl", "facts": FACTS}
    found = look(bench, "linear")
    model, sampled = bench.asked[:2]

    names = ["plain_64x512x128", "packed_64x512x128", "placebo_64x512x128"]
    assert sampled["arms"] == [*names, *(f"{name}_without_bias" for name in names)]
    assert [one.name for one in found.measurements] == sampled["arms"]
    assert found.observations["linear_layers"] == sampled["subject"]["layers"]
    assert [row["plain"] for row in sampled["subject"]["layers"]] == [sampled["arms"][0], sampled["arms"][3]]
    assert found.observations["packing"] == sampled["subject"]["packing"] == "mkl"
    assert (found.observations["batch"], found.observations["layers"]) == (2, 2)
    assert (model["model"], model["batch"], model["seed"]) == ("a model", 2, 7)


def test_where_nothing_packs_nothing_is_measured_and_the_layers_are_told(bench: Bench) -> None:
    bench.layers = {"layers": LAYERS, "packing": None, "facts": FACTS}
    found = look(bench, "linear")

    assert len(bench.asked) == 1
    assert found.measurements == []
    rows: Any = found.observations["linear_layers"]
    assert [(row["shape"], row["packed"]) for row in rows] == [("64x512x128", None), ("64x512x128_without_bias", None)]


def test_a_model_without_linear_layers_has_nothing_to_measure(bench: Bench) -> None:
    bench.layers = {"layers": [], "packing": "mkl", "facts": FACTS}
    found = look(bench, "linear")
    assert (len(bench.asked), found.observations["linear_layers"]) == (1, [])


@pytest.mark.parametrize("case", step.CASES)
def test_what_is_observed_fits_the_schema_of_records(bench: Bench, case: str) -> None:
    bench.layers = {"layers": LAYERS, "packing": "mkl", "facts": FACTS}
    kept = look(bench, case)
    record = {
        "schema_version": 1, "step": "roofline", "case": case, "variant": "default", "preset": "smoke",
        "status": "ok", "environment": "0" * 64, "command": [], "start": "2026-01-01T00:00:00Z", "duration_s": 1.0,
        "artifacts": [], "error": None, "digest": "0" * 64,
        "observations": kept.observations, "measurements": [dataclasses.asdict(one) for one in kept.measurements],
    }  # fmt: skip
    assert schema_problem("record", record) is None
