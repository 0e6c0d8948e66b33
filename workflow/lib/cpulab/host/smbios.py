"""The memory modules, as the firmware's SMBIOS table lists them; of its strings none is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = 4
MEMORY_DEVICE, END_OF_TABLE = 17, 127

# Values of 7.18 that send the reader to a wider field, and the one that says nothing.
TOO_LARGE, TOO_FAST, UNKNOWN_SIZE = 0x7FFF, 0xFFFF, 0xFFFF

# DSP0134 3.7.0, 7.18.2: the memory types that a machine of today has.
TYPES = {
    0x12: "DDR", 0x13: "DDR2", 0x18: "DDR3", 0x1A: "DDR4", 0x1B: "LPDDR", 0x1C: "LPDDR2", 0x1D: "LPDDR3",
    0x1E: "LPDDR4", 0x20: "HBM", 0x21: "HBM2", 0x22: "DDR5", 0x23: "LPDDR5", 0x24: "HBM3",
}  # fmt: skip


@dataclass(frozen=True)
class Module:
    """A memory module: bytes, and transfers a second that it can do and that it is set to; None: not said."""

    size_bytes: int | None
    type: str | None
    rated_transfers_per_s: int | None
    configured_transfers_per_s: int | None


def memory_modules(table: bytes) -> Counter[Module]:
    """Return the modules of a table as /sys/firmware/dmi/tables/DMI holds it, with how many there are of each.

    Format: DMTF DSP0134, System Management BIOS Reference Specification 3.7.0, 6.1.2 (a structure is a header, its
    formatted part, then strings that end with two null bytes) and 7.18 (Memory Device). An empty socket is no module; a
    table that is cut short gives what stands before the cut.
    """
    return Counter(
        module for kind, formatted in _structures(table) if kind == MEMORY_DEVICE and (module := _module(formatted))
    )


def _structures(table: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + HEADER <= len(table):
        kind, length = table[start], table[start + 1]
        strings = table.find(b"\0\0", start + length)
        if kind == END_OF_TABLE or length < HEADER or strings < 0:
            return
        yield kind, table[start : start + length]
        start = strings + 2


def _module(formatted: bytes) -> Module | None:
    def field(offset: int, width: int) -> int:
        # An older table has a shorter structure, which says nothing of the later fields: as the value 0 does.
        return int.from_bytes(formatted[offset : offset + width].ljust(width, b"\0"), "little")

    def speed(offset: int, extended: int) -> int | None:
        found = field(offset, 2)
        return (field(extended, 4) & 0x7FFFFFFF if found == TOO_FAST else found) * 1_000_000 or None

    size = field(0x0C, 2)
    if size == 0:
        return None
    if size == TOO_LARGE:
        size_bytes: int | None = (field(0x1C, 4) & 0x7FFFFFFF) * 2**20
    elif size == UNKNOWN_SIZE:
        size_bytes = None
    else:
        size_bytes = (size & 0x7FFF) * (2**10 if size & 0x8000 else 2**20)
    return Module(size_bytes, TYPES.get(field(0x12, 1)), speed(0x15, 0x54), speed(0x20, 0x58))
