"""The container image, for real: who runs in it, what it keeps, what it says, and the smoke preset three ways.

`make test-image` builds the image and runs these. Nothing here has a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cpulab import claims, records
from cpulab.host import topology
from cpulab.host.plan import plan

PROJECT = Path(__file__).parents[2]
DOCKER = os.environ.get("DOCKER", "docker")
LAB = 1000
SYS_NICE = ["--cap-add", "SYS_NICE"]
DEBUGGING = ["D1", "D2", "D4", "D7", "D8", "L1", "L2", "C1", "C3", "C4", "C6", "A1", "A2", "M1", "M4", "M5"]

pytestmark = pytest.mark.image

Run = Callable[..., subprocess.CompletedProcess[str]]


def docker(*arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([DOCKER, *arguments], check=False, capture_output=True, text=True, timeout=timeout_s)
    print(f"$ docker {' '.join(arguments)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}[{done.returncode}]")
    return done


@pytest.fixture(scope="session")
def image_id() -> str:
    """Return docker's id of the image; `make image` builds it."""
    found = docker("image", "inspect", "-f", "{{.Id}}", "cpulab")
    assert found.returncode == 0, "run `make test-image`, which builds the image"
    return found.stdout.strip()


@pytest.fixture(scope="session")
def built(image_id: str) -> dict[str, Any]:
    """Return the image's own description."""
    return dict(json.loads(docker("run", "--rm", "--entrypoint", "cat", image_id, "/lab/image.json").stdout))


@pytest.fixture(scope="session")
def run(image_id: str) -> Run:
    """Return what runs the image as README.md says: options of docker, the results folder, arguments of the image."""

    def start(
        *arguments: str, options: list[str] | None = None, results: Path | None = None, timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        volume = ["-v", f"{results}:/lab/results"] if results else []
        fixed = ["--rm", "--network", "none", "-e", f"CPULAB_IMAGE_ID={image_id}"]
        return docker("run", *fixed, *(options or []), *volume, "cpulab", *arguments, timeout_s=timeout_s)

    return start


def as_root(image_id: str, folder: Path, command: str) -> None:
    """Run a shell command as root in a container in which ``folder`` is /folder: the caller may not be root."""
    volume = f"{folder}:/folder"
    done = docker(
        "run", "--rm", "--user", "0", "-v", volume, "-w", "/folder", "--entrypoint", "sh", image_id, "-c", command
    )
    assert done.returncode == 0


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in [folder, *folder.rglob("*")]}


# --- what is in the image ------------------------------------------------------------------------


def test_the_image_sets_no_preload_and_no_openmp_variable_and_is_labelled(image_id: str, built: dict[str, Any]) -> None:
    [about] = json.loads(docker("image", "inspect", image_id).stdout)
    names = {one.split("=")[0] for one in about["Config"]["Env"]}
    assert names == {"PATH", "HOME", "USER", "LANG"}
    labels = about["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "Inductor CPU Lab"
    assert labels["org.opencontainers.image.licenses"] == "BSD-3-Clause"
    assert labels["org.opencontainers.image.revision"] == (built["revision"] or "")


def test_nothing_of_the_builders_site_is_left_in_the_image(image_id: str) -> None:
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", image_id).stdout
    assert not re.search(r"https?://|find-links|index-url", history)
    leftovers = "ls -A /run/secrets /root/.cache /root/.config /tmp /var/lib/apt/lists /lab/envs/container/wheels 2>/dev/null | grep -v :"
    found = docker("run", "--rm", "--entrypoint", "sh", image_id, "-c", leftovers)
    assert found.stdout.split() == []


def test_no_file_of_the_project_can_be_written_by_who_runs_it(image_id: str) -> None:
    command = "find /lab -writable ! -type l ! -path '/lab/results*'"
    found = docker("run", "--rm", "--user", str(LAB), "--entrypoint", "sh", image_id, "-c", command)
    assert (found.returncode, found.stdout) == (0, "")


# --- who runs, and whose the results are ---------------------------------------------------------


def test_everything_runs_as_the_owner_of_the_results_folder(run: Run, image_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    as_root(image_id, folder, "chown 4321:4322 .")
    done = run("--cores", "1", "environment", options=SYS_NICE, results=folder)
    assert done.returncode == 0
    assert owners(folder) == {4321}


def test_no_process_of_a_container_is_roots(image_id: str) -> None:
    name = f"cpulab-{uuid.uuid4().hex}"
    assert docker("run", "--detach", "--network", "none", "--name", name, image_id, "cpulab", "doctor").returncode == 0
    try:
        users: dict[str, str] = {}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and "cpulab" not in users:
            time.sleep(0.5)
            lines = docker("top", name, "-eo", "uid,pid,comm").stdout.splitlines()[1:]
            users = {line.split()[2]: line.split()[0] for line in lines}
        assert {"tini", "cpulab"} <= users.keys()
        assert set(users.values()) == {str(LAB)}
    finally:
        docker("rm", "--force", name)


@pytest.mark.parametrize("options", [[], ["--user", "12345:54321"]])
def test_a_folder_that_cannot_be_written_is_said_in_two_sentences(
    run: Run, image_id: str, tmp_path: Path, options: list[str]
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    as_root(image_id, folder, "chown 0:0 . && touch somebodys && chmod 755 .")
    done = run("report", options=options, results=folder)
    assert done.returncode == 1
    user = options[1].split(":")[0] if options else str(LAB)
    assert done.stderr.startswith(
        f"error: The results folder belongs to user 0 and user {user} cannot write into it. Give"
    )
    assert f"chown -R {user} FOLDER" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["somebodys"]


def test_a_container_that_may_not_change_its_user_says_how_to_start_it(run: Run, tmp_path: Path) -> None:
    done = run("report", options=["--cap-drop", "ALL"], results=tmp_path / "results")
    assert done.returncode == 1
    assert done.stderr == (
        "error: This container runs as root and may not become another user. Start it with --user $(id -u):$(id -g).\n"
    )


def test_root_of_a_user_namespace_is_the_caller_and_stays_so(run: Run, image_id: str, tmp_path: Path) -> None:
    """What rootless docker and podman give: to become another user there would make files that are not the caller's."""
    folder = tmp_path / "results"
    folder.mkdir()
    as_root(image_id, folder, "chown 4321 .")
    inside = ["--user", "4321", "--security-opt", "seccomp=unconfined", "--entrypoint", "unshare"]
    as_if_root = ["--user", "--map-root-user"]
    if run(*as_if_root, "true", options=inside).returncode != 0:
        pytest.skip("this kernel lets no user make a namespace")
    entry = ["sh", "/lab/envs/container/entrypoint.sh", "--cores", "1", "report", "--dry-run", "--quiet=all"]
    assert run(*as_if_root, *entry, options=inside, results=folder).returncode == 0
    assert owners(folder) == {4321}


def test_any_user_may_run_it_on_a_read_only_file_system(run: Run, image_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    as_root(image_id, folder, "chown 12345:54321 .")
    options = [*SYS_NICE, "--user", "12345:54321", "--read-only", "--tmpfs", "/tmp"]  # noqa: S108 - the container's
    done = run("--cores", "1", "environment", options=options, results=folder)
    assert done.returncode == 0
    assert owners(folder) == {12345}


def test_without_a_results_folder_it_says_that_results_vanish(run: Run) -> None:
    done = run("--cores", "1", "report", "--dry-run", "--quiet=all")
    assert done.returncode == 0
    [note] = [line for line in done.stderr.splitlines() if line.startswith("note:")]
    assert "results go with the container" in note


# --- what it says --------------------------------------------------------------------------------


def test_the_doctor_answers_as_data_with_every_setting_in_force(run: Run) -> None:
    done = run("cpulab", "doctor", "--json", options=SYS_NICE)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ready"]) == (0, True)
    assert {row["name"]: row["state"] for row in found["settings"] if row["state"] != "in_force"} == {}


def test_an_environment_that_is_not_its_locks_is_refused_with_what_differs(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "cpu.lock"
    lock.write_text((PROJECT / "envs" / "cpu.lock").read_text().replace("sympy==", "sympy==999."))
    done = run("cpulab", "doctor", options=["-v", f"{lock}:/lab/envs/cpu.lock:ro"])
    assert done.returncode == 1
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert re.search(r"sympy [\d.]+ is installed, the lock has sympy==999\.", error)
    assert "make image" in error
    assert "Traceback" not in done.stderr


def test_a_changed_file_is_another_content_than_the_images(run: Run, built: dict[str, Any], tmp_path: Path) -> None:
    changed = tmp_path / "smoke.yaml"
    changed.write_text((PROJECT / "config" / "presets" / "smoke.yaml").read_text() + "# changed\n")
    options = ["-v", f"{changed}:/lab/config/presets/smoke.yaml:ro"]
    folder = tmp_path / "results"
    assert run("--cores", "1", "environment", options=options, results=folder).returncode == 0
    found = records.load_data(folder / "environment.json", "environment")["image"]
    assert found["content"] != built["content"]
    assert found["revision"] is None


# --- stopped and started again -------------------------------------------------------------------


def begun(image_id: str, folder: Path, *arguments: str) -> str:
    """Start a container on two debug cases, wait until the first has its record, and return the container's name."""
    name = f"cpulab-{uuid.uuid4().hex}"
    fixed = ["run", "--detach", "--name", name, "--network", "none", *SYS_NICE, "-v", f"{folder}:/lab/results"]
    assert docker(*fixed, image_id, *arguments).returncode == 0
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not list(folder.glob("debug/*.json")):
        time.sleep(0.5)
    time.sleep(2)
    return name


def test_docker_stop_ends_all_at_once_and_the_next_container_goes_on(run: Run, image_id: str, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    cases = [f"results/debug/program_{variant}.json" for variant in ("scalar", "vectorized")]
    wanted = ["--cores", "1", *cases, "--config", "preset=smoke"]
    name = begun(image_id, folder, *wanted)
    try:
        start = time.monotonic()
        assert docker("stop", name).returncode == 0
        assert time.monotonic() - start < 9, "docker had to kill it"
        state = docker("inspect", "-f", "{{.State.ExitCode}}", name).stdout.strip()
        assert state not in {"0", "137"}
    finally:
        docker("rm", "--force", name)
    [kept] = folder.glob("debug/*.json")
    assert records.load(kept).status == "ok"
    before = kept.stat().st_mtime_ns
    assert not list(folder.rglob(".*.json.*"))

    done = run(*wanted, options=SYS_NICE, results=folder)
    assert done.returncode == 0
    assert kept.stat().st_mtime_ns == before, "a finished case ran again"
    assert len([records.load(path) for path in folder.glob("debug/*.json")]) == 2


def test_after_a_kill_it_says_that_the_folder_is_locked_and_unlock_frees_it(
    run: Run, image_id: str, tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    wanted = ["--cores", "1", "results/debug/program_scalar.json", "--config", "preset=smoke"]
    name = f"cpulab-{uuid.uuid4().hex}"
    fixed = ["run", "--detach", "--rm", "--name", name, "--network", "none", "-v", f"{folder}:/lab/results"]
    assert docker(*fixed, image_id, *wanted).returncode == 0
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(folder.glob("logs/*.log")):
        time.sleep(0.5)
    assert docker("kill", name).returncode == 0
    time.sleep(1)
    locked = run("--cores", "1", "environment", results=folder)
    assert locked.returncode == 1
    assert "--unlock" in locked.stdout + locked.stderr
    assert run("--unlock", results=folder).returncode == 0
    assert run("--cores", "1", "environment", results=folder).returncode == 0


# --- as apptainer would call it ------------------------------------------------------------------

# Stands in for apptainer, which is not installed where this is tested: it takes the command line that Snakemake makes
# for it, and runs that in the same image by docker: the caller's user and folder, the image's own environment variables,
# no entrypoint. What it shows is that the image and the rules fit each other so; of apptainer itself it shows nothing.
STAND_IN = """#!/bin/sh
set -eu
if [ "$1" = --version ]; then echo "apptainer version 1.3.0"; exit; fi
[ "$1" = exec ] && [ "$2" = --home ]
home=$3
shift 3
while [ "$1" = --bind ]; do shift 2; done
[ "$1" = cpulab.sif ]
shift
shell=$1
shift
exec "$DOCKER" run --rm --network none --user "$(id -u):$(id -g)" -v "$home:$home" -w "$home" --entrypoint "$shell" cpulab "$@"
"""


def test_a_rule_runs_in_the_image_as_snakemake_asks_of_apptainer(built: dict[str, Any], tmp_path: Path) -> None:
    for name in ("config", "envs", "profiles", "report", "workflow"):
        shutil.copytree(PROJECT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.whl"))
    shutil.copy2(PROJECT / "Snakefile", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").write_text(STAND_IN)
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    # cpulab is in the image alone.
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--sdm", "apptainer", "--cores", "1", "environment"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path), "DOCKER": shutil.which(DOCKER) or DOCKER},
    )  # fmt: skip
    print(done.stdout[-2000:], done.stderr[-4000:])
    assert done.returncode == 0
    found = records.load_data(tmp_path / "results" / "environment.json", "environment")
    assert found["image"]["content"] == built["content"]
    assert found["python"] == "/lab/.venv-cpu/bin/python"


# --- the smoke preset, three ways ----------------------------------------------------------------

WAYS = {
    "with SYS_NICE": SYS_NICE,
    "without SYS_NICE": [],
    "on CPU 0 alone": [*SYS_NICE, "--cpuset-cpus", "0"],
}


class Smoke:
    """What the smoke preset left in a results folder that docker had to make."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.environment = records.load_data(results / "environment.json", "environment")
        self.claims = {one["id"]: one for one in json.loads((results / "verdicts.json").read_text())["claims"]}

    @property
    def not_in_force(self) -> dict[str, str]:
        """The state of each setting that is not in force."""
        rows = self.environment["settings"]
        return {row["name"]: row["state"] for row in rows if row["state"] != "in_force"}


@pytest.fixture(scope="session")
def smoke(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Smoke]:
    """Return what gives the results of one way to run it; each runs once."""
    ran: dict[str, Path] = {}

    def of(way: str) -> Smoke:
        if way not in ran:
            ran[way] = tmp_path_factory.mktemp("smoke") / "results"
            # Word for word the command in README.md, but for the preset.
            arguments = ["--cores", "32", "report", "--config", "preset=smoke"]
            done = run(*arguments, options=WAYS[way], results=ran[way], timeout_s=3000)
            assert done.returncode == 0
        return Smoke(ran[way])

    return of


@pytest.mark.parametrize("way", WAYS)
def test_every_claim_is_judged_and_the_debugging_findings_are_reproduced(
    smoke: Callable[[str], Smoke], way: str
) -> None:
    found = smoke(way).claims
    assert {name: one["reason"] for name, one in found.items() if one["state"] == "blocked"} == {}
    assert {name: found[name]["state"] for name in DEBUGGING} == dict.fromkeys(DEBUGGING, "reproduced")
    assert (smoke(way).results / "report.html").stat().st_size > 100_000


@pytest.mark.parametrize("way", WAYS)
def test_the_record_names_the_image_and_its_lock(
    smoke: Callable[[str], Smoke], way: str, image_id: str, built: dict[str, Any]
) -> None:
    environment = smoke(way).environment
    assert environment["image"] == {**built, "docker": image_id}
    assert environment["lock"]["path"] == "envs/cpu.lock"
    assert environment["lock"]["packages"] > 30


@pytest.mark.parametrize("way", WAYS)
def test_what_it_left_is_the_images_users_and_never_roots(smoke: Callable[[str], Smoke], way: str) -> None:
    assert owners(smoke(way).results) == {LAB}


def test_with_sys_nice_every_setting_is_in_force_on_the_cores_of_this_machine(smoke: Callable[[str], Smoke]) -> None:
    found = smoke("with SYS_NICE")
    assert found.not_in_force == {}
    here = plan(topology.read(), 32)
    assert found.environment["plan"]["cpus"] == here.cpus
    assert found.environment["plan"]["numactl"] == here.numactl
    assert {name: one["marks"] for name, one in found.claims.items() if one["marks"]} == {}


def test_without_sys_nice_the_memory_policy_is_named_impossible_and_marks_the_claims_that_need_it(
    smoke: Callable[[str], Smoke],
) -> None:
    found = smoke("without SYS_NICE")
    assert found.not_in_force == {"numactl -m": "impossible"}
    [row] = [row for row in found.environment["settings"] if row["name"] == "numactl -m"]
    assert "--cap-add SYS_NICE" in row["remedy"]
    registry = claims.load(PROJECT / "workflow" / "claims" / "inductor_debug_cpu.yaml")
    needing = {claim.id for claim in registry.claims if "numactl -m" in claim.needs}
    assert needing
    marked = {name for name, one in found.claims.items() if any("numactl -m" in mark for mark in one["marks"])}
    assert marked == needing


def test_with_a_cpuset_of_one_it_plans_and_binds_on_that_cpu_alone(smoke: Callable[[str], Smoke]) -> None:
    found = smoke("on CPU 0 alone")
    assert found.environment["plan"]["cpus"] == [0]
    assert found.environment["variables"]["OMP_NUM_THREADS"] == "1"
    assert found.not_in_force == {}
