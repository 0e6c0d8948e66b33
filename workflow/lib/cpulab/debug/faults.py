"""Which faults can be put into Inductor's C++ code generators, and the variables that carry one along."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cpulab.errors import UnknownFault, UnknownOverride
from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What a process reads at its start; see `cpulab.debug.injection`.
FAULT_VARIABLE = "CPULAB_FAULT"
SIMDLEN_VARIABLE = "CPULAB_SIMDLEN"

HOOK = Path(__file__).resolve().parent / "hook"

# Inductor generates C++ for one element (scalar) and for a vector of elements in two classes of one module,
# torch._inductor.codegen.cpp.
OVERRIDES = {"scalar": "CppOverrides", "vector": "CppVecOverrides"}

Variant = Literal["scalar", "vectorized"]


@dataclass(frozen=True)
class Fault:
    """One wrong code generator of one op.

    ``generators``: override ("scalar" or "vector") -> what stands in for the generator there; it takes the C++
    expression of the operand and returns that of the result.
    """

    name: str
    breaks: str
    op: str
    generators: Mapping[str, Callable[[str], str]]


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            name="neg_without_cast",
            breaks="neg's result is not cast back to its operand's type, so C++ promotes uint8 to int",
            op="neg",
            generators={"scalar": lambda x: f"-{x}", "vector": lambda x: f"-{x}"},
        ),
        Fault(
            name="neg_doubled",
            breaks="neg gives twice its operand",
            op="neg",
            generators={
                "scalar": lambda x: f"decltype({x})(2 * {x})",
                "vector": lambda x: f"decltype({x})(2 * {x})",
            },
        ),
        Fault(
            name="neg_added_to_itself",
            breaks="neg gives its operand added to itself, which is valid C++ for vectors too",
            op="neg",
            generators={
                "scalar": lambda x: f"decltype({x})({x} + {x})",
                "vector": lambda x: f"({x} + {x})",
            },
        ),
    )
}


def find(fault: str, override: str) -> Fault:
    """Return the fault called ``fault`` that breaks ``override`` ("scalar" or "vector").

    Raises:
        UnknownFault: there is none of this name.
        UnknownOverride: the fault has no generator for ``override``.

    """
    if fault not in FAULTS:
        raise UnknownFault(fault, FAULTS)
    found = FAULTS[fault]
    if override not in found.generators:
        raise UnknownOverride(fault, override, found.generators)
    return found


def parse(setting: str) -> tuple[Fault, str]:
    """Return the fault and the override that CPULAB_FAULT (``name:override``) asks for. Raises as `find`."""
    name, _, override = setting.partition(":")
    return find(name, override), override


def variables(fault: str, override: str) -> dict[str, str]:
    """Return the variables that inject ``fault`` into a process and all its children. Raises as `find`."""
    find(fault, override)
    return {FAULT_VARIABLE: f"{fault}:{override}", **_hooked()}


def variant_variables(variant: Variant) -> dict[str, str]:
    """Return the variables that make a process and all its children generate ``variant`` code.

    "scalar" is what the tutorial saw (torch._inductor.config.cpp.simdlen = 1); "vectorized" is today's default.
    """
    return {SIMDLEN_VARIABLE: "1", **_hooked()} if variant == "scalar" else {}


def _hooked() -> dict[str, str]:
    # Absolute: children run in other working directories. The hook first: the first sitecustomize found wins.
    return {"PYTHONPATH": os.pathsep.join([str(HOOK), str(LIBRARY)])}
