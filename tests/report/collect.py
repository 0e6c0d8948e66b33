"""Makes tests/data/report/results from real results folders; see README.md."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cpulab import records
from cpulab.judge import judge_files
from cpulab.paths import PROJECT

CLAIMS = PROJECT / "workflow" / "claims" / "inductor_debug_cpu.yaml"
FIXTURE = PROJECT / "tests" / "data" / "report" / "results"


def collect(folders: list[Path], fixture: Path = FIXTURE) -> None:
    """Copy every record found in ``folders`` (a later one of the same name wins), as if of one run, and judge them."""
    shutil.rmtree(fixture, ignore_errors=True)
    environment = scrubbed(records.load_data(PROJECT / "results" / "environment.json", "environment"), folders)
    records.dump_data(fixture / "environment.json", "environment", environment)
    digest = records.digest(environment)
    found = {path.relative_to(folder): path for folder in folders for path in sorted(folder.glob("*/*.json"))}
    for name, path in sorted(found.items()):
        record = scrubbed(asdict(records.load(path)), folders)
        records.dump_data(fixture / name, "record", {**record, "environment": digest})
    judge_files(CLAIMS, fixture / "environment.json", sorted(fixture.glob("*/*.json")), fixture / "verdicts.json")


def scrubbed(data: Any, folders: list[Path]) -> Any:
    """Take this machine's folders out of every text."""
    if isinstance(data, dict):
        return {key: scrubbed(value, folders) for key, value in data.items()}
    if isinstance(data, list):
        return [scrubbed(value, folders) for value in data]
    if isinstance(data, str):
        for folder in folders:
            data = data.replace(str(folder.resolve()), "results")
        return re.sub(r"torchinductor_\w+", "torchinductor_user", data.replace(f"{PROJECT}/", ""))
    return data


if __name__ == "__main__":
    collect([Path(folder) for folder in sys.argv[1:]])
