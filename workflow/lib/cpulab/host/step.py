"""The environment step: build, plan, tune, launch a probe, and write down what was in force."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cpulab.errors import EnvironmentNotBuilt, ProcessFailed
from cpulab.files import sha256
from cpulab.host import binding, libraries, settings, topology
from cpulab.host.build import BUILD_S, build, is_built, lock_of, pins
from cpulab.host.fingerprint import fingerprint
from cpulab.host.image import image
from cpulab.host.launch import isa_trials, load_environment, run_measured
from cpulab.host.plan import plan
from cpulab.host.preflight import watch
from cpulab.host.tuning import Setting, proven_isa, tuning
from cpulab.paths import PROJECT
from cpulab.records import SCHEMA_VERSION, dump_data

if TYPE_CHECKING:
    from pathlib import Path

    from cpulab.progress import Reporter

PROBE_S = 15


def expected_s(environment: Path, lock: Path) -> float:
    """Return about how long the step takes, in seconds."""
    return PROBE_S if is_built(environment, lock) else BUILD_S + PROBE_S


def observe_environment(
    *, environment: Path, lock: Path, cores: int, output: Path, reporter: Reporter
) -> dict[str, Any]:
    """Build the measured environment, probe it under the launcher, and write the environment record to ``output``.

    Returns what it wrote.

    Raises:
        MissingLibrary, MissingProgram: the tuned environment cannot be had on this machine as it is.
        EnvironmentNotBuilt: its packages could not be installed.
        BindingRefused: the kernel refuses the planned binding.
        ProcessFailed: the probe failed.

    """
    output.unlink(missing_ok=True)
    compiler = libraries.find_compiler(os.environ)
    binding.check_available()
    folders = libraries.folders(environment, os.environ)
    jemalloc = libraries.find("libjemalloc", folders)
    python = build(environment, lock, reporter)
    checked = lock_of(environment, lock) or lock
    libiomp5 = libraries.find("libiomp5", folders)
    libnuma = next((one for folder in folders if (one := folder / "libnuma.so.1").is_file()), None)

    machine = topology.read()
    # Before this process tries to bind its memory, after which libnuma tells of the bound nodes alone.
    told = machine.record(binding.view())
    chosen = plan(machine, cores)
    wanted = tuning(chosen, libiomp5, jemalloc)
    refused = binding.memory_refusal(chosen.memory_nodes)
    if refused is not None:
        chosen.reasons.append(f"{refused['reason']}: {refused['remedy']}")
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": str(python),
        "lock": {
            "path": checked.relative_to(PROJECT).as_posix(),
            "sha256": sha256(checked),
            "packages": len(pins(checked)),
        },
        "image": image(PROJECT, os.environ),
        **_tuned(wanted),
        "plan": {"cores_asked": cores, **asdict(chosen), "memory_refused": refused, "numactl": chosen.numactl},
        "topology": told,
        "host": fingerprint(libraries={"libiomp5": libiomp5, "libjemalloc": jemalloc, "libnuma": libnuma}),
        "preflight": [asdict(one) for one in watch(machine, chosen.cpus, cores)],
        "compiler": {"path": str(compiler), "version": _first_line([str(compiler), "--version"])},
        "versions": {},
        "facts": {},
        "settings": [],
    }

    reporter.note("\n".join(chosen.reasons))
    reporter.stage("probing a process under the tuned environment")
    draft = output.with_name(f".{output.name}.probe")
    try:
        dump_data(draft, "environment", record)
        probe = load_environment(draft)
        completed = run_measured(
            probe,
            ["python", "-m", "cpulab.host.attest", "--build"],
            variables={"TORCHINDUCTOR_CACHE_DIR": str(isa_trials(output))},
            timeout_s=300,
        )
    finally:
        draft.unlink(missing_ok=True)
    reporter.note(f"$ {' '.join(completed.command)}\n{completed.stdout}\n{completed.stderr}")
    if completed.returncode != 0:
        raise ProcessFailed("The probe of the measured environment", completed.ending, reporter.log)
    # libiomp5 prints its settings on stdout or stderr, by version; the facts are the last line.
    facts = json.loads(completed.stdout.strip().splitlines()[-1])
    effective = settings.effective_kmp(completed.stderr + completed.stdout)
    record |= _tuned([*wanted, *proven_isa(facts)])
    record["versions"] = facts.pop("versions")
    record["facts"] = {**facts, "kmp_effective": effective}
    record["settings"] = settings.compare(facts, effective, probe)
    if len(machine.nodes) == 1:
        settings.add_note(record["settings"], "numactl -m", "this machine has one memory node, so it changes nothing")
    dump_data(output, "environment", record)
    missing = settings.named(record["settings"], "not_in_force")
    reporter.stage("every setting in force that can be" if not missing else f"not in force: {', '.join(missing)}")
    return record


def _tuned(wanted: list[Setting]) -> dict[str, Any]:
    return {"variables": {one.name: one.value for one in wanted}, "tuning": [asdict(one) for one in wanted]}


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise EnvironmentNotBuilt(PROJECT, f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout.splitlines()[0]
