"""Which faults can be put into Inductor's C++ code generators, and the variables that carry one along."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cpulab.errors import UnknownFault, UnknownOverride
from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What a process reads at its start; see `cpulab.debug.injection`.
FAULT_VARIABLE = "CPULAB_FAULT"
SIMDLEN_VARIABLE = "CPULAB_SIMDLEN"

HOOK = Path(__file__).resolve().parent / "hook"
# A case file: `Fault.program` names a function in it.
PROGRAMS = Path(__file__).resolve().parent / "fault_programs.py"

# Inductor generates C++ for one element (scalar) and for a vector of elements, each by classes of its own in
# torch._inductor.codegen.cpp. "both" asks for all that a fault has.
OVERRIDES = ("scalar", "vector")
BOTH = "both"

Variant = Literal["scalar", "vectorized"]
Effect = Literal["compile", "accuracy"]


@dataclass(frozen=True)
class Generator:
    """One wrong code generator: the function ``place`` ("Class.function") of torch._inductor.codegen.cpp.

    ``gives``: from what the healthy generator gave and from its operands, what the wrong one gives; None for what it
    gives right. ``breaks``: what the program that shows the fault does then; None: it compiles and is right.
    """

    place: str
    gives: Callable[..., Any]
    breaks: Effect | None


@dataclass(frozen=True)
class Fault:
    """One fault: ``what`` is wrong, in words, and a wrong code generator for each override that has it.

    ``op``: the op that is to be named for it; ``dtype``: the one type of operand that it breaks, None when it breaks
    more; ``program``: the function in fault_programs.py that shows it.
    """

    name: str
    what: str
    op: str
    program: str
    generators: Mapping[str, Generator]
    dtype: str | None = None

    def chosen(self, override: str) -> list[Generator]:
        """Return the generators of ``override``: "scalar", "vector" or "both".

        Raises:
            UnknownOverride: the fault has none there.

        """
        if override == BOTH:
            return [*self.generators.values()]
        if override not in self.generators:
            raise UnknownOverride(self.name, override, [*self.generators, BOTH])
        return [self.generators[override]]

    @property
    def places(self) -> list[str]:
        """The functions that it breaks, in either override."""
        return [generator.place for generator in self.generators.values()]


def _sigmoid(_healthy: str, x: object) -> str:
    one = f"decltype({x})(1)"
    return f"{one} / (decltype({x})(1.001) + ({one} / {x}.exp()))"


def _sigmoid_scalar(_healthy: str, x: object) -> str:
    return f"decltype({x})(1) / (decltype({x})(1.001) + std::exp(-{x}))"


def _maximum_loses_nan(_healthy: str, a: Any, b: Any) -> str | None:
    # Nothing is greater than what is not a number, and so the first operand is taken.
    chosen = f"decltype({a})::blendv({a}, {b}, {b} > {a})"
    return chosen if a.dtype is not None and a.dtype.is_floating_point else None


def _low_half(_healthy: str, a: Any, b: Any) -> str | None:
    mask = f"decltype({a})(static_cast<int64_t>(0xffffffff))"
    return f"decltype({a})({a} * {b} & {mask})" if str(a.dtype) == "torch.int64" else None


def _no_tail(_healthy: str, kernel: Any, reduction_type: str, accumulator: object, *_: Any, **__: Any) -> str | None:
    # With "x" and "y" it is asked how to combine the elements of one vector.
    dropped = reduction_type == "sum" and kernel.tail_size and str(accumulator) != "x"
    return str(accumulator) if dropped else None


def _whole_eights(healthy: list[str] | None, loop: Any) -> list[str] | None:
    if healthy is None or not loop.is_reduction or loop.simd_vec:
        return None
    bound = re.compile(r"(<static_cast<int64_t>\()(\d+)(?=L\);)")
    return [bound.sub(lambda found: f"{found[1]}{int(found[2]) // 8 * 8}", line) for line in healthy]


def _one_early(healthy: Any, kernel: Any, *_: Any, **__: Any) -> Any:
    # With nothing before the tail it would write outside of the buffer.
    if not kernel.tail_size or kernel.ranges[kernel.tiling_idx] < kernel.tiling_factor:
        return None
    # Behind a line there may be a comment; see `cpulab.debug.links`.
    return healthy.map(lambda line: re.sub(r"\.store\((\w+ \+ .+), ([^,]+)$", r".store(\1 - 1, \2", line))


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            name="neg_without_cast",
            what="neg's result is not cast back to its operand's type, so C++ promotes uint8 to int",
            op="aten.neg.default",
            program="maximum_with_negated_uint8",
            generators={
                "scalar": Generator("CppOverrides.neg", lambda _healthy, x: f"-{x}", "compile"),
                # A vector has a minus of its own, and is never promoted.
                "vector": Generator("CppVecOverrides.neg", lambda _healthy, x: f"-{x}", None),
            },
        ),
        Fault(
            name="neg_doubled",
            what="neg gives twice its operand",
            op="aten.neg.default",
            program="maximum_with_negated",
            generators={
                "scalar": Generator("CppOverrides.neg", lambda _healthy, x: f"decltype({x})(2 * {x})", "accuracy"),
                # An int times a vector is no C++.
                "vector": Generator("CppVecOverrides.neg", lambda _healthy, x: f"decltype({x})(2 * {x})", "compile"),
            },
        ),
        Fault(
            name="neg_added_to_itself",
            what="neg gives its operand added to itself, which is valid C++ for vectors too",
            op="aten.neg.default",
            program="maximum_with_negated",
            generators={
                "scalar": Generator("CppOverrides.neg", lambda _healthy, x: f"decltype({x})({x} + {x})", "accuracy"),
                "vector": Generator("CppVecOverrides.neg", lambda _healthy, x: f"({x} + {x})", "accuracy"),
            },
        ),
        Fault(
            name="add_without_cast",
            what="add's result is not cast back to its operands' type, so C++ promotes uint8 to int",
            op="aten.add.Tensor",
            program="widened_sum_of_uint8",
            generators={
                "scalar": Generator("CppOverrides.add", lambda _healthy, a, b: f"{a} + {b}", "accuracy"),
            },
        ),
        Fault(
            name="abs_of_no_such_name",
            what="abs calls a function that there is not",
            op="aten.abs.default",
            program="root_of_absolute",
            generators={
                "scalar": Generator("CppOverrides.abs", lambda _healthy, x: f"std::absolute({x})", "compile"),
                "vector": Generator("CppVecOverrides.abs", lambda _healthy, x: f"{x}.absolute()", "compile"),
            },
        ),
        Fault(
            name="sum_drops_tail",
            what="a sum leaves out the elements after the last whole vector (scalar: the last whole eight)",
            op="aten.sum.dim_IntList",
            program="sums_of_rows",
            generators={
                "scalar": Generator("LoopLevel.lines", _whole_eights, "accuracy"),
                "vector": Generator("CppVecKernel.reduction_combine_vec", _no_tail, "accuracy"),
            },
        ),
        Fault(
            name="tail_stored_one_early",
            what="the masked store of the elements after the last whole vector begins one element early",
            op="aten.mul.Tensor",
            program="product_of_exponentials",
            generators={
                "vector": Generator("CppVecKernel._get_store_line", _one_early, "accuracy"),
            },
        ),
        Fault(
            name="sigmoid_of_wrong_constant",
            what="sigmoid adds 1.001 in place of 1",
            op="aten.sigmoid.default",
            program="gated",
            generators={
                "scalar": Generator("CppOverrides.sigmoid", _sigmoid_scalar, "accuracy"),
                "vector": Generator("CppVecOverrides.sigmoid", _sigmoid, "accuracy"),
            },
        ),
        Fault(
            name="maximum_loses_nan",
            what="the vectorized maximum gives a number where its second operand is not one",
            op="aten.maximum.default",
            program="maximum_with_nan",
            generators={
                "vector": Generator("CppVecOverrides.maximum", _maximum_loses_nan, "accuracy"),
            },
        ),
        Fault(
            name="product_in_32_bits",
            what="mul keeps the low 32 bits of a product of int64",
            op="aten.mul.Tensor",
            program="product_of_int64",
            dtype="int64",
            generators={
                "scalar": Generator("CppOverrides.mul", _low_half, "accuracy"),
                "vector": Generator("CppVecOverrides.mul", _low_half, "accuracy"),
            },
        ),
    )
}


def find(fault: str, override: str) -> Fault:
    """Return the fault called ``fault`` that breaks ``override`` ("scalar", "vector" or "both").

    Raises:
        UnknownFault: there is none of this name.
        UnknownOverride: the fault has no generator for ``override``.

    """
    if fault not in FAULTS:
        raise UnknownFault(fault, FAULTS)
    FAULTS[fault].chosen(override)
    return FAULTS[fault]


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
