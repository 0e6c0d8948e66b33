"""The page says every field of the fingerprint in words, and of an unreadable one why."""

from __future__ import annotations

from typing import Any

import pytest

from cpulab.host.fingerprint import fingerprint
from cpulab.report.machine import binary, fields


def lines(name: str, value: Any) -> list[str]:
    return [
        line.replace("\N{NO-BREAK SPACE}", " ") for line in fields({name: {"value": value, "reason": None}})[0].lines
    ]


def test_this_machines_fields_have_each_its_own_label_and_either_lines_or_a_reason() -> None:
    host = fingerprint()
    shown = fields(host)
    assert len({one.label for one in shown}) == len(host)
    assert all(bool(one.lines) != (one.reason is not None) for one in shown)


def test_a_field_that_cannot_be_read_keeps_its_reason() -> None:
    field = fields({"turbo": {"value": None, "reason": "sysfs does not say"}})[0]
    assert (field.label, field.lines, field.reason) == ("Turbo", [], "sysfs does not say")


CACHE = {"level": 2, "type": "unified", "size_bytes": 1310720, "ways": 20, "line_bytes": 64, "shared_by_cpus": 2}
LIMITS = {
    "cpus": "0-63", "hardware_min_khz": 800000, "hardware_max_khz": 3400000, "scaling_min_khz": 800000,
    "scaling_max_khz": 2600000, "base_khz": 2600000,
}  # fmt: skip
MODULES = {
    "count": 8, "size_bytes": 34359738368, "type": "DDR4", "rated_transfers_per_s": 3_200_000_000,
    "configured_transfers_per_s": 2_933_000_000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("caches", [CACHE], ["L2 unified: 1.25 MiB, 20 ways, lines of 64 B, shared by 2 CPUs"]),
        ("caches", [{**dict.fromkeys(CACHE), "level": 1, "type": "data"}], ["L1 data: size not known"]),
        ("frequency_limits", [LIMITS], ["CPUs 0-63: 0.8 to 2.6 GHz allowed, 0.8 to 3.4 GHz possible, base 2.6 GHz"]),
        ("memory_modules", [MODULES], ["8 modules of 32 GiB, DDR4, 2933 MT/s set, 3200 MT/s possible"]),
        (
            "memory_modules",
            [{**dict.fromkeys(MODULES), "count": 1}],
            ["1 module of unknown size, unknown type"],
        ),
        ("smt", {"active": True, "control": "on"}, ["on (control: on)"]),
        ("turbo", False, ["off"]),
        ("numa_balancing", 0, ["off"]),
        ("swap_bytes", 0, ["none"]),
        ("mitigations", {}, ["none"]),
        ("mitigations", {"meltdown": "Mitigation: PTI"}, ["meltdown: Mitigation: PTI"]),
        ("kernel_parameters", [], ["none"]),
        ("kernel_parameters", ["nosmt", "mitigations=off"], ["nosmt", "mitigations=off"]),
        (
            "container_limits",
            {"cpu_quota": 2.5, "cpuset": None, "memory_bytes": 8 * 2**30},
            ["CPU time: 2.5 CPUs", "CPUs: no limit", "memory: 8 GiB"],
        ),
        (
            "libnuma",
            {"file": "libnuma.so.1.0.0", "package": "libnuma1 2.0.16-1"},
            ["libnuma.so.1.0.0 of libnuma1 2.0.16-1"],
        ),
    ],
)
def test_a_field_is_said_in_words(name: str, value: Any, said: list[str]) -> None:
    assert lines(name, value) == said


def test_only_a_long_list_is_folded() -> None:
    flags = [f"flag{number}" for number in range(100)]
    shown = fields({name: {"value": flags, "reason": None} for name in ("flags", "vector_flags")})
    assert [one.is_long for one in shown] == [True, False]


def test_a_size_is_said_as_memory_is_sold() -> None:
    assert [binary(size).replace("\N{NO-BREAK SPACE}", " ") for size in (64, 49152, 314572800)] == [
        "64 B",
        "48 KiB",
        "300 MiB",
    ]
