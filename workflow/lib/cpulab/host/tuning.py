"""The tuned environment as data: each variable, its value, and who asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from cpulab.host.plan import Plan

# What the tutorial's MALLOC_CONF asks for, option by option, and what jemalloc 5.3 reports for each when it is in
# force: it rounds an oversize_threshold below its smallest large size down to 0, the meaning of which is the same.
MALLOC_OPTIONS = {
    "oversize_threshold": ("1", "0"),
    "background_thread": ("true", "true"),
    "metadata_thp": ("auto", "auto"),
    "dirty_decay_ms": ("-1", "-1"),
    "muzzy_decay_ms": ("-1", "-1"),
}


@dataclass(frozen=True)
class Setting:
    """One variable of the tuned environment; ``asked_by`` is "tutorial" or "suite"."""

    name: str
    value: str
    asked_by: str
    why: str


def tuning(plan: Plan, libiomp5: Path, jemalloc: Path) -> list[Setting]:
    """Return the settings for a plan, with the libraries found on this machine."""
    malloc_conf = ",".join(f"{name}:{value}" for name, (value, _) in MALLOC_OPTIONS.items())
    return [
        Setting("KMP_BLOCKTIME", "1", "tutorial", "a thread that waits goes to sleep after 1 ms"),
        Setting("KMP_SETTINGS", "1", "tutorial", "the OpenMP runtime prints the settings it took"),
        Setting("KMP_AFFINITY", "granularity=fine,compact,1,0", "tutorial", "one thread a core, neighbours close"),
        Setting("LD_PRELOAD", f"{libiomp5}:{jemalloc}", "tutorial", "Intel's OpenMP runtime and jemalloc"),
        Setting("MALLOC_CONF", malloc_conf, "tutorial", "freed memory is kept and reused"),
        Setting("OMP_NUM_THREADS", str(len(plan.cpus)), "suite", "Snakemake sets its own value in every shell"),
    ]


def proven_isa(facts: Mapping[str, Any]) -> list[Setting]:
    """Return the setting that spares every process the trial of each instruction set, where the probe found all usable.

    Without it each process loads a library for each to find out again; the choice is the same.
    """
    if not facts["isa_offered"] or facts["isa_usable"] != facts["isa_offered"]:
        return []
    why = f"the probe has built and loaded code for each of: {', '.join(facts['isa_offered'])}"
    return [Setting("TORCHINDUCTOR_VEC_ISA_OK", "1", "suite", why)]
