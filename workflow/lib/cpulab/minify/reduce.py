"""Our own reducer, from outside: it runs `cpulab.minify.reduce_worker` and proves the program that it leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cpulab.errors import ProcessFailed
from cpulab.minify import repro

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cpulab.step import Bench

Test = Literal["accuracy", "exception", "crash", "hang"]

WORKER = "cpulab.minify.reduce_worker"
PROOF_TIMEOUT_S = 180.0
# What the worker needs beside its time for reducing: to import PyTorch and to end.
_START_S = 120.0


def reduce(
    bench: Bench,
    target: Mapping[str, str],
    *,
    direction: Literal["forward", "backward"] = "forward",
    test: Test = "accuracy",
    exception: str | None = None,
    isolate: bool = False,
    guilty: str | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 300.0,
    name: str = "minimal",
) -> dict[str, Any]:
    """Return what the worker answers: {minimal, steps, progress, reason, ...}; minimal is None where there is a reason.

    ``variables``: of the measured process, such as a fault and a variant. The minimal program is kept in the case's
    folder as ``name``.py, and minimal["file"] tells it from the results folder. A worker that a candidate kills or
    holds up is started again with each candidate in a child of its own.
    """
    folder = bench.scratch / "reduced" / name
    asked = {
        "target": dict(target),
        "seed": bench.seed,
        "direction": direction,
        "test": test,
        "exception": exception,
        "isolate": isolate,
        "guilty": guilty,
        "timeout_s": timeout_s,
        "folder": str(folder.resolve()),
    }
    settings = {**bench.new_cache(f"reduce-{name}"), **(variables or {})}
    try:
        answer = bench.worker(WORKER, asked, variables=settings, timeout_s=timeout_s + _START_S)
    except ProcessFailed:
        if isolate:
            raise
        isolated = {**asked, "isolate": True}
        answer = bench.worker(WORKER, isolated, variables=settings, timeout_s=timeout_s + _START_S)
    if answer["minimal"] is not None:
        kept = bench.keep("repro", Path(answer["minimal"]["file"]), f"{name}.py")
        answer["minimal"]["file"] = kept.path
    return answer


def prove(
    bench: Bench, file: Path, *, faulty: Mapping[str, str], healthy: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a minimal program as it is kept, with the variables of a fault and, where there are any, without.

    Returns {fails, passes, exit_status_with, output_with, exit_status_without, output_without}; ``passes`` and the
    last two are None without ``healthy``: what is wrong with the installed PyTorch cannot be taken away.
    """
    arms = {"with": faulty} if healthy is None else {"with": faulty, "without": healthy}
    proof: dict[str, Any] = dict.fromkeys(
        ("fails", "passes", "exit_status_with", "output_with", "exit_status_without", "output_without")
    )
    with bench.side_by_side(len(arms)) as pool:
        runs = {
            arm: pool.submit(
                bench.run,
                ["python", str(file.resolve())],
                variables={**bench.new_cache(f"proof-{file.stem}-{arm}"), **variables},
                timeout_s=PROOF_TIMEOUT_S,
            )
            for arm, variables in arms.items()
        }
    folders = repro.folders(bench)
    for arm, run in runs.items():
        completed = run.result()
        proof[f"exit_status_{arm}"] = None if completed.timed_out else completed.returncode
        proof[f"output_{arm}"] = repro.portable(completed.stdout, folders).strip()[:2000]
    # A program that dies or never ends shows what it is to show; one that says nothing did not come to compare.
    status = proof["exit_status_with"]
    proof["fails"] = status is None or status < 0 or (status == 1 and bool(proof["output_with"]))
    if healthy is not None:
        proof["passes"] = proof["exit_status_without"] == 0
    return proof
