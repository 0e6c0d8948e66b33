"""The table of the registered faults: what each does to its program, and whom the walk and the bisector name.

Read by tests; as a program, in the measured environment, it fills the table in for the rows and programs it is asked
for, all in one process: ``python fault_table.py ARGUMENTS.json ANSWER.json``.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.debug import faults
from cpulab.debug.faults import Fault, Generator

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Row:
    """One fault in one override, run in the variant that has it on the executed path.

    ``op``: whom the walk has to name, ``bisected``: whom PyTorch's bisector names; None is nobody. ``line``: a part of
    the C++ line that is to be found. ``minimal``: the ops of the least graph that shows the fault; None: ``op`` alone.
    """

    fault: str
    override: str
    op: str | None
    bisected: str | None
    line: str | None
    program: str | None = None
    direction: str = "forward"
    alone: bool = True
    exception: str | None = None
    minimal: tuple[str, ...] | None = None

    @property
    def least(self) -> list[str] | None:
        """The ops of the least graph; None where there is nothing to reduce."""
        return list(self.minimal or (self.op,)) if self.op is not None else None

    @property
    def name(self) -> str:
        return "-".join([self.fault, self.override, self.direction, *([self.program] if self.program else [])])


# How a value comes to be in a register is known to nobody who compiles a node by itself.
def _exp_of_neg(_healthy: str, x: object) -> str | None:
    from torch._inductor.virtualized import V

    made = [expression for expression, value in V.kernel.cse._cache.items() if value is x]
    return f"{x}.exp() + {x}" if any("neg" in expression for expression in made) else None


OF_TESTS = {
    "exp_of_neg": Fault(
        "exp_of_neg",
        "exp is wrong of what neg leaves in a register",
        "aten.exp.default",
        "exponential_of_negated",
        {"vector": Generator("CppVecOverrides.exp", _exp_of_neg, "accuracy")},
    )
}

NEG, ADD, ABS, SUM = "aten.neg.default", "aten.add.Tensor", "aten.abs.default", "aten.sum.dim_IntList"
MUL, SIGMOID, MAXIMUM, EXP = "aten.mul.Tensor", "aten.sigmoid.default", "aten.maximum.default", "aten.exp.default"
CONVERT = "prims.convert_element_type.default"

ROWS = (
    # neg alone compiles: the bisector blames the op that can't take what neg leaves in a register.
    Row("neg_without_cast", "scalar", NEG, MAXIMUM, "= -tmp1;", exception="InductorError", minimal=(NEG, MAXIMUM)),
    # A vector has a minus of its own.
    Row("neg_without_cast", "vector", None, None, None),
    Row("neg_doubled", "scalar", NEG, NEG, "(2 * tmp3)"),
    Row("neg_doubled", "vector", NEG, NEG, "(2 * tmp4)", exception="InductorError"),
    Row("neg_added_to_itself", "scalar", NEG, NEG, "(tmp3 + tmp3)"),
    Row("neg_added_to_itself", "vector", NEG, NEG, "(tmp4 + tmp4)"),
    Row("neg_added_to_itself", "scalar", NEG, NEG, "(tmp4 + tmp4)", "doubled_cosine", "backward"),
    Row("neg_added_to_itself", "vector", NEG, NEG, "(tmp5 + tmp5)", "doubled_cosine", "backward"),
    Row("neg_added_to_itself", "vector", None, None, None, "doubled_cosine"),
    # As with neg: a sum that is stored has its type again.
    Row("add_without_cast", "scalar", ADD, CONVERT, "= tmp0 + tmp1;", minimal=(ADD, CONVERT)),
    Row("abs_of_no_such_name", "scalar", ABS, ABS, "std::absolute(tmp2)", exception="InductorError"),
    Row("abs_of_no_such_name", "vector", ABS, ABS, ".absolute()", exception="InductorError"),
    Row("sum_drops_tail", "scalar", SUM, SUM, "tmp_acc0 = tmp_acc0 + tmp1;"),
    Row("sum_drops_tail", "vector", SUM, SUM, "tmp_acc0_vec = tmp_acc0_vec"),
    # The bisector has the first exp stored, which the program does not.
    Row("tail_stored_one_early", "vector", MUL, EXP, ".store(out_ptr0"),
    Row("sigmoid_of_wrong_constant", "scalar", SIGMOID, SIGMOID, "1.001"),
    Row("sigmoid_of_wrong_constant", "vector", SIGMOID, SIGMOID, "1.001"),
    Row("maximum_loses_nan", "vector", MAXIMUM, MAXIMUM, "::blendv("),
    Row("product_in_32_bits", "scalar", MUL, MUL, "0xffffffff"),
    Row("product_in_32_bits", "vector", MUL, MUL, "0xffffffff"),
    Row("exp_of_neg", "vector", EXP, EXP, ".exp() +", alone=False, minimal=(NEG, EXP)),
)


def main(asked: Path, answer: Path) -> None:
    """Fill in ``rows`` (of one override) and locate in the right ``programs`` ([file, function])."""
    import torch._inductor.config
    from torch._inductor.codegen import cpp

    from cpulab.debug import code_objects

    arguments = json.loads(asked.read_text())
    rows = [Row(**one) for one in arguments["rows"]]
    found: dict[str, Any] = {"rows": {}, "right": {}, "left": {}, "ops": {}}
    with torch._inductor.config.patch({"cpp.simdlen": 1} if arguments["scalar"] else {}):
        for row in rows:
            fault = {**faults.FAULTS, **OF_TESTS}[row.fault]
            file = __file__ if row.fault in OF_TESTS else str(faults.PROGRAMS)
            with injected(cpp, fault, row.override):
                found["rows"][row.name] = located_and_reduced(
                    file, row.program or fault.program, row.direction, answer.parent / row.name
                )
            minimal = found["rows"][row.name]["reduced"]["minimal"]
            if minimal is not None:
                found["rows"][row.name]["passes"] = passes(Path(minimal["file"]))
            # By now each code generator is the installed one again.
            places = fault.places
            if code_objects.imported(places) != code_objects.installed(places):
                found["left"][row.name] = places
        for file, function in arguments["programs"]:
            found["right"][function] = [named(one) for one in locate_everywhere(file, function)]
    answer.write_text(json.dumps(found))


@contextlib.contextmanager
def injected(module: Any, fault: Fault, override: str) -> Iterator[None]:
    from cpulab.debug import injection

    owners = [place.split(".") for place in fault.places]
    healthy = [vars(getattr(module, owner))[name] for owner, name in owners]
    injection.inject(module, fault, override)
    try:
        yield
    finally:
        for (owner, name), function in zip(owners, healthy, strict=True):
            setattr(getattr(module, owner), name, function)


def located_and_reduced(file: str, program: str, direction: str, folder: Path) -> dict[str, Any]:
    from cpulab.debug import bisect_worker
    from cpulab.explain import case
    from cpulab.minify import reduce_worker

    (located,) = locate_everywhere(file, program, direction)
    bisected = bisect_worker.bisect(
        case.load(file, program), lambda: case.inputs(file, program, 0), backward=direction == "backward", seconds=100
    )
    folder.mkdir()
    reduced = reduce_worker.reduce(
        reduce_worker.Asked(
            target={"file": file, "function": program},
            seed=0,
            direction=direction,
            test="exception" if located["exception"] else "accuracy",
            guilty=located["guilty"],
            folder=folder,
        )
    )
    found = {"located": located, "bisected": bisected, "reduced": reduced}
    if reduced["minimal"] is not None:
        found["fails"] = not passes(Path(reduced["minimal"]["file"]))
    return found


def passes(program: Path) -> bool:
    """Run a minimal program and tell whether it found nothing wrong."""
    import torch

    torch.compiler.reset()
    with contextlib.redirect_stdout(sys.stderr), torch.compiler.config.patch(force_disable_caches=True):
        try:
            runpy.run_path(str(program), run_name="__main__")
        except SystemExit as ending:
            return not ending.code
        finally:
            torch.compiler.reset()
    return True


def locate_everywhere(file: str, program: str, direction: str | None = None) -> list[dict[str, Any]]:
    """Locate in each graph of ``direction``; None: in those of the backward, too, where there is one."""
    import torch

    from cpulab.debug import locate_worker, post_aot
    from cpulab.explain import case

    function, inputs = case.load(file, program), case.inputs(file, program, 0)
    backward = direction == "backward" or (
        direction is None and any(isinstance(one, torch.Tensor) and one.requires_grad for one in inputs)
    )
    return [
        locate_worker.locate(one, deadline=time.monotonic() + 100)
        for one in post_aot.capture(function, inputs, backward=backward)
        if direction is None or one.is_backward == (direction == "backward")
    ]


def named(located: dict[str, Any]) -> str | None:
    op: str | None = located["op"]
    return op


def exponential_of_negated(x: Any) -> Any:
    return (-x).exp() * 2


def _inputs() -> list[Any]:
    import torch

    return [torch.randn(64)]


INPUTS = {"exponential_of_negated": _inputs}


def asked_for(rows: tuple[Row, ...], programs: list[tuple[str, str]], *, scalar: bool) -> dict[str, Any]:
    return {"rows": [asdict(row) for row in rows], "programs": programs, "scalar": scalar}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
