"""The model step: whether the model can be loaded, and where its weights come from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.errors import ModelNotLoadable
from cpulab.step import Case, Observed

if TYPE_CHECKING:
    from cpulab.step import Bench


def look(bench: Bench) -> Observed:
    """Find the model's weights once, fetching them where the network has them; later steps read the disk alone.

    Raises:
        ModelNotLoadable: it is not the tutorial's model, and cannot be loaded.

    """
    bench.reporter.stage(f"looking for the weights of {bench.model}")
    size = bench.preset.model
    found = bench.worker(
        "cpulab.models_worker",
        {
            "model": bench.model,
            "layers": size.layers,
            "sequence_length": size.sequence_length,
            "seed": bench.seed,
        },
    )
    if found["weights"] is None:
        raise ModelNotLoadable(bench.model, found["problem"])
    return Observed({"name": Path(bench.model).name if Path(bench.model).is_dir() else bench.model, **found})


CASES = {"weights": Case("as_published", lambda _: 30, look)}
