"""The whole suite, for real, with the smoke preset: interrupted once, resumed, and asked again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import hearing_ctrl_c

PROJECT = Path(__file__).parents[2]
# Every row of the tutorial's claims.
CLAIMS = [
    *(f"D{number}" for number in range(1, 9)), "L1", "L2", *(f"C{number}" for number in range(1, 7)), "A1", "A2",
    *(f"M{number}" for number in range(1, 6)), "E1", "E2", *(f"B{number}" for number in range(1, 5)),
    *(f"P{number}" for number in range(1, 9)), *(f"K{number}" for number in range(1, 5)),
]  # fmt: skip

pytestmark = [pytest.mark.e2e, pytest.mark.torch]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", *arguments, "--config", "preset=smoke"]


def variables() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*arguments), cwd=folder, check=False, capture_output=True, text=True, env=variables())
    print(done.stdout[-4000:], done.stderr[-4000:])
    return done


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, environment: Path) -> Path:
    """Return a copy of this checkout's own files, without results, in which the smoke preset has run."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (PROJECT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, folder / name)

    # Ctrl-C while a step runs: the terminal signals the whole foreground group.
    first = subprocess.Popen(
        hearing_ctrl_c(command("report")), cwd=folder, start_new_session=True, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=variables(),
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not list(folder.glob("results/debug/*.json")):
        time.sleep(0.5)
    time.sleep(2)
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait(timeout=60) != 0
    kept = sorted(folder.glob("results/*/*.json"))
    assert kept, "nothing was kept of the interrupted run"

    start = time.monotonic()
    done = run(folder, "report")
    assert done.returncode == 0
    print(f"resumed run: {time.monotonic() - start:.0f} s")
    assert all(path.stat().st_mtime < time.time() - (time.monotonic() - start) for path in kept), (
        "a kept step ran again"
    )
    return folder


def verdicts(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "results" / "verdicts.json").read_text()))


def test_every_claim_has_a_verdict_and_none_is_blocked(checkout: Path) -> None:
    claims = verdicts(checkout)["claims"]
    assert [claim["id"] for claim in claims] == CLAIMS
    assert {claim["id"]: claim["reason"] for claim in claims if claim["state"] == "blocked"} == {}


def test_a_debugging_finding_does_not_depend_on_the_size_and_is_reproduced(checkout: Path) -> None:
    states = {one["id"]: one["state"] for one in verdicts(checkout)["claims"]}
    reproduced = ["D1", "D2", "D4", "D7", "D8", "L1", "L2", "C1", "C3", "C4", "C6", "A1", "A2", "M1", "M4", "M5"]
    assert {claim: states[claim] for claim in reproduced} == dict.fromkeys(reproduced, "reproduced")


def test_the_report_names_its_preset_and_every_claim_and_loads_nothing_from_a_network(checkout: Path) -> None:
    page = (checkout / "results" / "report.html").read_text()
    assert "smoke" in page
    assert all(f">{claim}<" in page for claim in CLAIMS)
    assert re.findall(r"""<(?:link|script|img|iframe)[^>]+(?:href|src)=.?https?:|@import|url\(.?https?:""", page) == []


def test_asked_again_nothing_is_to_be_done(checkout: Path) -> None:
    start = time.monotonic()
    done = run(checkout, "report")
    assert "Nothing to be done" in done.stdout + done.stderr
    assert time.monotonic() - start < 30  # 5 s on a quiet machine


def planned(folder: Path) -> set[str]:
    done = run(folder, "report", "--dry-run", "--quiet=rules")
    words = [line.split() for line in (done.stdout + done.stderr).splitlines()]
    return {line[0] for line in words if len(line) == 2 and line[1].isdigit()} - {"total"}


def test_an_edited_template_is_rendered_again_and_nothing_is_measured(checkout: Path) -> None:
    template = checkout / "report" / "templates" / "outcome.html.j2"
    template.write_text(template.read_text() + "{# edited #}\n")
    assert planned(checkout) == {"report"}


def test_a_record_edited_by_hand_stops_the_judge(checkout: Path) -> None:
    record = checkout / "results" / "debug" / "program_scalar.json"
    whole = record.read_text()
    record.write_text(whole.replace('"preset": "smoke"', '"preset": "tutorial"'))
    try:
        done = run(checkout, "report")
        assert done.returncode != 0
        assert "program_scalar.json cannot be trusted" in done.stdout + done.stderr
        assert not (checkout / "results" / "report.html.tmp").exists()
    finally:
        record.write_text(whole)


def test_nothing_that_the_steps_needed_only_while_they_ran_is_left(checkout: Path) -> None:
    assert list((checkout / "results").glob("scratch/*/*")) == []
