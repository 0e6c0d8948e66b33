"""Topologies of real machines, recorded in tests/data/host/topologies."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.host.topology import read

if TYPE_CHECKING:
    from cpulab.host.topology import Topology

TOPOLOGIES = Path(__file__).parents[1] / "data/host/topologies"
RECORDER = runpy.run_path(str(TOPOLOGIES / "record.py"))


def recorded(name: str, root: Path) -> Topology:
    """Lay a recording down as kernel files below ``root`` and read them."""
    RECORDER["lay_down"]((TOPOLOGIES / f"{name}.txt").read_text(), root)
    return read(root)
