"""One measured process: builds the subject, compiles it, checks it, and times the arms in turn.

``python -m cpulab.measure.worker ASK.json ANSWER.json`` in the measured environment.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import math
import statistics
import sys
import time
from itertools import count, cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host import attest
from cpulab.measure.order import balanced_orders
from cpulab.measure.watch import Watch, parallel_sentinel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Arms = Mapping[str, Callable[[], Any]]

# A process may take this share of the time it has already cost for its rounds, deadline or not: where importing and
# compiling are all the cost, leaving out rounds saves nothing.
CHEAP = 0.1

# Arms are steady when the typical time of the last calls differs from that of those before by no more than this share,
# or than what such calls scatter; and are measured as they are after so many times the least warm-up.
STEADY, PATIENCE = 0.05, 8

# A sample of the fastest arm lasts this long at least, by as many calls as it takes: the clock's resolution and the
# harness's own cost are then below a thousandth of it.
SAMPLE_S = 0.0005

_BEGAN = time.monotonic()


def is_steady(samples: Sequence[float], window: int) -> bool:
    """Tell whether the last ``window`` samples are as fast as the ``window`` before, within their own scatter.

    The scatter is the standard error of the difference of two medians, from the median absolute deviation, twice.
    """
    if len(samples) < 2 * window:
        return False
    before, last = samples[-2 * window : -window], samples[-window:]
    middle = statistics.median(last)
    deviation = statistics.median(abs(value - middle) for value in last)
    scatter = 2 * 1.4826 * 1.2533 * deviation * math.sqrt(2 / window)
    return abs(statistics.median(before) - middle) <= max(STEADY * middle, scatter)


def warm_up(arms: Arms, samples: dict[str, list[float]], *, least: int, deadline: float = math.inf) -> tuple[int, bool]:
    """Call the arms in rounds until all are steady; add to ``samples``, and return the rounds and whether they are.

    ``least``: rounds taken in any case, half of which (one at least) are compared with those before. ``deadline`` (of
    time.monotonic): no more than the least is taken after this.
    """
    window = max(1, least // 2)
    orders = cycle(balanced_orders(list(arms)))
    for taken in count():
        steady = all(is_steady(values, window) for values in samples.values())
        spent = taken >= PATIENCE * least or time.monotonic() > deadline
        if taken >= least and (steady or spent):
            return taken, steady
        for name in next(orders):
            samples[name].append(_timed(arms[name], 1))
    raise AssertionError


def calls_per_sample(samples: Mapping[str, Sequence[float]]) -> int:
    """Return how many calls make a sample of the fastest arm last `SAMPLE_S`."""
    fastest = min(statistics.median(values[-5:]) for values in samples.values())
    return max(1, math.ceil(SAMPLE_S / fastest))


def take(
    arms: Arms,
    *,
    rounds: int,
    first_round: int = 0,
    deadline: float = math.inf,
    calls: int = 1,
    watch: Watch | None = None,
) -> tuple[dict[str, list[float]], list[list[str]]]:
    """Time the arms in ``rounds`` rounds and return each arm's seconds a call and round, and the order of each round.

    ``first_round``: where in the cycle of balanced orders to begin, so that several processes go on in one cycle.
    ``deadline`` (of time.monotonic): rounds come in mirrored pairs, and no pair after the first is begun when it would
    end later than this. ``watch``: for each round that it calls disturbed another one is taken, as many as ``rounds``
    again and no more.
    """
    orders = islice(cycle(balanced_orders(list(arms))), first_round, None)
    samples: dict[str, list[float]] = {name: [] for name in arms}
    taken: list[list[str]] = []
    wanted = rounds
    pair_began = time.monotonic()
    while len(taken) < wanted:
        if taken and len(taken) % 2 == 0:
            now = time.monotonic()
            if now + (now - pair_began) > deadline:
                break
            pair_began = now
        order = next(orders)
        for name in order:
            samples[name].append(_timed(arms[name], calls))
        taken.append(order)
        if watch is not None:
            watch.after_round(len(taken))
            if len(taken) == wanted:
                watch.close(wanted)
                disturbed = len(watch.disturbed())
                wanted = min(2 * rounds, rounds + disturbed + disturbed % 2)
    if watch is not None:
        watch.close(len(taken))
    return samples, taken


def _timed(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def measure(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Measure one process as ``asked``: subject, arms, freezing, warmup, rounds, first_round, deadline, sentinel_s.

    ``arms``: "eager", "inductor", and "placebo", which is eager again; any other is one of the subject's own.
    ``sentinel_s``: `Watch`'s ``typical_s``.

    The first calls of eager and of the compiled function are the correctness check's; eager's counts as its first
    warm-up and the compiled one's is the time to compile. Where a user's case cannot be timed the answer is ``unfit``,
    a sentence that says why.
    """
    import torch
    from torch._dynamo.utils import counters
    from torch._inductor import config

    from cpulab.measure import correctness, subjects

    config.freezing = asked["freezing"]
    try:
        subject = subjects.build(asked["subject"])
    except subjects.Unfit as reason:
        return {"unfit": str(reason)}
    compiled = torch.compile(subject.function)
    calls: dict[str, Callable[[], Any]] = {
        "eager": subject.call,
        "inductor": lambda: compiled(*subject.positional, **subject.arguments),
        "placebo": subject.call,
        **subject.arms,
    }
    arms = {name: calls[name] for name in asked["arms"]}
    warmups: dict[str, list[float]] = {name: [] for name in arms}
    answer: dict[str, Any] = {}
    with torch.no_grad():
        if "inductor" in arms:
            start = time.perf_counter()
            expected = arms["eager"]()
            warm = time.perf_counter()
            found = arms["inductor"]()
            answer["first_call"] = time.perf_counter() - warm
            check = correctness.compare(
                expected,
                found,
                lambda: correctness.in_float64(subject.function, subject.arguments, subject.positional),
            )
            answer["correctness"] = dataclasses.asdict(check)
            del expected, found
            warmups["eager"].append(warm - start)
        halfway = (time.monotonic() + asked["deadline"]) / 2
        warmup_rounds, steady = warm_up(arms, warmups, least=asked["warmup"], deadline=halfway)
        per_sample = calls_per_sample(warmups)
        watch = Watch(parallel_sentinel(), threads=torch.get_num_threads(), typical_s=asked["sentinel_s"])
        # As timeit does: no collection within a sample. What the compiler left is collected before.
        gc.collect()
        gc.disable()
        now = time.monotonic()
        began = time.perf_counter()
        values, orders = take(
            arms,
            rounds=asked["rounds"],
            first_round=asked["first_round"],
            deadline=max(asked["deadline"], now + CHEAP * (now - _BEGAN)),
            calls=per_sample,
            watch=watch,
        )
        took = time.perf_counter() - began
        gc.enable()
    disturbed = watch.disturbed()
    samples = sum(map(len, values.values()))
    return {
        **answer,
        "arms": {name: {"warmup": warmups[name], "values": values[name], "disturbed": disturbed} for name in arms},
        "orders": [" ".join(order) for order in orders],
        "planned_rounds": asked["rounds"],
        "warmup_rounds": warmup_rounds,
        "steady": steady,
        "calls_per_sample": per_sample,
        "watch": watch.stretches(),
        "sentinel_s": watch.sentinel_s,
        # All that is not an arm's call, the sentinel included.
        "harness_s_per_sample": max(0.0, took - per_sample * sum(map(sum, values.values()))) / samples,
        # "bypass": frozen graphs are not cached, only the C++ built from them is.
        "inductor_cache": next(
            (what for what in ("bypass", "hit", "miss") if counters["inductor"][f"fxgraph_cache_{what}"]), None
        ),
        # After the last sample: what it touches must not change what is measured.
        "attested": attest.facts(),
        "graph_breaks": sum(counters["graph_break"].values()),
        "freezing": config.freezing,
        "facts": dict(subject.facts),
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(measure(json.loads(Path(sys.argv[1]).read_text()))))
