"""Observes many functions of one case file in one process: ``observe_many.py FILE ANSWER.json FUNCTION...``.

What a process of its own each would find, without the time to start it; scalar code is left out.
"""

import json
import sys
import tempfile
from pathlib import Path

from cpulab.explain import worker

PHASES = [phase for phase in worker.PHASES if phase != "rung:inductor_scalar"]


def observed(file: str, function: str) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        asked = {
            "target": {"file": file, "function": function},
            "seed": 0,
            "folder": folder,
            "limits": {"eager_s": 60, "rung_s": 180},
        }
        session = worker.Session(asked)
        session.run(PHASES)
        lines = [json.loads(line) for line in Path(folder, "progress.jsonl").read_text().splitlines()]
    invalid = next((line["reason"] for line in lines if line["state"] == "invalid"), None)
    return {"invalid": invalid, "found": session.found, "endings": {}}


if __name__ == "__main__":
    file, answer, *functions = sys.argv[1:]
    Path(answer).write_text(json.dumps({function: observed(file, function) for function in functions}, allow_nan=False))
