"""The profile step: where the time of one iteration goes, eager and compiled, and Inductor's kernels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cpulab.files import write_whole
from cpulab.profile import kernels, optable, traces
from cpulab.step import Bench, Case, Observed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpulab.config import Preset
    from cpulab.records import Observation

# On two quiet cores: starting and building the model; compiling it; one iteration of the published size.
START_S, COMPILE_S, COMPILE_LAYER_S = 12.0, 15.0, 1.6
EAGER_S, COMPILED_S = 6.6, 4.6
PUBLISHED_LAYERS, PUBLISHED_TOKENS = 24, 128 * 128


def _expected_s(preset: Preset, *, compiled: bool) -> float:
    size = preset.model
    layers = size.layers or PUBLISHED_LAYERS
    share = size.batch * size.sequence_length / PUBLISHED_TOKENS * layers / PUBLISHED_LAYERS
    iterations = 4 + 3 * preset.profile.active
    compiling = COMPILE_S + COMPILE_LAYER_S * layers if compiled else 0.0
    return START_S + compiling + iterations * share * (COMPILED_S if compiled else EAGER_S)


def _look(bench: Bench, *, compiled: bool, attention: str, freezing: bool, published_schedule: bool) -> Observed:
    size = bench.preset.model
    bench.reporter.stage(f"{'compile and ' if compiled else ''}profile, attention {attention}")
    asked = {
        "model": bench.model,
        "seed": bench.seed,
        "layers": size.layers,
        "batch": size.batch,
        "sequence_length": size.sequence_length,
        "attention": attention,
        "compiled": compiled,
        "freezing": freezing,
        "active": bench.preset.profile.active,
        "published_schedule": published_schedule,
    }
    answer = bench.worker(
        "cpulab.profile.worker",
        asked,
        variables={
            "HF_HUB_OFFLINE": "1",
            **bench.new_cache(),
        },
        timeout_s=bench.preset.profile.timeout_s,
    )
    observed = Observed()
    step = optable.median_step(answer["steps"])
    observed.observations = {
        "batch": size.batch,
        "sequence_length": size.sequence_length,
        "layers": answer["layers"],
        "attention": attention,
        "freezing": freezing,
        "weights": answer["weights"],
        "schedule": ", ".join(f"{key}={value}" for key, value in answer["schedule"].items()),
        "attestations": [{"process": 0, **answer["attestation"]}],
        "profiled_step": step["step"],
        "step_total_s": step["step_total_s"],
        "step_totals_s": [one["step_total_s"] for one in answer["steps"]],
        "step_accounts": optable.accounts(answer["steps"]),
        "ops": step["ops"],
        "op_steps": optable.every_step(answer["steps"]),
    }
    observed.observations |= _kernels(bench, observed, answer, step) if compiled else _eager(step)
    observed.observations |= _traces(bench, observed, answer["steps"])
    if published_schedule:
        observed.observations |= _published_schedule(bench, observed, answer)
    _keep_text(bench, observed, "op_table", "ops.csv", optable.to_csv(answer["steps"]))
    return observed


def _eager(step: Mapping[str, Any]) -> dict[str, Observation]:
    return {"elementwise_ops": _pointwise(step)}


def _kernels(
    bench: Bench, observed: Observed, answer: Mapping[str, Any], step: Mapping[str, Any]
) -> dict[str, Observation]:
    found = []
    for place, source in enumerate(answer["sources"]):
        name = f"output_code{f'_{place}' if place else ''}.py"
        _keep_text(bench, observed, "output_code", name, source)
        found += [(name, kernel) for kernel in kernels.parse(source)]
    fused = optable.fused_kernels(step["ops"], [kernel for _, kernel in found])
    return {
        "graphs": len(answer["sources"]),
        "kernels": [
            {
                "name": kernel.name,
                "profiled_as": kernel.profiled_as,
                "file": file,
                "line": kernel.line,
                "ops": kernel.ops,
                "loop_nests": len(kernel.nests),
                "vectorized": kernel.vectorized,
                "parallel": kernel.parallel,
                "in_place": kernel.in_place,
                "shape": kernel.shape,
                "dtype": kernel.dtype,
            }
            for file, kernel in found
        ],
        "kernel_origins": answer["origins"],
        "fused_kernels": fused,
        "unmapped_kernels": [row["name"] for row in fused if row["kernel"] is None],
        "elementwise_ops_left": _pointwise(step),
        "elementwise_calls_left": step["elementwise"],
    }


def _pointwise(step: Mapping[str, Any]) -> list[Any]:
    """Name the operators of the step that torch tags as pointwise; copies only move elements and are not."""
    return sorted({call["name"] for call in step["elementwise"] if call["kind"] == "pointwise"})


def _traces(bench: Bench, observed: Observed, steps: list[dict[str, Any]]) -> dict[str, Observation]:
    problems: list[Any] = []
    differing: list[Any] = []
    for step in steps:
        packed = _pack(bench, observed, step["trace"])
        try:
            differing += traces.missing_calls(step["ops"], traces.calls(packed))
        except ValueError as problem:
            problems.append(str(problem))
    return {
        "traces_exported": len(steps),
        "traces_valid": not problems,
        "traces_hold_ops": not problems and not differing,
        "trace_problems": problems + differing,
    }


def _published_schedule(bench: Bench, observed: Observed, answer: dict[str, Any]) -> dict[str, Observation]:
    steps = answer["published_schedule"]
    found = _traces(bench, observed, steps)
    return {
        "published_schedule_asked": answer["published_schedule_repeat"],
        "published_schedule_traces": found["traces_exported"],
        "published_schedule_steps": [step["step"] for step in steps],
        "published_schedule_traces_valid": found["traces_valid"],
    }


def _pack(bench: Bench, observed: Observed, name: str) -> Path:
    packed = bench.folder / "traces" / f"{name}.gz"
    traces.pack(bench.scratch / name, packed)
    observed.artifacts.append(bench.keep("trace", packed, f"traces/{name}.gz"))
    return packed


def _keep_text(bench: Bench, observed: Observed, kind: str, name: str, text: str) -> None:
    write_whole(bench.folder / name, text)
    observed.artifacts.append(bench.keep(kind, bench.folder / name))


def _case(*, compiled: bool, as_published: bool) -> Case:
    return Case(
        variant="as_published" if as_published else "default",
        expected_s=partial(_expected_s, compiled=compiled),
        look=partial(
            _look,
            compiled=compiled,
            attention="eager" if as_published else "sdpa",
            freezing=compiled and as_published,
            published_schedule=as_published and not compiled,
        ),
    )


CASES = {
    f"{'compiled' if compiled else 'eager'}_{'as_published' if as_published else 'default'}": _case(
        compiled=compiled, as_published=as_published
    )
    for as_published in (True, False)
    for compiled in (False, True)
}
