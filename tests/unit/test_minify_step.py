"""The minify step runs four processes one after the other; their recorded outputs stand for them here."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpulab.config import load_preset
from cpulab.host.launch import Completed, Environment
from cpulab.minify.step import CASES
from cpulab.progress import Reporter
from cpulab.step import Bench, observe

if TYPE_CHECKING:
    from cpulab.records import Record

DATA = Path(__file__).parents[1] / "data" / "minify"


@dataclass
class Process:
    """One process: what it printed, how it ended, and the file that it left (path below scratch, recording)."""

    output: str
    returncode: int
    leaves: tuple[str, str] | None = None
    timed_out: bool = False


def healthy_machine() -> dict[str, Process]:
    folder = "program/torch_compile_debug/run_1/minifier"
    return {
        "program.py": Process("program.log", 1, (f"{folder}/minifier_launcher.py", "minifier_launcher.py.txt")),
        "minifier_launcher.py": Process("minifier_no_isolate.log", 0, ("minifier/repro.py", "repro.py.txt")),
        "repro.py with the fault": Process("repro_with_fault.log", 1),
        "repro.py without the fault": Process("repro_without_fault.log", 0),
    }


@dataclass
class Observation:
    record: Record
    commands: list[list[str]] = field(default_factory=list)
    variables: dict[str, Mapping[str, str]] = field(default_factory=dict)


Minified = Callable[..., Observation]


@pytest.fixture
def minified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Minified:
    def look(preset: str = "smoke", **changed: Process) -> Observation:
        processes = healthy_machine() | {name.replace("_py", ".py"): one for name, one in changed.items()}
        commands: list[list[str]] = []
        seen: dict[str, Mapping[str, str]] = {}

        def run(
            bench: Bench, command: Sequence[str], *, variables: Mapping[str, str], cwd: Path, timeout_s: float
        ) -> Completed:
            name = Path(command[1]).name
            if name == "repro.py":
                name += " with the fault" if "CPULAB_FAULT" in variables else " without the fault"
            commands.append(list(command))
            seen[name] = variables
            process = processes[name]
            if process.leaves is not None:
                target = bench.scratch / process.leaves[0]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text((DATA / process.leaves[1]).read_text())
            text = (DATA / process.output).read_text() if process.output else ""
            return Completed(list(command), process.returncode, "", text, 1.0, process.timed_out)

        monkeypatch.setattr(Bench, "run", run)
        monkeypatch.setattr(Bench, "worker", lambda *_, **__: {"strategies": ["One"]})
        environment = Environment(sys.executable, {}, [0], [0], "0" * 64, tmp_path / "environment.json")
        with Reporter("minify", 1, tmp_path / "logs" / "accuracy.log", io.StringIO()) as reporter:
            bench = Bench(
                "minify", "accuracy", "scalar", load_preset(preset), "a/model", 7, environment, tmp_path, reporter
            )
            record = observe(bench, CASES["accuracy"].look, tmp_path / "minify" / "accuracy.json")
        return Observation(record, commands, seen)

    return look


def test_the_healthy_machine_reduces_the_program_to_neg_alone(minified: Minified) -> None:
    record = minified().record
    assert (record.status, record.error) == ("ok", None)
    assert {
        name: record.observations[name]
        for name in (
            "launcher_written", "repro_written", "node_counts", "minimal_ops", "minimal_inputs", "minimal_nodes",
            "fails_with_fault", "passes_without_fault", "queries", "isolated", "strategies_available",
            "strategies_succeeded",
        )
    } == {
        "launcher_written": True, "repro_written": True, "node_counts": [5, 4, 3], "minimal_ops": ["neg"],
        "minimal_inputs": 1, "minimal_nodes": 3, "fails_with_fault": True, "passes_without_fault": True,
        "queries": 9, "isolated": False, "strategies_available": ["One"],
        "strategies_succeeded": ["Truncate suffix", "Remove unused inputs"],
    }  # fmt: skip


def test_what_a_reader_needs_is_kept(minified: Minified) -> None:
    kept = [Path(one.path).name for one in minified().record.artifacts]
    assert kept == [
        "program.py", "program.log", "minifier_launcher.py", "minifier.log",
        "repro.py", "repro_with_fault.log", "repro_without_fault.log",
    ]  # fmt: skip


def test_only_the_last_run_is_without_the_fault(minified: Minified) -> None:
    variables = minified().variables
    assert [name for name, one in variables.items() if "CPULAB_FAULT" not in one] == ["repro.py without the fault"]


def test_only_the_program_is_told_to_start_the_minifier(minified: Minified) -> None:
    variables = minified().variables
    assert [name for name, one in variables.items() if "TORCHDYNAMO_REPRO_AFTER" in one] == ["program.py"]


def test_no_run_is_given_a_graph_that_another_compiled(minified: Minified) -> None:
    for one in minified().variables.values():
        assert (one["TORCHINDUCTOR_FX_GRAPH_CACHE"], one["TORCHINDUCTOR_AUTOGRAD_CACHE"]) == ("0", "0")
        assert Path(one["TORCHINDUCTOR_CACHE_DIR"]).is_absolute()


@pytest.mark.parametrize(("preset", "arguments"), [("smoke", ["minify", "--no-isolate"]), ("tutorial", ["minify"])])
def test_the_preset_says_whether_candidates_are_isolated(minified: Minified, preset: str, arguments: list[str]) -> None:
    seen = minified(preset)
    assert seen.commands[1][2:] == arguments
    assert seen.record.observations["isolated"] is (preset == "tutorial")


def test_a_program_that_does_not_start_the_minifier_is_an_observation(minified: Minified) -> None:
    seen = minified(program_py=Process("", 0))
    assert seen.record.status == "ok"
    assert seen.record.observations["launcher_written"] is False
    assert seen.record.observations["fails_with_fault"] is None
    assert seen.record.observations["node_counts"] == []
    assert len(seen.commands) == 1


def test_a_program_that_crashes_before_it_compares_is_a_failure_of_the_step(minified: Minified) -> None:
    record = minified(program_py=Process("repro_no_compiler.log", 1)).record
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.type == "ProcessFailed"


def test_a_minifier_that_gives_up_is_an_observation(minified: Minified) -> None:
    seen = minified(minifier_launcher_py=Process("gave_up.log", 1))
    assert seen.record.status == "ok"
    assert seen.record.observations["minifier_gave_up"] == "Input graph did not fail the tester"
    assert seen.record.observations["repro_written"] is False
    assert len(seen.commands) == 2


def test_the_whole_graph_that_the_programs_run_leaves_is_not_taken_for_the_minimal_one(minified: Minified) -> None:
    whole = ("program/repro.py", "minifier_launcher.py.txt")
    record = minified(minifier_launcher_py=Process("minifier_no_isolate.log", 0, whole)).record
    assert record.status == "failed"
    assert record.error is not None
    assert record.error.type == "ProcessFailed"


def test_a_minifier_that_crashes_is_a_failure_of_the_step(minified: Minified) -> None:
    assert minified(minifier_launcher_py=Process("repro_no_compiler.log", 1)).record.status == "failed"


@pytest.mark.parametrize("name", ["program_py", "minifier_launcher_py"])
def test_a_process_that_takes_too_long_is_a_failure_of_the_step(minified: Minified, name: str) -> None:
    process = healthy_machine()[name.replace("_py", ".py")]
    record = minified(**{name: replace(process, timed_out=True)}).record
    assert record.status == "failed"
    assert record.error is not None
    assert "its time-out" in record.error.message


def test_a_minimal_program_that_crashes_has_not_shown_the_fault(minified: Minified) -> None:
    crashed = Process("repro_no_compiler.log", 1)
    observed = minified(**{"repro_py with the fault": crashed}).record.observations
    assert observed["fails_with_fault"] is False
    assert str(observed["with_fault_exception"]).startswith("torch._inductor.exc.InductorError")
