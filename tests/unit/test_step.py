"""Whatever happens while a case is observed, its record or its error says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cpulab import records
from cpulab.config import load_preset
from cpulab.errors import BindingRefused, DiskFull, ModelNotLoadable, ProcessFailed
from cpulab.host.launch import Environment
from cpulab.progress import Reporter
from cpulab.step import Bench, Observed, observe

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Reporter("debug one", 1, tmp_path / "logs" / "debug" / "one.log") as reporter:
        yield Bench(
            step="debug",
            case="one",
            variant="scalar",
            preset=load_preset("smoke"),
            model="some/model",
            seed=0,
            environment=Environment(
                python="/bin/true",
                variables={},
                cpus=[0],
                memory_nodes=[0],
                memory_refused=None,
                not_in_force=[],
                sha256="0" * 64,
                path=tmp_path / "environment.json",
            ),
            results=tmp_path,
            reporter=reporter,
        )


def raising(error: BaseException) -> object:
    def look(_: Bench) -> Observed:
        raise error

    return look


def output(bench: Bench) -> Path:
    return bench.results / "debug" / "one.json"


def test_what_a_case_observed_is_recorded_with_its_conditions(bench: Bench) -> None:
    def look(bench: Bench) -> Observed:
        (bench.scratch / "kernel.cpp").write_text("int x;")
        return Observed({"right": True}, artifacts=[bench.keep("kernel", bench.scratch / "kernel.cpp")])

    observe(bench, look, output(bench))
    record = records.load(output(bench))
    assert (record.status, record.preset, record.environment) == ("ok", "smoke", "0" * 64)
    assert record.observations == {"right": True}
    assert [(one.path, one.bytes) for one in record.artifacts] == [("debug/one/kernel.cpp", 6)]
    assert not bench.scratch.exists()


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ProcessFailed("The worker", "was killed by SIGKILL after 3 s", "logs/debug/one.log"), "failed", "SIGKILL"),
        (BindingRefused("CPUs [7]", "no such CPU"), "refused", "CPUs [7]"),
        (KeyError("neg"), "failed", "KeyError"),
        (OSError(5, "Input/output error"), "failed", "Input/output error"),
    ],
)
def test_a_failure_of_the_machine_is_a_record_with_its_reason_and_log(
    bench: Bench, error: Exception, status: str, said: str
) -> None:
    observe(bench, raising(error), output(bench))  # type: ignore[arg-type]
    record = records.load(output(bench))
    assert record.status == status
    assert record.error is not None
    assert said in record.error.message
    assert (bench.results / record.error.log).exists()


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (ModelNotLoadable("x", "it is not there"), ModelNotLoadable),
        (OSError(28, "No space left on device"), DiskFull),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_wrong_input_a_full_disk_and_ctrl_c_leave_no_record(
    bench: Bench, error: BaseException, raised: type[BaseException]
) -> None:
    output(bench).parent.mkdir()
    output(bench).write_text("of an earlier run")
    with pytest.raises(raised):
        observe(bench, raising(error), output(bench))  # type: ignore[arg-type]
    assert not output(bench).exists()
    assert not bench.scratch.exists()


def test_under_an_environment_that_is_not_in_force_nothing_is_observed_and_the_record_says_why(bench: Bench) -> None:
    def look(_: Bench) -> Observed:
        raise AssertionError

    missing = replace(bench.environment, not_in_force=["KMP_BLOCKTIME (wanted 1, found 200: why)"])
    observe(replace(bench, environment=missing), look, output(bench))
    record = records.load(output(bench))
    assert record.status == "refused"
    assert record.error is not None
    assert "KMP_BLOCKTIME (wanted 1, found 200: why)" in record.error.message


def test_only_records_of_failed_steps_are_made_to_look_old(bench: Bench) -> None:
    observe(bench, lambda _: Observed(), output(bench))
    assert records.age_failed([output(bench), bench.results / "none.json"]) == []
    observe(bench, raising(KeyError("neg")), output(bench))  # type: ignore[arg-type]
    assert records.age_failed([output(bench)]) == ["debug/one"]
    assert output(bench).stat().st_mtime == 0


def test_a_new_cache_holds_the_trials_of_the_instruction_sets_and_is_the_processs_own(
    bench: Bench, tmp_path: Path
) -> None:
    trials = tmp_path / "isa-trials"
    (trials / "3g").mkdir(parents=True)
    (trials / "3g" / "trial.so").touch()
    (trials / "locks").mkdir()
    folders = [Path(bench.new_cache(name)["TORCHINDUCTOR_CACHE_DIR"]) for name in ("one", "other")]
    assert [sorted(path.name for path in folder.rglob("*")) for folder in folders] == [["3g", "trial.so"]] * 2
    with pytest.raises(FileExistsError):
        bench.new_cache("one")


def test_without_trials_a_new_cache_is_empty(bench: Bench) -> None:
    assert list(Path(bench.new_cache()["TORCHINDUCTOR_CACHE_DIR"]).iterdir()) == []
