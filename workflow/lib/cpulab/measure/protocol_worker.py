"""Time arms one after another, as timeit does. Runs in the measured process.

``python -m cpulab.measure.protocol_worker ASK.json ANSWER.json`` in the measured environment.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import timeit
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host import attest
from cpulab.measure import subjects

if TYPE_CHECKING:
    from collections.abc import Mapping


def main(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Time each of ``arms`` ("eager", "inductor") in turn: ``warmup`` calls, then ``iterations`` calls at one go.

    ``seconds`` are of all the iterations together. Peak memory is that of the whole process (ru_maxrss).
    """
    import torch
    from torch._inductor import config

    config.freezing = asked["freezing"]
    subject = subjects.build(asked["subject"])
    rows = []
    with torch.no_grad():
        for arm in asked["arms"]:
            function = torch.compile(subject.function) if arm == "inductor" else subject.function

            def call(function: Any = function) -> None:
                function(*subject.positional, **subject.arguments)

            start = time.perf_counter()
            call()
            first_call = time.perf_counter() - start
            for _ in range(asked["warmup"] - 1):
                call()
            seconds = timeit.timeit(call, number=asked["iterations"])
            rows.append(
                {
                    "arm": arm,
                    "warmup": asked["warmup"],
                    "iterations": asked["iterations"],
                    "seconds": seconds,
                    "first_call": first_call,
                }
            )
    # Kibibytes on Linux.
    peak_memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"rows": rows, "peak_memory": peak_memory, "attested": attest.facts()}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
