"""The backend ladder: each rung adds one component of torch.compile, so the first that fails names the one at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

# Backend -> the component that it adds to those of the rungs before it, or runs more of: decompositions and the
# partitioner, as Inductor has them run, are AOTAutograd's.
RUNGS = {
    "eager": "dynamo",
    "aot_eager": "aot_autograd",
    "aot_eager_decomp_partition": "aot_autograd",
    "inductor": "inductor",
}


def component_at_fault(rungs: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the component that the first failing rung adds; None when every rung passes.

    ``rungs``: ``backend`` and ``passed`` of each, in any order.

    Raises:
        KeyError: a rung of the ladder was not run.

    """
    passed = {rung["backend"]: rung["passed"] for rung in rungs}
    return next((component for backend, component in RUNGS.items() if not passed[backend]), None)
