"""One measured process as a step asks for it, and what several of them say together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.config import Sampling
    from cpulab.step import Bench

# Beyond the budget, before a process counts as hung: an untuned or busy machine can compile for minutes.
HUNG_AFTER_S = 900.0


def ask(
    bench: Bench,
    sampling: Sampling,
    subject: Mapping[str, Any],
    *,
    arms: Sequence[str],
    freezing: bool,
    before: Sequence[Mapping[str, Any]],
    deadline: float,
    variables: Mapping[str, str],
    tuned: bool = True,
) -> dict[str, Any]:
    """Run one measured process and return its answer (`cpulab.measure.worker.measure`).

    ``before``: the answers of those whose cycle of balanced orders it goes on with. ``deadline``: of CLOCK_MONOTONIC,
    which all processes of a machine share.

    Raises:
        ProcessFailed, SettingsNotInForce: as `cpulab.step.Bench.worker`.

    """
    return bench.worker(
        "cpulab.measure.worker",
        {
            "subject": subject,
            "arms": list(arms),
            "freezing": freezing,
            "warmup": sampling.warmup,
            "rounds": sampling.rounds,
            "first_round": sum(len(process["orders"]) for process in before),
            "deadline": deadline,
        },
        variables={**variables, "HF_HUB_OFFLINE": "1"},
        timeout_s=sampling.budget_s + HUNG_AFTER_S,
        tuned=tuned,
    )


def values(processes: Sequence[Mapping[str, Any]], arm: str) -> list[list[float]]:
    """Return the kept samples of an arm, process by process."""
    return [process["arms"][arm]["values"] for process in processes]


def built(processes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what was built, how the compiled result compares and the rounds' orders, as observations of a record.

    Each process compiles for itself, so that one wrong process is a wrong result: the least favourable check is kept.
    """
    checks = [process["correctness"] for process in processes]
    worst = max(checks, key=lambda check: (not check["compiled_is_right"], _error(check)))
    return {
        **processes[0]["facts"],
        "freezing": processes[0]["freezing"],
        "graph_breaks": max(process["graph_breaks"] for process in processes),
        **worst,
        "peak_memory_covers": "the whole process: every arm and the compiler",
        "round_orders": [{"process": number, "rounds": process["orders"]} for number, process in enumerate(processes)],
    }


def _error(check: Mapping[str, Any]) -> float:
    error = check["largest_error"]
    return float("inf") if error is None else float(error)
