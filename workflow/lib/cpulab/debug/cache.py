"""Which of Inductor's caches two processes may share: what the C++ compiler made, never graphs.

A cached graph is not generated again, so neither debug files nor a fault would appear. But in an empty cache Inductor
first compiles a dozen probes of the processor's instruction sets, which takes longer than the program itself. They are
named by a digest of source, flags, compiler and PyTorch version, so a case may start from those of another.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

_GRAPHS = ("fxgraph", "aotautograd")


def variables(cache: Path) -> dict[str, str]:
    """Return the variable that gives a process ``cache``, after the graphs in it are deleted."""
    for graphs in _GRAPHS:
        shutil.rmtree(cache / graphs, ignore_errors=True)
    return {"TORCHINDUCTOR_CACHE_DIR": str(cache.resolve())}


def start_from(shared: Path, cache: Path) -> None:
    """Fill the new folder ``cache`` with what an earlier case left in ``shared``, if there is one."""
    if shared.is_dir():
        shutil.copytree(shared, cache, dirs_exist_ok=True)


def leave(cache: Path, shared: Path) -> None:
    """Leave what was compiled in ``cache`` in ``shared``, whole or not at all, unless an earlier case did."""
    if shared.exists() or not cache.is_dir():
        return
    with tempfile.TemporaryDirectory(dir=shared.parent) as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(cache, copy, ignore=shutil.ignore_patterns(*_GRAPHS, "locks"))
        copy.rename(shared)
