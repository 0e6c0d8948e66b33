"""The command line: one subcommand a step, no logic."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from cpulab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence


def _interrupted(_signal: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _launch(arguments: argparse.Namespace) -> int:
    from cpulab.host.launch import exec_measured, load_environment

    exec_measured(load_environment(arguments.environment), arguments.command)


def _step(arguments: argparse.Namespace) -> int:
    import importlib

    from cpulab.config import load_preset
    from cpulab.errors import UnknownCase
    from cpulab.host.launch import load_environment
    from cpulab.progress import Reporter
    from cpulab.step import Bench, observe

    room = importlib.import_module(f"cpulab.{STEPS[arguments.step]}.step")
    if arguments.case not in room.CASES:
        raise UnknownCase(arguments.step, arguments.case, room.CASES)
    case = room.CASES[arguments.case]
    preset = load_preset(arguments.preset)
    environment = load_environment(arguments.environment)
    log = arguments.results / "logs" / arguments.step / f"{arguments.case}.log"
    with Reporter(f"{arguments.step} {arguments.case}", case.expected_s(preset), log) as reporter:
        bench = Bench(
            step=arguments.step,
            case=arguments.case,
            variant=case.variant,
            preset=preset,
            model=arguments.model,
            seed=arguments.seed,
            environment=environment,
            results=arguments.results,
            reporter=reporter,
        )
        record = observe(bench, case.look, arguments.results / arguments.step / f"{arguments.case}.json")
    if record.error is not None:
        print(f"{record.name} {record.status}: {record.error.message}", file=sys.stderr)
    return 0


# Step -> the package that does it.
STEPS = {"debug": "debug", "minify": "minify", "benchmark": "measure", "profile": "profile"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Returns 0 done, 1 a finding against the input or the machine; wrong usage exits 2."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupted)
    try:
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

    launch = commands.add_parser("launch", help="run a command in the measured environment, tuned and bound")
    launch.add_argument("environment", type=Path, metavar="ENVIRONMENT.json")
    launch.add_argument("command", nargs="+", metavar="COMMAND", help="after --; `python` is the measured one")
    launch.set_defaults(run=_launch)

    for step in STEPS:
        sub = commands.add_parser(step, help=f"observe one case of the step {step}")
        sub.add_argument("case")
        sub.add_argument("--preset", default="tutorial")
        sub.add_argument("--model", default="csarron/mobilebert-uncased-squad-v2")
        sub.add_argument("--seed", type=int, default=0)
        sub.add_argument("--environment", type=Path, default=Path("results/environment.json"))
        sub.add_argument("--results", type=Path, default=Path("results"), help="folder of records and artefacts")
        sub.set_defaults(run=_step, step=step)
    return parser


if __name__ == "__main__":
    sys.exit(main())
