"""Copy records of real runs here, as of one run under one environment, without this machine's folders.

    python tests/data/judge/collect.py RESULTS... (a later folder wins)
"""

import re
import sys
from dataclasses import asdict
from pathlib import Path

from cpulab import records

HERE = Path(__file__).parent


def scrubbed(data, folders):
    if isinstance(data, dict):
        return {key: scrubbed(value, folders) for key, value in data.items()}
    if isinstance(data, list):
        return [scrubbed(value, folders) for value in data]
    if isinstance(data, str):
        for folder in folders:
            data = data.replace(str(folder.resolve()), "results")
        return re.sub(r"/tmp/torchinductor_\w+", "/tmp/torchinductor_user", data)
    return data


folders = [Path(name) for name in sys.argv[1:]]
found = {path.relative_to(folder): path for folder in folders for path in sorted(folder.glob("*/*.json"))}
for name, path in found.items():
    record = scrubbed(asdict(records.load(path)), folders)
    if record["preset"] == "smoke":
        records.dump_data(HERE / name, "record", record | {"environment": "0" * 64})
