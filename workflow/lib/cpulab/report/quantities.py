"""Numbers as a reader wants them: a unit that fits, as many digits as are known, an interval beside the value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NO_BREAK = "\N{NO-BREAK SPACE}"
GROUP = "\N{NARROW NO-BREAK SPACE}"

# Base unit -> the units it is shown in, largest first, each with its size in base units.
SCALES = {
    "s": (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)),
    "Hz": (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)),
    "byte": (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)),
    "byte/s": (("GB/s", 1e9), ("MB/s", 1e6)),
    "flop": (("Gflop", 1e9), ("Mflop", 1e6), ("flop", 1.0)),
    "flop/s": (("Tflop/s", 1e12), ("Gflop/s", 1e9), ("Mflop/s", 1e6)),
}
# An upper end this many times the value says no more than that it is not known.
UNKNOWN = 100.0
# Units that are a word or nothing at all beside the number.
BARE = frozenset({None, "", "count", "ratio"})


def scale(value: float, unit: str | None) -> tuple[str, float]:
    """Return the unit in which ``value`` (in ``unit``) is best read, and that unit's size in ``unit``."""
    choices = SCALES.get(unit or "")
    if choices is None:
        return ("" if unit is None or unit in BARE else unit), 1.0
    for name, size in choices:
        if abs(value) >= size:
            return name, size
    return choices[-1] if value else choices[0]


def significant(value: float, digits: int = 3) -> str:
    """Return ``value`` with ``digits`` significant digits; the digits before the point are never rounded away."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    return fixed(value, max(0, digits - 1 - math.floor(math.log10(abs(rounded)))))


def fixed(value: float, decimals: int) -> str:
    """Return ``value`` with ``decimals`` decimals and its thousands apart (from five digits before the point)."""
    text = f"{value:.{decimals}f}"
    if abs(value) < 10_000:
        return text
    return f"{value:,.{decimals}f}".replace(",", GROUP)


def quantity(value: float, unit: str | None, digits: int = 3) -> str:
    """Return ``value`` with the unit that fits it: 0.00578 s is 5.78 ms."""
    if isinstance(value, int) and unit in BARE:
        return fixed(value, 0)
    name, size = scale(value, unit)
    return _with_unit(significant(value / size, digits), name)


def interval(value: float, low: float | None, high: float | None, unit: str | None) -> str:
    """Return ``value`` with its interval, in one unit and with as many decimals as the interval's width allows.

    1.2083, 1.1791, 1.2389 is 1.21 (1.18 to 1.24).
    """
    if low is None:
        return quantity(value, unit)
    name, size = scale(value, unit)
    if high is None or high > UNKNOWN * abs(value):  # two processes can leave the upper end unknown
        decimals = known_decimals(value / size, (value - low) / size)
        inner = f"{fixed(low / size, decimals)} or more"
    else:
        decimals = known_decimals(value / size, (high - low) / 2 / size)
        inner = f"{fixed(low / size, decimals)} to {fixed(high / size, decimals)}"
    return f"{_with_unit(fixed(value / size, decimals), name)} ({inner})"


def known_decimals(value: float, half_width: float) -> int:
    """Return the decimals that ``half_width`` leaves meaningful: its first digit, and its second where that is 1.

    Never so few that ``value`` keeps less than two significant digits, nor more than five of them.
    """
    if value == 0 or not math.isfinite(value):
        return 0
    leading = math.floor(math.log10(abs(value)))
    least, most = max(0, 1 - leading), max(0, 4 - leading)
    if half_width <= 0 or not math.isfinite(half_width):
        return min(most, max(least, 2 - leading))
    first = math.floor(math.log10(half_width))
    digits = -first + (1 if half_width / 10**first < 2 else 0)
    return min(most, max(least, digits))


def ranges(numbers: Iterable[int]) -> str:
    """Return CPU or node numbers the way numactl takes them: 0-3,8."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)


def _with_unit(number: str, unit: str) -> str:
    if unit == "%":
        return f"{number}{GROUP}%"
    return f"{number}{NO_BREAK}{unit}" if unit else number
