"""Whether a code generator is the installed one: digests of code objects, from the installed file and as imported.

Run in the measured environment: ``python -m cpulab.debug.code_objects installed|imported PLACE...`` prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def digest(code: CodeType) -> str:
    """Return the sha256 of what ``code`` does: its bytecode, its names and its constants, not where it stands."""
    constants = [digest(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars), *constants]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def installed(places: Sequence[str]) -> dict[str, str | None]:
    """Return the digests of the functions at ``places`` as the installed file has them, PyTorch itself not imported.

    ``places``: "Class.function" of torch._inductor.codegen.cpp; None stands for one that is not there.
    """
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return dict.fromkeys(places)
    file = Path(spec.origin).parent / "_inductor" / "codegen" / "cpp.py"
    module = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    found: dict[str, str | None] = {}
    for place in places:
        code: CodeType | None = module
        for name in place.split("."):
            code = _nested(code, name) if code is not None else None
        found[place] = digest(code) if code is not None else None
    return found


def imported(places: Sequence[str]) -> dict[str, str | None]:
    """Return the digests of the functions at ``places`` (as `installed`) as this process would use them."""
    from torch._inductor.codegen import cpp

    found: dict[str, str | None] = {}
    for place in places:
        owner, _, name = place.partition(".")
        function = vars(getattr(cpp, owner)).get(name)
        function = getattr(function, "__func__", function)  # a static method's
        found[place] = digest(function.__code__) if function is not None else None
    return found


def _nested(code: CodeType, name: str) -> CodeType | None:
    return next((one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name), None)


if __name__ == "__main__":
    print(json.dumps({"installed": installed, "imported": imported}[sys.argv[1]](sys.argv[2:])))
