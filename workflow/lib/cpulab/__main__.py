"""The command line: one subcommand a step, no logic."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cpulab.errors import LabError
from cpulab.files import full_disk_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cpulab.step import Bench, Case


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _build(arguments: argparse.Namespace) -> int:
    from cpulab.host.build import BUILD_S, build
    from cpulab.paths import LOCK, MEASURED_ENVIRONMENT
    from cpulab.progress import Reporter

    with Reporter("build", BUILD_S, arguments.results / "logs" / "build.log") as reporter:
        build(MEASURED_ENVIRONMENT, LOCK, reporter)
    return 0


def _launch(arguments: argparse.Namespace) -> int:
    from cpulab.host.launch import exec_measured, load_environment

    exec_measured(load_environment(arguments.environment), arguments.command, tuned=not arguments.untuned)


def _observe_environment(cores: int, results: Path) -> dict[str, Any]:
    from cpulab.config import check_cores
    from cpulab.host.step import expected_s, observe_environment
    from cpulab.paths import LOCK, MEASURED_ENVIRONMENT
    from cpulab.progress import Reporter

    check_cores(cores)
    log = results / "logs" / "environment.log"
    with Reporter("environment", expected_s(MEASURED_ENVIRONMENT, LOCK), log) as reporter:
        return observe_environment(
            environment=MEASURED_ENVIRONMENT,
            lock=LOCK,
            cores=cores,
            output=results / "environment.json",
            reporter=reporter,
        )


def _environment(arguments: argparse.Namespace) -> int:
    _observe_environment(arguments.cores, arguments.results)
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    import tempfile

    from cpulab.host.doctor import diagnosis, text

    # In a folder of its own: a diagnosis must not make the records of a run look outdated.
    with tempfile.TemporaryDirectory() as folder:
        found = diagnosis(_observe_environment(arguments.cores, Path(folder)))
    print(json.dumps(found, indent=1) if arguments.json else text(found))
    return 0 if found["ready"] else 1


def _step(arguments: argparse.Namespace) -> int:
    import importlib

    from cpulab.errors import UnknownCase

    room = importlib.import_module(STEPS[arguments.step])
    if arguments.case not in room.CASES:
        raise UnknownCase(arguments.step, arguments.case, room.CASES)
    return _observe(arguments, arguments.case, room.CASES[arguments.case])


def _explain(arguments: argparse.Namespace) -> int:
    from cpulab.config import case_slug, case_target
    from cpulab.explain.record import case

    name = case_slug(arguments.case)
    if arguments.record:
        return _observe(arguments, name, case(case_target(arguments.case)))
    return _explain_here(arguments, name)


def _explain_here(arguments: argparse.Namespace, name: str) -> int:
    from cpulab.explain.step import explain
    from cpulab.explain.text import text

    file, _, function = arguments.case.rpartition(":")
    with _bench_here(arguments, "explained", name, 30) as bench:
        target = {"file": str(Path(file).resolve()), "function": function}
        answer = explain(bench, target, timeout_s=arguments.timeout)
    answer["case"] = arguments.case
    if answer["minimal"]["file"] is not None:
        answer["minimal"]["file"] = str(arguments.results / answer["minimal"]["file"])
    print(json.dumps(answer, indent=1, allow_nan=False) if arguments.json else text(answer))
    return 1 if answer["kind"] == "invalid_case" else 0


def _bench(arguments: argparse.Namespace) -> int:
    import dataclasses

    from cpulab.config import case_slug, case_target
    from cpulab.errors import BadBudget
    from cpulab.measure.bench import SAMPLING, measure, text

    target = case_target(arguments.case)
    budget_s = SAMPLING.budget_s if arguments.budget is None else arguments.budget
    if not budget_s > 0:
        raise BadBudget(budget_s)
    sampling = dataclasses.replace(SAMPLING, budget_s=budget_s)
    with _bench_here(arguments, "benched", case_slug(arguments.case), sampling.budget_s) as bench:
        answer = {"case": arguments.case, **measure(bench, sampling, target)}
    print(json.dumps(answer, indent=1, allow_nan=False) if arguments.json else text(answer))
    return 1 if answer["compiled_is_right"] is False else 0


@contextlib.contextmanager
def _bench_here(arguments: argparse.Namespace, step: str, name: str, expected_s: float) -> Iterator[Bench]:
    """Give a bench that leaves no record, in the environment asked for or in one made for now."""
    from cpulab.config import load_preset
    from cpulab.host.launch import load_environment
    from cpulab.progress import Reporter
    from cpulab.step import Bench

    log = arguments.results / "logs" / step / f"{name}.log"
    with (
        _environment_record(arguments.environment) as record,
        Reporter(f"{arguments.step} {name}", expected_s, log) as reporter,
    ):
        bench = Bench(
            step=step,
            case=name,
            variant="default",
            preset=load_preset(arguments.preset),
            model=arguments.model,
            seed=arguments.seed,
            environment=load_environment(record),
            results=arguments.results,
            reporter=reporter,
        )
        with bench.opened():
            yield bench


@contextlib.contextmanager
def _environment_record(asked: Path) -> Iterator[Path]:
    """Give the environment record that was asked for; where there is none, one of this machine, made for now."""
    import tempfile

    if asked.is_file():
        yield asked
        return
    with tempfile.TemporaryDirectory() as folder:
        _observe_environment(len(os.sched_getaffinity(0)), Path(folder))
        yield Path(folder) / "environment.json"


def _observe(arguments: argparse.Namespace, name: str, case: Case) -> int:
    from cpulab.config import load_preset
    from cpulab.host.launch import load_environment
    from cpulab.progress import Reporter
    from cpulab.step import Bench, observe

    preset = load_preset(arguments.preset)
    environment = load_environment(arguments.environment)
    log = arguments.results / "logs" / arguments.step / f"{name}.log"
    with Reporter(f"{arguments.step} {name}", case.expected_s(preset), log) as reporter:
        bench = Bench(
            step=arguments.step,
            case=name,
            variant=case.variant,
            preset=preset,
            # Measured processes work in folders of their own.
            model=str(Path(arguments.model).resolve()) if Path(arguments.model).is_dir() else arguments.model,
            seed=arguments.seed,
            environment=environment,
            results=arguments.results,
            reporter=reporter,
        )
        record = observe(bench, case.look, arguments.results / arguments.step / f"{name}.json")
    if record.error is not None:
        print(f"{record.name} {record.status}: {record.error.message}", file=sys.stderr)
    return 0


def _judge(arguments: argparse.Namespace) -> int:
    from cpulab.judge import judge_files

    judge_files(arguments.claims, arguments.environment, arguments.records, arguments.output)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from cpulab.report.render import render_files

    render_files(arguments.verdicts, arguments.environment, arguments.records, arguments.output)
    print(f"{arguments.output} is written")
    return 0


# Step -> the module that has its cases.
STEPS = {
    "model": "cpulab.model_step",
    "debug": "cpulab.debug.step",
    "minify": "cpulab.minify.step",
    "benchmark": "cpulab.measure.step",
    "profile": "cpulab.profile.step",
    "roofline": "cpulab.roofline.step",
}


# What looks at a function of the user's.
OF_A_FUNCTION = {
    "explain": "say what is wrong with a function when it is compiled, and where",
    "bench": "say whether a function is faster when it is compiled, with which certainty",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Returns 0 done, 1 a finding against the input or the machine; wrong usage exits 2."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
        with full_disk_named(Path("results")):
            return int(arguments.run(arguments))
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted. Nothing half-written was kept; rerun to go on.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cpulab", description="The steps of Inductor CPU Lab, one subcommand each.")
    commands = parser.add_subparsers(metavar="STEP", required=True)

    build = commands.add_parser("build", help="build the measured environment, or check the one that is there")
    build.add_argument("--results", type=Path, default=Path("results"), help="folder of the log")
    build.set_defaults(run=_build)

    environment = commands.add_parser("environment", help="build, tune and probe the measured environment")
    environment.add_argument("--cores", type=int, required=True, help="cores to measure on, at most")
    environment.add_argument("--results", type=Path, default=Path("results"))
    environment.set_defaults(run=_environment)

    doctor = commands.add_parser("doctor", help="say whether this machine is ready to measure, and what is not")
    doctor.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)), help="cores to measure on, at most")
    doctor.add_argument("--json", action="store_true", help="one JSON object on stdout")
    doctor.set_defaults(run=_doctor)

    launch = commands.add_parser("launch", help="run a command in the measured environment, tuned and bound")
    launch.add_argument("--untuned", action="store_true", help="without the tuned variables and without binding")
    launch.add_argument("environment", type=Path, metavar="ENVIRONMENT.json")
    launch.add_argument("command", nargs="+", metavar="COMMAND", help="after --; `python` is the measured one")
    launch.set_defaults(run=_launch)

    for step, run in [*((step, _step) for step in STEPS), ("explain", _explain), ("bench", _bench)]:
        helped = f"observe one case of the step {step}" if step in STEPS else OF_A_FUNCTION[step]
        sub = commands.add_parser(step, help=helped)
        sub.add_argument("case", metavar="FILE.py:FUNCTION" if step in OF_A_FUNCTION else None)
        sub.add_argument("--preset", default="tutorial")
        sub.add_argument("--model", default="csarron/mobilebert-uncased-squad-v2")
        sub.add_argument("--seed", type=int, default=0)
        sub.add_argument("--environment", type=Path, default=Path("results/environment.json"))
        sub.add_argument("--results", type=Path, default=Path("results"), help="folder of records and artefacts")
        sub.set_defaults(run=run, step=step)
        if step in OF_A_FUNCTION:
            sub.add_argument("--json", action="store_true", help="one JSON object on stdout")
        if step == "bench":
            sub.add_argument("--budget", type=float, help="seconds to measure in, about")
        if step == "explain":
            sub.add_argument("--record", action="store_true", help="leave a record for the report")
            sub.add_argument(
                "--timeout",
                type=float,
                default=60,
                help="seconds that eager may take, and a backend three times as long",
            )

    judge = commands.add_parser("judge", help="judge records against the claims")
    judge.add_argument("--claims", type=Path, default=Path("workflow/claims/inductor_debug_cpu.yaml"))
    judge.set_defaults(run=_judge)
    report = commands.add_parser("report", help="write the report of judged records")
    report.add_argument("--verdicts", type=Path, default=Path("results/verdicts.json"))
    report.set_defaults(run=_report)
    for sub, output in ((judge, "results/verdicts.json"), (report, "results/report.html")):
        sub.add_argument("--environment", type=Path, default=Path("results/environment.json"))
        sub.add_argument("--output", type=Path, default=Path(output))
        sub.add_argument("records", nargs="+", type=Path, metavar="RECORD.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
