"""What host this is, as far as it decides how fast code runs on it; no serial numbers, no host or user names."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from cpulab.host.kernel import fields, text


def fingerprint(root: Path = Path("/")) -> dict[str, Any]:
    """Return the host's fields below ``root``: each ``{"value": ..., "reason": why it is null, or null}``."""
    cpuinfo = text(root / "proc/cpuinfo") or ""
    first = fields(cpuinfo.split("\n\n")[0])
    memory = fields(text(root / "proc/meminfo") or "")
    flags = set(first.get("flags", first.get("Features", "")).split())
    cpu = "sys/devices/system/cpu"
    total = memory.get("MemTotal", "").split()
    caches = {}
    for folder in sorted((root / cpu / "cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        caches[f"L{level} {kind.lower()}"] = size
    found: dict[str, tuple[Any, str]] = {
        "cpu_model": (first.get("model name"), "/proc/cpuinfo has no model name"),
        "cpu_family_model_stepping": (
            "/".join(first[name] for name in ("cpu family", "model", "stepping")) if "stepping" in first else None,
            "/proc/cpuinfo has no family, model and stepping",
        ),
        "microcode": (first.get("microcode"), "/proc/cpuinfo has no microcode"),
        "vector_flags": (
            sorted(flag for flag in flags if flag.startswith(("avx", "amx", "sve", "asimd", "fma"))) or None,
            "/proc/cpuinfo has no vector flags",
        ),
        "caches": (caches or None, "sysfs has no cache folders for cpu0"),
        "governor": (text(root / f"{cpu}/cpu0/cpufreq/scaling_governor"), "no cpufreq: the host or hypervisor decides"),
        "smt": (text(root / f"{cpu}/smt/control"), "sysfs has no smt/control"),
        "transparent_hugepages": (text(root / "sys/kernel/mm/transparent_hugepage/enabled"), "sysfs does not say"),
        "numa_balancing": (text(root / "proc/sys/kernel/numa_balancing"), "the kernel has no numa_balancing"),
        "memory_bytes": (int(total[0]) * 1024 if total else None, "/proc/meminfo has no MemTotal"),
        "hypervisor": ("hypervisor" in flags, ""),
        "kernel": (platform.release(), ""),
        "architecture": (platform.machine(), ""),
    }
    return {name: {"value": value, "reason": why if value is None else None} for name, (value, why) in found.items()}
