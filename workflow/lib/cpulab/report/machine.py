"""The fields of the host's fingerprint, as the page says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cpulab.report import quantities
from cpulab.report.views import label

if TYPE_CHECKING:
    from collections.abc import Mapping

LABELS = {
    "cpu_family_model_stepping": "CPU family, model, stepping",
    "flags": "All flags",
    "scaling_driver": "Frequency driver",
    "governor": "Frequency governor",
    "transparent_hugepages": "Transparent huge pages",
    "numa_balancing": "NUMA balancing",
    "memory_bytes": "Memory",
    "swap_bytes": "Swap",
    "clocksource": "Clock source",
    **{name: name for name in ("glibc", "libiomp5", "libjemalloc", "libnuma")},
}

# More lines than this are shown on demand.
LINES_AT_ONCE = 12


@dataclass(frozen=True)
class Field:
    """A field: its lines, or the reason why there are none."""

    label: str
    lines: list[str]
    reason: str | None

    @property
    def is_long(self) -> bool:
        """Whether it is better folded."""
        return len(self.lines) > LINES_AT_ONCE


def fields(host: Mapping[str, Mapping[str, Any]]) -> list[Field]:
    """Return what is said of each field, in the record's order."""
    return [
        Field(
            LABELS.get(name, label(name)),
            [] if field["value"] is None else _lines(name, field["value"]),
            field["reason"],
        )
        for name, field in host.items()
    ]


def _lines(name: str, value: Any) -> list[str]:
    match name, value:
        case "memory_bytes" | "swap_bytes", int():
            return [quantities.quantity(value, "byte") if value else "none"]
        case "turbo", bool():
            return ["on" if value else "off"]
        case "numa_balancing", int():
            return ["on" if value else "off"]
        case "vector_flags" | "scaling_driver" | "governor", list():
            return [", ".join(value)]
        case "caches", [{}, *_]:
            return [_cache(one) for one in value]
        case "frequency_limits", list():
            return [_frequency(one) for one in value]
        case "memory_modules", list():
            return [_modules(one) for one in value]
        case "smt", {"active": active, "control": control}:
            return [f"{ {True: 'on', False: 'off', None: 'not known'}[active] } (control: {control or 'none'})"]
        case "container_limits", {"cpu_quota": quota, "cpuset": cpuset, "memory_bytes": memory}:
            return [
                "CPU time: no limit" if quota is None else f"CPU time: {quota:g} CPUs",
                f"CPUs: {cpuset or 'no limit'}",
                f"memory: {'no limit' if memory is None else binary(memory)}",
            ]
        case "libiomp5" | "libjemalloc" | "libnuma", {"file": file, "package": package}:
            return [f"{file} of {package or 'no known package'}"]
        case _, []:
            return ["none"]
        case _, dict():
            return [f"{key}: {item}" for key, item in value.items()] or ["none"]
        case _, list():
            return [str(item) for item in value]
    return [str(value)]


def binary(size: int) -> str:
    """Return a size in bytes as memory is sold: 49152 is 48 KiB."""
    for unit, bytes_each in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= bytes_each:
            return f"{size / bytes_each:g}{quantities.NO_BREAK}{unit}"
    return f"{size}{quantities.NO_BREAK}B"


def _cache(one: Mapping[str, Any]) -> str:
    size = "size not known" if one["size_bytes"] is None else binary(one["size_bytes"])
    ways = "" if one["ways"] is None else f", {one['ways']} ways"
    line = "" if one["line_bytes"] is None else f", lines of {binary(one['line_bytes'])}"
    shared = one["shared_by_cpus"]
    among = "" if shared is None else f", {'for one CPU' if shared == 1 else f'shared by {shared} CPUs'}"
    return f"L{one['level']} {one['type']}: {size}{ways}{line}{among}"


def _frequency(one: Mapping[str, Any]) -> str:
    def gigahertz(low: int | None, high: int | None) -> str:
        ends = ["not known" if end is None else f"{end / 1e6:g}" for end in (low, high)]
        return f"{ends[0]} to {ends[1]}{quantities.NO_BREAK}GHz"

    base = "" if one["base_khz"] is None else f", base {one['base_khz'] / 1e6:g}{quantities.NO_BREAK}GHz"
    hardware = gigahertz(one["hardware_min_khz"], one["hardware_max_khz"])
    allowed = gigahertz(one["scaling_min_khz"], one["scaling_max_khz"])
    return f"CPUs {one['cpus']}: {allowed} allowed, {hardware} possible{base}"


def _modules(one: Mapping[str, Any]) -> str:
    size = "unknown size" if one["size_bytes"] is None else binary(one["size_bytes"])
    modules = "1 module" if one["count"] == 1 else f"{one['count']} modules"
    speeds = [
        f"{one[name] / 1e6:g}{quantities.NO_BREAK}MT/s {word}"
        for name, word in (("configured_transfers_per_s", "set"), ("rated_transfers_per_s", "possible"))
        if one[name] is not None
    ]
    return ", ".join([f"{modules} of {size}, {one['type'] or 'unknown type'}", *speeds])
