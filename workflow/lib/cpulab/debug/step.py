"""The debug step: what torch.compile leaves to look at, which component fails, what the compiler says of a fault."""

from __future__ import annotations

import dataclasses
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from cpulab.debug import artefacts, compile_errors, faults, links, scripts
from cpulab.debug.ladder import RUNGS, component_at_fault
from cpulab.debug.walk import observations, walk
from cpulab.errors import ProcessFailed
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from contextlib import AbstractContextManager
    from pathlib import Path

    from cpulab.config import Preset
    from cpulab.debug.faults import Fault, Variant
    from cpulab.host.launch import Completed
    from cpulab.records import Artifact, Observation
    from cpulab.step import Bench

# Processes at the same time; one takes about 1 GB.
AT_A_TIME = 4

# What the bisector may take, seconds.
BISECT_S = 120

_TARGET = re.compile(r"= torch\.ops\.(?P<target>[\w.]+)\(")

# The fields of a rung that a claim can speak of; the rest is for the other observations.
RUNG_FIELDS = (
    "backend", "passed", "exception", "exception_chain", "first_diverging_output", "largest_error", "dynamo_ran",
    "aot_autograd_ran", "inductor_ran", "counters",
)  # fmt: skip


# --- what the cases share ------------------------------------------------------------------------


def _pool(bench: Bench) -> AbstractContextManager[ThreadPoolExecutor]:
    """Return what runs processes at the same time, as far as there are cores: nothing in this step is timed."""
    return bench.side_by_side(min(bench.environment.threads, AT_A_TIME))


def _script(bench: Bench, path: Path, name: str, variables: Mapping[str, str]) -> Completed:
    """Run a Python file as the program that it is, in a process with its own cache."""
    return bench.run(["python", str(path.resolve())], variables={**bench.new_cache(name), **variables})


def _program(bench: Bench, program: str, *, accuracy: bool = False) -> Path:
    path = bench.folder / "program.py"
    variant: Variant = "scalar" if bench.variant == "scalar" else "vectorized"
    path.write_text(scripts.script(program, variant, seed=bench.seed, accuracy=accuracy), encoding="utf-8")
    return path


def _variant(bench: Bench) -> dict[str, str]:
    return faults.variant_variables("scalar" if bench.variant == "scalar" else "vectorized")


def _worker(bench: Bench, name: str, variables: Mapping[str, str], **arguments: Any) -> dict[str, Any]:
    return bench.worker(
        "cpulab.debug.worker",
        {"seed": bench.seed, **arguments},
        variables={**_variant(bench), **bench.new_cache(name), **variables},
    )


def _dumped(bench: Bench) -> Path:
    return bench.scratch / "debug"


def _debug(bench: Bench) -> dict[str, str]:
    return {"TORCH_COMPILE_DEBUG": "1", "TORCH_COMPILE_DEBUG_DIR": str(_dumped(bench).resolve())}


def _trace(bench: Bench) -> Path:
    """Return the folder of the one graph that was dumped.

    Raises:
        ProcessFailed: nothing was dumped, so there is nothing to observe.

    """
    traces = sorted(_dumped(bench).glob("torch_compile_debug/run_*/torchinductor/*/output_code.py"))
    if not traces:
        raise ProcessFailed("The program under TORCH_COMPILE_DEBUG=1", "left no output_code.py", bench.log)
    return traces[0].parent


def _keep_trace(bench: Bench, trace: Path) -> list[Artifact]:
    names = [*artefacts.DUMPED, artefacts.PROVENANCE]
    return [bench.keep("debug_trace", trace / name) for name in names if (trace / name).is_file()]


def _ladder(answer: Mapping[str, Any]) -> dict[str, Observation]:
    rungs = [{name: rung[name] for name in RUNG_FIELDS} for rung in answer["ladder"]]
    return {"ladder": rungs, "ladder_component": component_at_fault(rungs)}


def _walk(script: Path, answer: Mapping[str, Any]) -> dict[str, Observation]:
    """Return the walk from the script's lines to C++; what the faulty generator gave is guilty where the rung fails."""
    graph = answer["graph"]
    statements = (
        [kernel.lines[number - 1].strip() for kernel, number in _generated_lines(graph["code"], answer["generated"])]
        if not _inductor(answer)["passed"]
        else []
    )
    source = script.read_text(encoding="utf-8")
    return observations(walk(graph, {str(script.resolve()): source}, guilty=statements))


def _bisected(bench: Bench, name: str, variables: Mapping[str, str], program: str) -> dict[str, Any]:
    """Return what torch's CompilerBisector says of a program of `cpulab.cases`."""
    case = bench.scratch / f"{name}_case.py"
    case.write_text(scripts.case(program, bench.seed), encoding="utf-8")
    return bench.worker(
        "cpulab.debug.bisect_worker",
        {"target": {"file": str(case.resolve()), "function": scripts.CASE}, "seed": bench.seed, "seconds": BISECT_S},
        variables={**_variant(bench), **bench.new_cache(name), **variables},
    )


def _beside_bisector(seen: Mapping[str, Any], component: object, answer: Mapping[str, Any]) -> dict[str, Observation]:
    """Return the op that the walk names, and the bisector's answer beside ours."""
    rows = {row["id"]: row["text"] for row in seen["walk_rows"]}
    found = [_TARGET.search(rows[one]) for one in seen["walk_guilty"] if one.startswith("fx:")]
    op = next((one["target"] for one in found if one is not None), None)
    theirs = RUNGS.get(answer["backend"]) if answer["backend"] is not None else None
    agrees = theirs == component and answer["op"] in {None, op}
    return {"op": op, "bisector": [{**answer, "component": theirs, "agrees": agrees}]}


def _generated_lines(code: str, generated: Sequence[str]) -> list[tuple[artefacts.Kernel, int]]:
    unmarked = links.unmarked(code)
    return [(one, number) for one in artefacts.kernels(unmarked) for number in artefacts.uses(one, list(generated))]


def _inductor(answer: Mapping[str, Any]) -> dict[str, Any]:
    return next(dict(rung) for rung in answer["ladder"] if rung["backend"] == "inductor")


def _on_path(answer: Mapping[str, Any]) -> bool:
    """Tell whether what the faulty generator gave stands in the kernel; its being called is not enough."""
    code = _inductor(answer)["output_code"]
    return code is not None and any(artefacts.uses(kernel, answer["generated"]) for kernel in artefacts.kernels(code))


def _path_observations(answer: Mapping[str, Any], fault: str) -> dict[str, Observation]:
    return {
        "fault": fault,
        "fault_on_executed_path": _on_path(answer),
        "fault_known_by": "the text that the faulty generator gave, looked for in the kernel",
        "fault_generated": list(answer["generated"]),
    }


def _effect(answer: Mapping[str, Any]) -> str:
    """Return in words what a fault does to the compiled program."""
    rung = _inductor(answer)
    if rung["exception"] is not None:
        return f"does not compile ({rung['exception_chain']})"
    return "compiles and is right" if rung["passed"] else "compiles and is wrong"


def _installed(bench: Bench, fault: Fault) -> dict[str, Any]:
    """Return the digests of the code generators that ``fault`` breaks, in the installed file."""
    completed = bench.run(["python", "-m", "cpulab.debug.code_objects", "installed", *fault.places])
    if completed.returncode != 0:
        raise ProcessFailed("cpulab.debug.code_objects", completed.ending, bench.log)
    return dict(json.loads(completed.stdout))


# --- the healthy program -------------------------------------------------------------------------


def _look_at_program(bench: Bench) -> Observed:
    say = bench.reporter.stage
    script = _program(bench, "uint8")

    say("the program by default, and with TORCH_COMPILE_DEBUG=1")
    with _pool(bench) as pool:
        plain = pool.submit(_script, bench, script, "default", {})
        debugged = pool.submit(_script, bench, script, "debug", _debug(bench))
    default, completed = plain.result(), debugged.result()
    _must_succeed(bench, "The program", default)
    _must_succeed(bench, "The program under TORCH_COMPILE_DEBUG=1", completed)
    lines = artefacts.debug_lines(f"{default.stdout}\n{default.stderr}")
    logged = artefacts.trace_paths(completed.stderr + completed.stdout)
    trace = _trace(bench)
    files = sorted(path for path in trace.iterdir() if path.is_file())
    kept = _keep_trace(bench, trace)
    output_code = bench.folder / "output_code.py"
    text = output_code.read_text(encoding="utf-8")
    edit = artefacts.without_first_operation(text)
    edited = bench.folder / "output_code_edited.py"
    if edit is not None:
        edited.write_text(edit.text, encoding="utf-8")
    compared = [str(output_code.resolve()), str(edited.resolve())] if edit is not None else None

    say("the dumped files alone, an edited kernel, the ladder, and what each line is for")
    with _pool(bench) as pool:
        asked = pool.submit(
            _worker,
            bench,
            "worker",
            {},
            program="uint8",
            ladder=True,
            walk=True,
            output_code=compared,
            script=str(script.resolve()),
        )
        runnable = pool.submit(_script, bench, bench.folder / "fx_graph_runnable.py", "runnable", {})
        code = pool.submit(_script, bench, output_code, "output_code", {})
    answer = asked.result()

    kernels = artefacts.kernels(text)
    marked = artefacts.kernels(answer["graph"]["code"])
    found = [link for kernel in kernels for link in links.links(kernel, marked)]
    nodes = artefacts.fx_nodes((trace / "fx_graph_transformed.py").read_text(encoding="utf-8"))
    first = kernels[0] if kernels else artefacts.Kernel("", "")
    computing = {node.name for node in nodes}
    ops = list(dict.fromkeys(link.fx for link in links.links(first, marked) if link.fx in computing))
    return Observed(
        {
            "default_run_is_silent": not lines,
            "default_run_debug_lines": list(lines),
            "trace_path_logged": bool(logged),
            "trace_path_exists": bool(logged) and (bench.scratch / logged[0]).is_dir(),
            "trace_path": trace.relative_to(_dumped(bench)).as_posix(),
            "trace_path_logged_is_it": bool(logged) and (bench.scratch / logged[0]).resolve() == trace.resolve(),
            "dumped_files": [path.name for path in files if path.stat().st_size > 0],
            "empty_files": [path.name for path in files if path.stat().st_size == 0],
            "runnable_exit": runnable.result().returncode,
            "output_code_exit": code.result().returncode,
            "output_code_is_right": answer.get("output_code_is_right"),
            "edited_kernel_changes_result": answer.get("edited_kernel_changes_result", False),
            "edited_statement": f"{edit.before} -> {edit.after}" if edit is not None else None,
            "fx_nodes": [node.name for node in nodes],
            "kernel_name": first.name,
            "kernel_count": len(kernels),
            "kernel_ops": list(ops),
            "kernel_is_vectorized": first.is_vectorized,
            "kernel_lines": list(first.lines),
            "line_links": [dataclasses.asdict(link) for link in found],
            "every_line_linked": bool(found) and all(link.fx is not None for link in found),
            "equal_to_eager": bool(_inductor(answer).get("equal", False))
            and "equal to eager: True" in completed.stdout,
            **_ladder(answer),
            **_walk(script, answer),
        },
        artifacts=[
            bench.keep("script", script),
            *kept,
            *([bench.keep("edited_output_code", edited)] if edit is not None else []),
        ],
    )


def _must_succeed(bench: Bench, what: str, completed: Completed) -> None:
    if completed.returncode != 0:
        raise ProcessFailed(what, completed.ending, bench.log)


# --- the compile error ---------------------------------------------------------------------------


def _look_at_compile_error(bench: Bench) -> Observed:
    say = bench.reporter.stage
    fault = faults.FAULTS["neg_without_cast"]
    before = _installed(bench, fault)
    script = _program(bench, "uint8")
    is_scalar = bench.variant == "scalar"

    say("the faulty program with TORCH_COMPILE_DEBUG=1, the ladder, and the healthy program again")
    broken = faults.variables(fault.name, "scalar")
    with _pool(bench) as pool:
        debugged = pool.submit(_script, bench, script, "debug", {**_debug(bench), **broken})
        look = {"program": "uint8", "ladder": True, "walk": True, "script": str(script.resolve())}
        asked = pool.submit(_worker, bench, "fault", broken, **look)
        same_edit = (
            None if is_scalar else pool.submit(_worker, bench, "vector", faults.variables(fault.name, "vector"), **look)
        )
        asked_bisector = pool.submit(_bisected, bench, "bisect", broken, "uint8") if is_scalar else None
    completed, answer = debugged.result(), asked.result()
    # Begun when every process with the fault has ended.
    healthy = _worker(bench, "healthy", {}, program="uint8", ladder=True, code_objects=fault.places)
    restored = _inductor(healthy)

    trace = _trace(bench)
    log = _keep_output(bench, completed, "faulty_run.log")
    artifacts = [bench.keep("script", script), log, *_keep_trace(bench, trace)]

    vector: dict[str, Observation] = {"vector_fault_effect": None, **_walk(script, answer)}
    if same_edit is not None:
        vector_answer = same_edit.result()
        vector = {
            "vector_fault_effect": _effect(vector_answer),
            "vector_fault_on_executed_path": _on_path(vector_answer),
            "vector_fault_generated": list(vector_answer["generated"]),
            "vector_ladder_component": _ladder(vector_answer)["ladder_component"],
            # Of the run whose fault is on the executed path.
            **_walk(script, vector_answer),
        }

    observations: dict[str, Observation] = {
        **_path_observations(answer, fault.name),
        "fault_absent_afterwards": _unchanged(before, healthy),
        **_ladder(answer),
        **_chain(bench, trace, "neg", answer["generated"]),
        **_compiler_message(completed, trace, answer),
        **_ir(trace, "neg"),
        "cast_restores": bool(restored["passed"] and restored["equal"]),
        "exit_status": completed.returncode,
        **vector,
    }
    if asked_bisector is not None:
        bisected = asked_bisector.result()
        observations |= _beside_bisector(observations, observations["ladder_component"], bisected)
    expected = observations["compile_failed"]
    return Observed(observations, artifacts=artifacts, status="expected_failure" if expected else "ok")


def _unchanged(before: Mapping[str, Any], healthy: Mapping[str, Any]) -> bool:
    """Tell whether a fresh process uses the code generators that were installed before the fault."""
    return None not in before.values() and before == healthy["code_objects"]


def _chain(bench: Bench, trace: Path, op: str, generated: list[str]) -> dict[str, Observation]:
    """Follow the op from the user's line through the FX graph and the IR to the C++ line of the fault."""
    text = (trace / "fx_graph_transformed.py").read_text(encoding="utf-8")
    chain: list[dict[str, Any]] = []
    # The FX graph names the user's line; the line is then read where the user has it.
    script = (bench.folder / "program.py").read_text(encoding="utf-8").splitlines()
    for origin in artefacts.origins(text):
        line = script[origin.line - 1].strip() if origin.line <= len(script) else ""
        if f"torch.{op}(" in line and line == origin.code:
            chain.append({"level": "torch", "text": line, "file": f"program.py:{origin.line}"})
    target = f"torch.ops.aten.{op}.default"
    chain += [
        {
            "level": "aten",
            "text": f"{node.name} = {node.target.removeprefix('torch.ops.')}",
            "file": "fx_graph_transformed.py",
        }
        for node in artefacts.fx_nodes(text)
        if node.target == target
    ]
    ir = artefacts.ir_nodes((trace / "ir_post_fusion.txt").read_text(encoding="utf-8"))
    chain += [
        {"level": "ops", "text": f"{node.name}: ops.{op}", "file": "ir_post_fusion.txt"}
        for node in ir
        if op in node.ops
    ]
    for kernel in artefacts.kernels((trace / "output_code.py").read_text(encoding="utf-8")):
        chain += [
            {
                "level": "cpp",
                "text": kernel.lines[number - 1].strip(),
                "file": f"output_code.py, {kernel.name}:{number}",
            }
            for number in artefacts.uses(kernel, generated)
            if re.search(r"= -\w", kernel.lines[number - 1])
        ]
    levels = {link["level"] for link in chain}
    return {
        "chain": chain,
        "chain_torch_neg": "torch" in levels,
        "chain_aten_neg": "aten" in levels,
        "chain_ops_neg": "ops" in levels,
        "chain_cpp_minus": "cpp" in levels,
    }


def _compiler_message(completed: Completed, trace: Path, answer: Mapping[str, Any]) -> dict[str, Observation]:
    """Return what the compiler says, and where in the kernel it points (C2 to C4, C6)."""
    rung = _inductor(answer)
    error = compile_errors.parse(completed.stderr)
    kernels = artefacts.kernels((trace / "output_code.py").read_text(encoding="utf-8"))
    kernel = kernels[0] if kernels else artefacts.Kernel("", "")
    faulty = next(iter(artefacts.uses(kernel, answer["generated"])), None)
    faulty_line = kernel.lines[faulty - 1].strip() if faulty is not None else None
    variable = re.search(r"\btmp\d+\b", faulty_line or "")
    error_line = kernel.lines[error.line - 1].strip() if error is not None and error.line <= len(kernel.lines) else None
    before, after = (
        compile_errors.changed_type(error, variable[0]) if error is not None and variable is not None else (None, None)
    )
    return {
        "compile_failed": rung["exception"] is not None and completed.returncode != 0,
        "exception_chain": rung["exception_chain"].split(" <- ") if rung["exception_chain"] else [],
        "exception_bases": list(rung.get("bases", [])),
        "failing_call": error.call if error is not None else None,
        "failing_function": error.function if error is not None else None,
        "operand_types": list(error.operand_types) if error is not None else [],
        "candidate": error.candidate if error is not None else None,
        "template_parameter": error.template_parameter if error is not None else None,
        "conflicting_types": list(error.conflicting_types) if error is not None else [],
        "faulty_line": faulty_line,
        "error_line_number": error.line if error is not None else None,
        "error_line": error_line,
        "error_line_as_compiler_shows_it": error.source if error is not None else None,
        "error_line_uses_faulty": bool(re.search(rf"\b{variable[0]}\b", error_line.partition("=")[2]))
        if error_line is not None and variable is not None
        else None,
        "kernel_lines": list(kernel.lines),
        "kernel_is_vectorized": kernel.is_vectorized,
        "type_before": before,
        "type_after": after,
    }


def _ir(trace: Path, op: str) -> dict[str, Observation]:
    nodes = artefacts.ir_nodes((trace / "ir_post_fusion.txt").read_text(encoding="utf-8"))
    node = next((one for one in nodes if op in one.ops), None)
    return {
        "ir_ops": list(node.ops) if node is not None else [],
        "ir_group": list(node.group) if node is not None else [],
        "ir_dependencies": list(node.dependencies) if node is not None else [],
    }


# --- the accuracy error --------------------------------------------------------------------------


def _look_at_accuracy(bench: Bench) -> Observed:
    say = bench.reporter.stage
    fault = faults.FAULTS["neg_doubled"]
    before = _installed(bench, fault)
    script = _program(bench, "float32", accuracy=True)

    say("the faulty program compared with eager, and the ladder")
    broken = faults.variables(fault.name, "scalar")
    with _pool(bench) as pool:
        run = pool.submit(_script, bench, script, "script", broken)
        look = {"program": "float32", "ladder": True, "walk": True, "script": str(script.resolve())}
        asked = pool.submit(_worker, bench, "fault", broken, **look)
        asked_bisector = (
            pool.submit(_bisected, bench, "bisect", broken, "float32") if bench.variant == "scalar" else None
        )
    answer = asked.result()
    observations = {
        **_path_observations(answer, fault.name),
        **_ladder(answer),
        **_assertion(run.result()),
        **_walk(script, answer),
    }
    artifacts = [bench.keep("script", script), _keep_output(bench, run.result(), "accuracy.log")]
    failed = bool(observations["assertion_failed"])

    if bench.variant != "scalar":
        # The published edit is no C++ for vectors; another that doubles is.
        say("faults of the vector code generator")
        doubled = faults.variables("neg_added_to_itself", "vector")
        published = faults.variables(fault.name, "vector")
        with _pool(bench) as pool:
            run = pool.submit(_script, bench, script, "vector_script", doubled)
            asked = pool.submit(_worker, bench, "vector", doubled, **look)
            asked_published = pool.submit(_worker, bench, "published", published, program="float32", ladder=True)
            asked_bisector = pool.submit(_bisected, bench, "bisect", doubled, "float32")
        answer = asked.result()
        observations |= {
            "published_edit_in_vector_effect": _effect(asked_published.result()),
            "vector_fault": "neg_added_to_itself",
            "vector_fault_effect": _effect(answer),
            "vector_fault_on_executed_path": _on_path(answer),
            **{f"vector_{name}": value for name, value in (_assertion(run.result()) | _ladder(answer)).items()},
            # Of the run whose fault is on the executed path.
            **_walk(script, answer),
        }
        artifacts.append(_keep_output(bench, run.result(), "accuracy_vector.log"))
        failed = failed or bool(observations["vector_assertion_failed"])

    if asked_bisector is not None:
        component = observations.get("vector_ladder_component", observations["ladder_component"])
        observations |= _beside_bisector(observations, component, asked_bisector.result())

    say("the code generators afterwards")
    healthy = _worker(bench, "healthy", {}, program="float32", code_objects=fault.places)
    observations["fault_absent_afterwards"] = _unchanged(before, healthy)
    return Observed(observations, artifacts=artifacts, status="expected_failure" if failed else "ok")


def _assertion(completed: Completed) -> dict[str, Observation]:
    """Return what a script that compares with eager says of the comparison."""
    message, tolerance = artefacts.accuracy_message(completed.stderr)
    exception = artefacts.last_exception(completed.stderr)
    return {
        "exit_status": completed.returncode,
        "assertion_failed": completed.returncode != 0 and exception == "AssertionError",
        "accuracy_message": message,
        "tolerance": tolerance,
    }


def _keep_output(bench: Bench, completed: Completed, name: str) -> Artifact:
    path = bench.folder / name
    path.write_text(completed.stdout + completed.stderr, encoding="utf-8")
    return bench.keep("log", path)


def _expected(seconds: float, _preset: Preset) -> float:
    return seconds


def _case(variant: str, seconds: float, look: Callable[[Bench], Observed]) -> Case:
    return Case(variant, partial(_expected, seconds), look)


CASES = {
    "program_scalar": _case("scalar", 30, _look_at_program),
    "program_vectorized": _case("vectorized", 30, _look_at_program),
    "compile_error_scalar": _case("scalar", 30, _look_at_compile_error),
    "compile_error_vectorized": _case("vectorized", 25, _look_at_compile_error),
    "accuracy_scalar": _case("scalar", 25, _look_at_accuracy),
    "accuracy_vectorized": _case("vectorized", 45, _look_at_accuracy),
}
