"""Which strategies a version of the FX minifier has: they are closures, so only its source lists them."""

from __future__ import annotations

import ast
import textwrap


def registered(source: str) -> list[str]:
    """Return the names given to ``register_strategy`` in the source of the function minifier, in order."""
    calls = [
        node
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "register_strategy"
    ]
    names = [call.args[0] for call in sorted(calls, key=lambda call: call.lineno) if call.args]
    return [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]
