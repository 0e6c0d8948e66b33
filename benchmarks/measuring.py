"""Measures the measuring: what `cpulab bench` says where the truth is known, and what it costs beside pyperf.

``python benchmarks/measuring.py CHECK... [--runs 10] [--environment results/environment.json]``, with nothing else
running. CHECK: simulated, same, slowed, neighbour, pyperf. Each prints one row; it exits with 1 when a bound of
docs/measuring.md is not kept.
"""
# ruff: noqa: INP001 - a script

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from cpulab.host.launch import load_environment, run_measured
from cpulab.measure import bench
from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
FUNCTIONS = HERE / "measured_functions.py"
sys.path.insert(0, str(HERE.parent / "tests" / "unit"))

# A neighbour is busy for a third of a run that takes about so long.
RUN_S = 60.0


def benched(function: str, environment: Path, *options: str) -> dict[str, Any]:
    """Run `cpulab bench` of one of the measured functions; return its object and ``seconds``, how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        completed = subprocess.run(
            ["cpulab", "bench", f"{FUNCTIONS}:{function}", "--json", f"--environment={environment}",
             f"--results={folder}", *options],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        answer = {**json.loads(completed.stdout), "seconds": time.monotonic() - start}
    print(
        f"  {function:8} {answer['verdict']:12} {answer['ratio']:.4f} ({answer['low']:.4f} to {answer['high']:.4f}), "
        f"placebo {answer['placebo']['low']:.4f} to {answer['placebo']['high']:.4f}, {answer['processes']} processes, "
        f"{answer['samples']} rounds, {answer['disturbed']} disturbed, {answer['stopped_by']}, "
        f"{answer['seconds']:.0f} s",
        flush=True,
    )
    return answer


def simulated(_: Path, runs: int) -> bool:
    """Draw 100 machines from the recordings: false alarms, coverage, and a slow-down of 5 %."""
    from simulated_machine import measured, recorded_machines

    machines = 100
    generator = np.random.default_rng(0)
    alarms, found, held, total = 0, Counter[str](), 0, 0
    for machine in recorded_machines(generator, machines):
        for _run in range(runs):
            same = measured(machine.run(generator, processes=20, rounds=40, ratio=1.0), bench.SAMPLING)
            alarms += bench.verdict(*same[:2]) in {"faster", "slower"}
            slowed = measured(machine.run(generator, processes=20, rounds=40, ratio=1 / 1.05), bench.SAMPLING)
            found[bench.verdict(*slowed[:2])] += 1
            for run in (
                machine.run(generator, processes=20, rounds=40, ratio=1.3),
                machine.two_arms(generator, processes=20, rounds=60),
            ):
                held += measured(run, bench.SAMPLING)[0].holds(run.true_ratio)
                total += 1
    number = machines * runs
    print(
        f"simulated: {alarms} of {number} runs of an arm against itself declared different; the interval held the "
        f"true ratio in {100 * held / total:.1f} % of {total}; a slow-down of 5 % was found in {found['slower']} of "
        f"{number}, taken for a gain in {found['faster']}"
    )
    return alarms <= number / 20 and 0.93 <= held / total <= 0.97 and found["slower"] >= 0.9 * number


def same(environment: Path, runs: int) -> bool:
    """Run a function that is the same compiled: no difference may be declared."""
    verdicts = Counter(benched("same", environment)["verdict"] for _ in range(runs))
    print(f"same: {dict(verdicts)} of {runs}")
    return verdicts["faster"] + verdicts["slower"] <= runs / 20


def slowed(environment: Path, runs: int) -> bool:
    """Run one that is busy for 5 % longer when it is compiled."""
    verdicts = Counter(benched("slowed", environment)["verdict"] for _ in range(runs))
    print(f"slowed by 5 %: {dict(verdicts)} of {runs}")
    return verdicts["slower"] >= 0.9 * runs and verdicts["faster"] == 0


def neighbour(environment: Path, runs: int) -> bool:
    """Run both with a busy process on one of the measured CPUs for a third of the run."""
    cpu = load_environment(environment).cpus[-1]
    good = True
    for function, wrong in (("same", {"faster", "slower"}), ("slowed", {"faster", "same"})):
        for _ in range(runs):
            busy = threading.Thread(target=_busy, args=(cpu, RUN_S / 3, RUN_S / 3))
            busy.start()
            answer = benched(function, environment)
            busy.join()
            good &= answer["verdict"] not in wrong and answer["disturbed"] > 0
    print(f"neighbour: {'no wrong verdict, rounds marked in every run' if good else 'not kept'}")
    return good


def _busy(cpu: int, after_s: float, for_s: float) -> None:
    time.sleep(after_s)
    spin = f"import os; os.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", spin])
    time.sleep(for_s)
    process.kill()
    process.wait()


def pyperf(environment: Path, _: int) -> bool:
    """Time the tutorial's pattern to an interval of +-2 %, and as pyperf does by default."""
    ours = benched("pattern", environment, "--budget", "300")
    share = ours["harness_s_per_sample"] / ours["inductor_s"]
    print(
        f"ours: {ours['ratio']:.3f} within {_half_width(ours):.1%} after {ours['seconds']:.0f} s; the harness takes "
        f"{1e6 * ours['harness_s_per_sample']:.0f} us a sample, {share:.2%} of the fused kernel's time"
    )
    theirs = _by_pyperf(environment)
    print(f"pyperf: {theirs['ratio']:.3f} within {_half_width(theirs):.1%} after {theirs['seconds']:.0f} s")
    return _half_width(ours) <= 0.02 and ours["seconds"] < theirs["seconds"] and share < 0.01


def _half_width(one: dict[str, Any]) -> float:
    return float(max(one["high"] / one["ratio"], one["ratio"] / one["low"]) - 1)


def _by_pyperf(environment: Path) -> dict[str, float]:
    """Return the ratio that pyperf's values give, with Welch's interval over its processes' means, on logarithms."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Nothing else of the driver's environment may reach the measured one.
        (folder / "path").mkdir()
        spec = find_spec("pyperf")
        assert spec is not None and spec.origin is not None, "pyperf is in envs/dev.lock: make lint installs it"  # noqa: S101, PT018
        (folder / "path" / "pyperf").symlink_to(Path(spec.origin).parent)
        start = time.monotonic()
        loaded = load_environment(environment)
        completed = run_measured(
            loaded,
            ["env", f"PYTHONPATH={folder / 'path'}:{LIBRARY}", loaded.python, str(HERE / "pyperf_pattern.py"),
             "--output=values.json", "--quiet", f"--inherit-environ={','.join([*loaded.variables, *INHERITED])}"],
            variables={"TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"},
            cwd=folder,
            timeout_s=3600,
        )  # fmt: skip
        seconds = time.monotonic() - start
        assert completed.returncode == 0, completed.stderr  # noqa: S101 - a script
        arms = json.loads((folder / "values.json").read_text())["benchmarks"]
    eager, inductor = (np.log([np.mean(run["values"]) for run in arm["runs"] if "values" in run]) for arm in arms)
    interval = stats.ttest_ind(eager, inductor, equal_var=False).confidence_interval(0.95)
    return {
        "ratio": math.exp(eager.mean() - inductor.mean()),
        "low": math.exp(interval.low),
        "high": math.exp(interval.high),
        "seconds": seconds,
    }


# pyperf keeps these from its workers otherwise.
INHERITED = ("PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR", "LD_LIBRARY_PATH", "CC", "CXX")

CHECKS: dict[str, Callable[[Path, int], bool]] = {
    one.__name__: one for one in (simulated, same, slowed, neighbour, pyperf)
}


def main() -> int:
    """Run the checks that are asked for; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="+", choices=CHECKS, metavar="CHECK")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--environment", type=Path, default=Path("results/environment.json"))
    arguments = parser.parse_args()
    kept = [CHECKS[check](arguments.environment.resolve(), arguments.runs) for check in arguments.checks]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
