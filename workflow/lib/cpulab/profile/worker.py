"""Profile one arm of the model with torch.profiler. Runs in the measured process, once a case."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch
from torch._inductor import config as inductor
from torch._inductor.graph import GraphLowering
from torch.profiler import ProfilerActivity, profile, schedule

from cpulab import cases, models
from cpulab.host import attest
from cpulab.profile.origins import Origins

if TYPE_CHECKING:
    from collections.abc import Callable

# The schedule of the tutorial, over 50 steps; and a fifth of it, in which every active step is its own cycle.
PUBLISHED_SCHEDULE = {"skip_first": 10, "wait": 5, "warmup": 5, "active": 1, "repeat": 5}
PUBLISHED_STEPS = 50
WARMUP_CALLS = 2
SCALED_SCHEDULE = {"skip_first": 2, "wait": 1, "warmup": 1, "active": 1}

# Every copy ends here. Torch does not tag it as pointwise: it moves elements and computes none.
COPY = "aten::copy_"


def is_pointwise(name: str) -> bool:
    """Tell whether torch tags operator ``name`` ("aten::add") as pointwise.

    The tag is on overloads, and not on the forms that work in place: any overload of either form will do.
    """
    if not re.fullmatch(r"\w+::\w+", name):
        return False
    namespace, _, operator = name.partition("::")
    packets = [getattr(getattr(torch.ops, namespace), form, None) for form in (operator, operator.removesuffix("_"))]
    return any(
        torch.Tag.pointwise in getattr(packet, overload).tags
        for packet in packets
        if packet is not None
        for overload in packet.overloads()
    )


def _seconds(microseconds: float) -> float:
    """Return what the profiler says in microseconds, in seconds to its own resolution of a nanosecond."""
    return round(microseconds / 1e6, 9)


def table(profiler: profile) -> dict[str, Any]:
    """Return every row of the profiler's table, in seconds; ``share`` is of self CPU time, as there."""
    rows = profiler.key_averages()
    total_us = rows.self_cpu_time_total
    ops = [
        {
            "name": row.key,
            "calls": row.count,
            "self_s": _seconds(row.self_cpu_time_total),
            "total_s": _seconds(row.cpu_time_total),
            "share": row.self_cpu_time_total / total_us,
        }
        for row in rows
    ]
    return {"step_total_s": _seconds(total_us), "ops": sorted(ops, key=lambda op: -op["self_s"])}


def elementwise(profiler: profile) -> list[dict[str, Any]]:
    """Return the calls of element-wise operators and of copies, and the operator each was called inside."""
    calls: Counter[tuple[str, str | None]] = Counter()
    for event in profiler.events():
        if event.name == COPY or is_pointwise(event.name):
            calls[event.name, event.cpu_parent.name if event.cpu_parent else None] += 1
    return [
        {"name": name, "inside": inside, "kind": "copy" if name == COPY else "pointwise", "calls": count}
        for (name, inside), count in sorted(calls.items(), key=str)
    ]


def take(
    call: Callable[[], object], steps: int, plan: dict[str, int], prefix: str, look: Callable[[profile], Any]
) -> list[dict[str, Any]]:
    """Profile ``steps`` calls by the schedule ``plan``; return what ``look`` saw at each trace.

    Traces go to the working directory, because the profiler writes the name it was given into them.
    """
    seen: list[dict[str, Any]] = []

    def ready(profiler: profile) -> None:
        trace = f"{prefix}{profiler.step_num}.json"
        seen.append({"step": profiler.step_num, "trace": trace, **look(profiler)})
        profiler.export_chrome_trace(trace)

    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(**plan), on_trace_ready=ready) as profiler:
        for _ in range(steps):
            call()
            profiler.step()
    return seen


def published_schedule(seed: int) -> list[dict[str, Any]]:
    """Run the published schedule over its 50 steps on the tutorial's small program, for what it exports."""
    program = cases.PROGRAMS["uint8"]
    tensors = program.inputs(seed)
    return take(lambda: program.function(*tensors), PUBLISHED_STEPS, PUBLISHED_SCHEDULE, "published_schedule_", table)


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Profile one arm of the model; ``asked`` is what step.py asks for."""
    network, weights = models.build(
        asked["model"], layers=asked["layers"], attention=asked["attention"], seed=asked["seed"]
    )
    tensors = models.inputs(network, batch=asked["batch"], sequence_length=asked["sequence_length"], seed=asked["seed"])
    called = torch.compile(network) if asked["compiled"] else network
    sources: list[str] = []
    origins = Origins()
    settings = {"cpp.enable_kernel_profile": True, "freezing": asked["freezing"]}
    plan = {**SCALED_SCHEDULE, "repeat": asked["active"]}
    cycle = plan["wait"] + plan["warmup"] + plan["active"]
    with (
        torch.no_grad(),
        inductor.patch(settings),
        mock.patch.object(GraphLowering, "save_output_code", staticmethod(sources.append)),
        origins.recorded(),
    ):
        for _ in range(WARMUP_CALLS):
            called(**tensors)
        steps = take(
            lambda: called(**tensors),
            plan["skip_first"] + cycle * plan["repeat"],
            plan,
            "trace_",
            lambda profiler: {**table(profiler), "elementwise": elementwise(profiler)},
        )
        published = published_schedule(asked["seed"]) if asked["published_schedule"] else []
    return {
        "weights": weights,
        "layers": models.describe(network)["layers"],
        "steps": steps,
        "sources": sources,
        "origins": origins.rows,
        "schedule": plan,
        "published_schedule": published,
        "published_schedule_repeat": PUBLISHED_SCHEDULE["repeat"],
        "attested": attest.facts(),
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
