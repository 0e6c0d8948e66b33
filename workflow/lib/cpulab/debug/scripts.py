"""The scripts that the debug step runs: each holds its whole program, so that a reader can run it again anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from cpulab.debug.faults import Variant

_SCALAR = """\
    import torch._inductor.config

    torch._inductor.config.cpp.simdlen = 1  # one element at a time, as the tutorial's Inductor did for these types
"""

_MAIN = """\


if __name__ == "__main__":
{variant}    program = PROGRAMS["{program}"]
    inputs = program.inputs({seed})
    expected = program.function(*inputs)
    actual = torch.compile(program.function)(*inputs)
"""

_EQUAL = """\
    print("equal to eager:", torch.equal(actual, expected))
"""

# The tutorial's own check, with its own tolerance (the default of `same`).
_SAME = """\
    from torch._dynamo.utils import same

    assert same(expected, actual)
"""


# The function of `case`.
CASE = "program"

_CASE = """\
from cpulab.cases import PROGRAMS

program = PROGRAMS["{program}"].function


def inputs():
    return PROGRAMS["{program}"].inputs({seed})
"""


def case(program: str, seed: int) -> str:
    """Return ``program`` (of `cpulab.cases`) as a file like a user's own case."""
    return _CASE.format(program=program, seed=seed)


def script(program: str, variant: Variant, *, seed: int, accuracy: bool) -> str:
    """Return a script that compiles ``program`` (of `cpulab.cases`) in ``variant`` and compares it with eager.

    ``accuracy``: compare as the tutorial's accuracy section does, by an assertion within a tolerance; else print
    whether the two are equal.
    """
    programs = (LIBRARY / "cpulab" / "cases.py").read_text(encoding="utf-8")
    main = _MAIN.format(variant=_SCALAR if variant == "scalar" else "", program=program, seed=seed)
    return programs + main + (_SAME if accuracy else _EQUAL)
