"""The correctness gate and the models, in the measured environment: two processes for all tests of this file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cpulab.host.launch import load_environment, run_measured

pytestmark = pytest.mark.torch

DATA = Path(__file__).parents[1] / "data" / "measure"


def probe(environment: Path, folder: Path, script: str, *arguments: str) -> dict[str, Any]:
    answer = folder / "answer.json"
    completed = run_measured(
        load_environment(environment),
        ["python", str(DATA / script), *arguments, str(answer)],
        # An empty home of the hub's client: whatever this machine's cache holds, the published weights are not there.
        variables={"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")},
        timeout_s=300,
    )
    assert completed.returncode == 0, completed.stderr
    return dict(json.loads(answer.read_text()))


@pytest.fixture(scope="module")
def compared(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return probe(environment, tmp_path_factory.mktemp("compared"), "correctness_probe.py")


@pytest.fixture(scope="module")
def models(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    return probe(environment, folder, "models_probe.py", str(folder))


@pytest.mark.parametrize(
    ("case", "right", "oracle"),
    [
        ("equal", True, "eager"),
        ("close", True, "eager"),
        ("large_scale", True, "eager"),
        ("half_precision", True, "eager"),
        ("same_infinity", True, "eager"),
        ("same_nan", True, "eager"),
        ("booleans_equal", True, "eager"),
        ("small_scale", False, "float64"),
        ("far_and_wrong", False, "float64"),
        ("far_and_nearer", True, "float64"),
        ("far_and_as_near", True, "float64"),
        ("new_nan", False, "float64"),
        ("lost_nan", True, "float64"),
        ("lost_overflow", True, "float64"),
        ("both_overflow", False, "float64"),
        ("both_infinite_in_float64", True, "float64"),
        ("second_of_two", False, "float64"),
        ("other_dtype", False, "eager"),
        ("other_shape", False, "eager"),
        ("other_number", False, "eager"),
        ("integers_differ", False, "eager"),
        ("large_integers_differ", False, "eager"),
        ("integers_and_floats_differ", False, "eager"),
        ("nothing", True, "eager"),
    ],
)
def test_a_compiled_result_is_right_when_it_equals_eager_or_is_no_further_from_float64(
    compared: dict[str, Any], case: str, right: bool, oracle: str
) -> None:
    assert (compared[case]["compiled_is_right"], compared[case]["oracle"]) == (right, oracle)


def test_errors_and_tolerance_are_in_the_unit_of_the_result(compared: dict[str, Any]) -> None:
    assert compared["large_scale"]["scale"] == 1000
    assert compared["large_scale"]["tolerance"] == pytest.approx(0.1)
    assert compared["large_scale"]["largest_error"] == pytest.approx(0.05, rel=0.01)


def test_of_several_tensors_the_one_that_is_furthest_off_for_its_own_scale_is_recorded(
    compared: dict[str, Any],
) -> None:
    assert compared["both_close"]["scale"] == 1
    assert compared["second_of_two"]["scale"] == 1
    assert compared["second_of_two"]["largest_error"] == pytest.approx(0.01, rel=1e-3)


def test_both_distances_from_float64_are_recorded_where_it_decides(compared: dict[str, Any]) -> None:
    nearer = compared["far_and_nearer"]

    assert (nearer["eager_error"], nearer["compiled_error"]) == (pytest.approx(0.01, rel=1e-3), 0.0)
    assert compared["equal"]["compiled_error"] is None


def test_an_error_that_is_not_finite_is_recorded_as_none(compared: dict[str, Any]) -> None:
    assert compared["new_nan"]["largest_error"] is None
    assert compared["lost_overflow"]["eager_error"] is None


def test_the_reference_computes_in_float64_and_leaves_the_network_as_it_was(compared: dict[str, Any]) -> None:
    wide = compared["in_float64"]

    assert (wide["dtype"], wide["parameter_stays"]) == ("torch.float64", "torch.float32")
    # 0.1 in float32 widened is not 0.1 in float64: the reference has the same weights, not other ones.
    assert wide["value"][0] == pytest.approx(0.1, abs=1e-8)
    assert wide["value"][0] != 0.1


def test_a_folder_with_a_question_answering_model_is_the_users_own(models: dict[str, Any]) -> None:
    own = models["own"]

    assert (own["weights"], own["problem"], own["missing_weights"]) == ("own", None, 0)
    assert (own["layers"], own["linear_modules"]) == (2, 13)


def test_a_model_without_the_answering_head_is_used_and_its_random_weights_are_counted(models: dict[str, Any]) -> None:
    assert (models["headless"]["weights"], models["headless"]["missing_weights"]) == ("own", 2)


def test_layers_shorten_a_model_and_never_lengthen_it(models: dict[str, Any]) -> None:
    assert models["more_layers"]["layers"] == models["all_layers"]["layers"] == 3


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("cut", "deserializing header"),
        ("empty", "holds no config.json"),
        ("missing", "there is no folder"),
        ("uncached", "it is not in the cache and the model hub cannot be reached"),
        ("too_long", "it does not run on 65 tokens"),
    ],
)
def test_a_model_that_cannot_be_used_says_why(models: dict[str, Any], case: str, reason: str) -> None:
    assert models[case]["weights"] is None
    assert reason in models[case]["problem"]


def test_the_published_model_without_its_weights_is_seeded_and_says_so(models: dict[str, Any]) -> None:
    published = models["published"]

    assert published["weights"] == "seeded"
    assert "not in the cache" in published["problem"]
    assert published["linear_modules"] == 32


def test_seeded_weights_are_the_seeds(models: dict[str, Any]) -> None:
    assert models["seeds"] == {"same": True, "other": False}


def test_a_network_is_built_for_inference_in_float32_with_the_attention_asked_for(models: dict[str, Any]) -> None:
    built = models["built"]

    assert (built["source"], built["training"], built["dtype"]) == ("own", False, "torch.float32")
    assert (built["attention"], built["layers"]) == ("sdpa", 3)


def test_inputs_are_token_numbers_within_the_vocabulary(models: dict[str, Any]) -> None:
    assert (models["inputs"]["shape"], models["inputs"]["dtype"]) == ([3, 5], "torch.int64")
    assert models["inputs"]["largest"] < 50
