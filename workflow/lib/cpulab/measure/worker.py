"""One measured process: builds the subject, compiles it, checks it, and times the arms in turn.

``python -m cpulab.measure.worker ASK.json ANSWER.json`` in the measured environment.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import resource
import sys
import time
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host import attest
from cpulab.measure.order import balanced_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A process may take this share of the time it has already cost for its rounds, deadline or not: where importing and
# compiling are all the cost, leaving out rounds saves nothing.
CHEAP = 0.1

_BEGAN = time.monotonic()


def take(
    arms: Mapping[str, Callable[[], Any]], *, rounds: int, first_round: int = 0, deadline: float = math.inf
) -> tuple[dict[str, list[float]], list[list[str]]]:
    """Time the arms in ``rounds`` rounds and return each arm's seconds a round, and the order of each round.

    ``first_round``: where in the cycle of balanced orders to begin, so that several processes go on in one cycle.
    ``deadline`` (of time.monotonic): rounds come in mirrored pairs, and no pair after the first is begun when it would
    end later than this.
    """
    orders = balanced_orders(list(arms))
    samples: dict[str, list[float]] = {name: [] for name in arms}
    taken: list[list[str]] = []
    pair_began = time.monotonic()
    for number, order in enumerate(islice(cycle(orders), first_round, first_round + rounds)):
        if number and number % 2 == 0:
            now = time.monotonic()
            if now + (now - pair_began) > deadline:
                break
            pair_began = now
        for name in order:
            call = arms[name]
            start = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - start)
        taken.append(order)
    return samples, taken


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Measure one process as ``asked``: subject, arms, freezing, warmup, rounds, first_round, deadline.

    ``arms``: "eager" and "inductor", and "placebo", which is eager again, where it is asked for.

    The first calls of eager and of the compiled function are the correctness check's; eager's counts as its first
    warm-up and the compiled one's is the time to compile.
    """
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import config

    from cpulab.measure import correctness, subjects

    config.freezing = asked["freezing"]
    subject = subjects.build(asked["subject"])
    function, arguments = subject.function, subject.arguments
    compiled = torch.compile(function)
    calls: dict[str, Callable[[], Any]] = {
        "eager": lambda: function(**arguments),
        "inductor": lambda: compiled(**arguments),
        "placebo": lambda: function(**arguments),
    }
    arms = {name: calls[name] for name in asked["arms"]}
    with torch.no_grad():
        start = time.perf_counter()
        expected = arms["eager"]()
        warm = time.perf_counter()
        found = arms["inductor"]()
        first_call = time.perf_counter() - warm
        check = correctness.compare(expected, found, lambda: correctness.in_float64(function, arguments))
        del expected, found
        warmup, _ = take(arms, rounds=asked["warmup"] - 1)
        warmup["eager"].insert(0, warm - start)
        # As timeit does: no collection within a sample. What the compiler left is collected before.
        gc.collect()
        gc.disable()
        now = time.monotonic()
        values, orders = take(
            arms,
            rounds=asked["rounds"],
            first_round=asked["first_round"],
            deadline=max(asked["deadline"], now + CHEAP * (now - _BEGAN)),
        )
        gc.enable()
    # Kibibytes on Linux. Of the whole process: all arms live in it, and so does the compiler.
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "arms": {name: {"warmup": warmup[name], "values": values[name]} for name in arms},
        "orders": [" ".join(order) for order in orders],
        "first_call": first_call,
        # "bypass": frozen graphs are not cached, only the C++ built from them is.
        "inductor_cache": next(
            (what for what in ("bypass", "hit", "miss") if counters["inductor"][f"fxgraph_cache_{what}"]), None
        ),
        "peak_memory": peak_memory,
        # After the last sample: what it touches must not change what is measured.
        "attested": attest.facts(),
        "graph_breaks": sum(counters["graph_break"].values()),
        "freezing": config.freezing,
        "correctness": dataclasses.asdict(check),
        "facts": dict(subject.facts),
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
