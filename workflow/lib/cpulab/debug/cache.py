"""What a process of this step finds in Inductor's cache: nothing but the probes of the instruction sets.

A cached graph is not generated again, so neither debug files nor a fault would appear: each process has its own cache.
But in an empty one Inductor first compiles a dozen probes of the processor's instruction sets, which takes longer than
the program itself. They are named by a digest of source, flags, compiler and PyTorch version, so they are made once.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

# Run in the measured environment with a cache of its own.
PROBE = "from torch._inductor.cpu_vec_isa import valid_vec_isa_list; valid_vec_isa_list()"


def variables(cache: Path, probes: Path) -> dict[str, str]:
    """Return the variable that gives a process the new folder ``cache``, which holds ``probes`` where there are any."""
    if probes.is_dir():
        shutil.copytree(probes, cache)
    return {"TORCHINDUCTOR_CACHE_DIR": str(cache.resolve())}


def leave(cache: Path, probes: Path) -> None:
    """Leave what was compiled in ``cache`` as ``probes``, whole or not at all."""
    with tempfile.TemporaryDirectory(dir=probes.parent) as temporary:
        copy = Path(temporary) / "copy"
        shutil.copytree(cache, copy, ignore=shutil.ignore_patterns("locks"))
        copy.rename(probes)
