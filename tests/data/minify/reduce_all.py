"""Reduces several functions in one process: ``python reduce_all.py ASKED.json ANSWER.json`` (lists of what one takes)."""

import json
import sys
from pathlib import Path

from cpulab.minify import reduce_worker as worker

if __name__ == "__main__":
    answers = []
    for asked in json.loads(Path(sys.argv[1]).read_text()):
        folder = Path(asked.pop("folder"))
        folder.mkdir(parents=True)
        answers.append(worker.reduce(worker.Asked(**asked, folder=folder)))
    Path(sys.argv[2]).write_text(json.dumps(answers))
