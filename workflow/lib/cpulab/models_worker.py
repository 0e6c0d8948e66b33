"""Looks a model up once and tries it: ``python -m cpulab.models_worker ASK.json ANSWER.json``, measured environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cpulab import models


def look_up(asked: dict[str, Any]) -> dict[str, Any]:
    """Find the model ``asked["model"]`` and run it once on one input.

    ``asked``: model, layers (or None), sequence_length, seed. Returns what `models.locate` does plus what
    `models.describe` does. A model that loads and does not run has ``weights`` None and the reason in ``problem``.
    """
    import torch

    found = models.locate(asked["model"])
    if found["weights"] is None:
        return found
    try:
        network, _ = models.build(asked["model"], layers=asked["layers"], attention="eager", seed=asked["seed"])
        tokens = models.inputs(network, batch=1, sequence_length=asked["sequence_length"], seed=asked["seed"])
        with torch.no_grad():
            network(**tokens)
    except Exception as error:  # noqa: BLE001 - whatever a user's network raises is the reason it cannot be used
        reason = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        problem = f"it does not run on {asked['sequence_length']} tokens ({type(error).__name__}: {reason})"
        return {**found, "weights": None, "problem": problem}
    return {**found, **models.describe(network)}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(look_up(json.loads(Path(sys.argv[1]).read_text()))))
