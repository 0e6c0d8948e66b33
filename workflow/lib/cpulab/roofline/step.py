"""The cases of the roofline step: this machine's roofs, the fused pattern under them, packed against plain linear."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.host.kernel import kib_fields, memory_limit, number, text
from cpulab.measure.process import model_subject, observed, sample
from cpulab.records import load_data
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cpulab.step import Bench

# STREAM asks for arrays of four times the caches that they go through, so that next to nothing is found in them.
TIMES_CACHE = 4

# Taken for the caches where the machine does not tell them; the record says so.
UNKNOWN_CACHE = 64 * 2**20

# The three arrays take this share of the memory that is available, or that a cgroup grants, at most.
MEMORY_SHARE = 0.5

# CPU flags that say that it multiplies bfloat16 itself (x86: AVX-512 or AMX; Arm).
BFLOAT16 = frozenset({"avx512_bf16", "amx_bf16", "bf16"})

PATTERN_ARMS = ("eager", "preallocated", "inductor", "placebo", "copy", "triad")


def last_level_cache(cpus: Sequence[int], root: Path = Path("/")) -> int | None:
    """Return the bytes of all last-level caches that these CPUs use, each counted once; None where it is not told.

    Source: Documentation/ABI/testing/sysfs-devices-system-cpu, cache/index*.
    """
    sizes: dict[str, int] = {}
    for cpu in cpus:
        folders = list((root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"))
        last = max(folders, key=lambda folder: number(folder / "level") or 0, default=None)
        size = re.fullmatch(r"(\d+)([KM]?)", text(last / "size") or "") if last else None
        if last is None or size is None:
            return None
        shared = text(last / "shared_cpu_list") or str(cpu)
        sizes[shared] = int(size[1]) * {"": 1, "K": 2**10, "M": 2**20}[size[2]]
    return sum(sizes.values()) or None


def array_bytes(cache_bytes: int | None, root: Path = Path("/")) -> int:
    """Return the bytes of an array: four times the caches, and no more than three of them have room for."""
    available = kib_fields(text(root / "proc/meminfo") or "").get("MemAvailable")
    limits = [int(MEMORY_SHARE * one / 3) for one in (available, memory_limit(root)) if one is not None]
    return min([TIMES_CACHE * (cache_bytes or UNKNOWN_CACHE), *limits])


def _machine(bench: Bench) -> Observed:
    host = load_data(bench.environment.path, "environment")["host"]
    flags = (host.get("vector_flags") or {}).get("value") or []
    kernels = ["copy", "triad", "matmul_float32", *(["matmul_bfloat16"] if BFLOAT16 & set(flags) else [])]
    arms = [*kernels, *[f"{kernel}_one" for kernel in kernels]]
    cache = last_level_cache(bench.environment.cpus)
    subject = {
        "kind": "machine",
        "arms": arms,
        "array_bytes": array_bytes(cache),
        "library": str(bench.scratch.resolve()),
        "seed": bench.seed,
    }
    found = _sampled(bench, "machine", subject, arms, ("copy", "triad"))
    found.observations["last_level_cache_bytes"] = cache
    return found


def _pattern(bench: Bench) -> Observed:
    subject = {"kind": "pattern", "library": str(bench.scratch.resolve()), "seed": bench.seed}
    return _sampled(bench, "pattern", subject, PATTERN_ARMS, ("eager", "inductor"))


def _linear(bench: Bench) -> Observed:
    bench.reporter.stage("calling the model once for the shapes of its linear layers")
    model = bench.worker("cpulab.roofline.worker", model_subject(bench, "eager"), variables={"HF_HUB_OFFLINE": "1"})
    layers = [_named(layer, model["packing"]) for layer in model["layers"]]
    found = Observed()
    if layers and model["packing"]:
        subject = {"kind": "linear", "layers": layers, "packing": model["packing"], "seed": bench.seed}
        arms = [layer[arm] for layer in layers for arm in ("plain", "packed", "placebo")]
        found = _sampled(bench, "linear", subject, arms, (layers[0]["plain"], layers[0]["packed"]))
    found.observations |= {**model["facts"], "packing": model["packing"], "linear_layers": layers}
    return found


def _named(layer: Mapping[str, Any], packing: str | None) -> dict[str, Any]:
    """Return a layer with the names of its arms; there is no packed one where nothing packs."""
    shape = f"{layer['rows']}x{layer['in_features']}x{layer['out_features']}{'' if layer['bias'] else '_without_bias'}"
    names = {arm: f"{arm}_{shape}" if packing else None for arm in ("plain", "packed", "placebo")}
    return {"shape": shape, **layer, **names}


def _sampled(
    bench: Bench, case: str, subject: Mapping[str, Any], arms: Sequence[str], over: tuple[str, str]
) -> Observed:
    processes, reason = sample(
        bench, getattr(bench.preset.roofline, case), subject, freezing=False, arms=arms, over=over
    )
    return observed(processes, reason, arms)


CASES = {
    "machine": Case("default", lambda preset: preset.roofline.machine.budget_s, _machine),
    "pattern": Case("default", lambda preset: preset.roofline.pattern.budget_s, _pattern),
    "linear": Case("default", lambda preset: preset.roofline.linear.budget_s, _linear),
}
