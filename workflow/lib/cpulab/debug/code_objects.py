"""Whether a code generator is the installed one: digests of code objects, from the installed file and as imported.

Run in the measured environment: ``python -m cpulab.debug.code_objects installed|imported OP`` prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import CodeType

from cpulab.debug.faults import OVERRIDES


def digest(code: CodeType) -> str:
    """Return the sha256 of what ``code`` does: its bytecode, its names and its constants, not where it stands."""
    constants = [digest(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    parts = [code.co_code.hex(), repr(code.co_names), repr(code.co_varnames), repr(code.co_freevars), *constants]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def installed(op: str) -> dict[str, str | None]:
    """Return the digests of ``op``'s generators as the installed file has them, PyTorch itself not imported."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return dict.fromkeys(OVERRIDES.values())
    file = Path(spec.origin).parent / "_inductor" / "codegen" / "cpp.py"
    module = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)
    found: dict[str, str | None] = {}
    for name in OVERRIDES.values():
        owner = _nested(module, name)
        code = _nested(owner, op) if owner is not None else None
        found[name] = digest(code) if code is not None else None
    return found


def imported(op: str) -> dict[str, str | None]:
    """Return the digests of ``op``'s generators as this process would use them."""
    from torch._inductor.codegen import cpp

    found: dict[str, str | None] = {}
    for name in OVERRIDES.values():
        method = vars(getattr(cpp, name)).get(op)
        found[name] = digest(method.__func__.__code__) if method is not None else None
    return found


def _nested(code: CodeType, name: str) -> CodeType | None:
    return next((one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name), None)


if __name__ == "__main__":
    print(json.dumps({"installed": installed, "imported": imported}[sys.argv[1]](sys.argv[2])))
