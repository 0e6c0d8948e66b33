"""Records how the element-wise pattern is sampled here, process by process, for simulated machines to draw from.

``python tests/data/measure/machines/record.py PROCESSES OUTPUT.json [ENVIRONMENT.json]``
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from cpulab.config import Sampling, load_preset
from cpulab.host.launch import load_environment
from cpulab.measure.process import ARMS, ask
from cpulab.progress import Reporter
from cpulab.step import Bench

SAMPLING = Sampling(budget_s=60, min_processes=2, max_processes=2, warmup=10, rounds=60, half_width=0.02)
SUBJECT = {"kind": "program", "program": "fused_pattern", "seed": 0}


def main(processes: int, output: Path, environment: Path) -> None:
    """Write each process's samples in seconds, to four digits, and the rounds that it marked as disturbed."""
    answers: list[dict[str, object]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Reporter("record", 10 * processes, Path(folder) / "log") as reporter,
    ):
        bench = Bench("record", "case", "default", load_preset("quick"), "", 0, load_environment(environment),
                      Path(folder), reporter)  # fmt: skip
        with bench.opened():
            cache = bench.new_cache()
            for _ in range(processes):
                answer = ask(
                    bench, SAMPLING, SUBJECT, arms=ARMS, freezing=False, before=[],
                    deadline=time.monotonic() + 60, variables=cache,
                )  # fmt: skip
                samples = {arm: [float(f"{value:.4g}") for value in answer["arms"][arm]["values"]] for arm in ARMS}
                answers.append({**samples, "disturbed": answer["arms"]["eager"]["disturbed"]})
    output.write_text("[\n" + ",\n".join(json.dumps(one) for one in answers) + "\n]\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), Path((sys.argv[3:] or ["results/environment.json"])[0]))
