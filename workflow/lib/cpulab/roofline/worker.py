"""The linear layers of the model as it calls them, and how this build packs them. Runs in the measured process."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from cpulab.measure import subjects

if TYPE_CHECKING:
    from collections.abc import Callable


def packing() -> str | None:
    """Return whose operators Inductor's freezing packs the weights of float32 linear layers for here; None: nobody's.

    As _is_packable_linear in torch/_inductor/fx_passes/mkldnn_fusion.py decides: Arm's compute library by mkldnn, else
    MKL, without which such layers are left as they are.
    """
    if torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_acl_supported():  # noqa: SLF001
        return "mkldnn"
    return "mkl" if torch.backends.mkldnn.is_available() and torch._C.has_mkl else None  # noqa: SLF001


def layers(network: nn.Module, call: Callable[[], object]) -> list[dict[str, Any]]:
    """Return each distinct linear layer that ``call`` calls, with the number of calls; the most arithmetic first.

    ``rows``, ``in_features``, ``out_features``, ``bias``: of its matrix product; ``flop``: of one call.
    """
    calls: Counter[tuple[int, int, int, bool]] = Counter()

    def count(module: nn.Linear, arguments: tuple[torch.Tensor, ...]) -> None:
        rows = arguments[0].numel() // module.in_features
        calls[rows, module.in_features, module.out_features, module.bias is not None] += 1

    hooks = [module.register_forward_pre_hook(count) for module in network.modules() if isinstance(module, nn.Linear)]
    call()
    for hook in hooks:
        hook.remove()
    found = [
        {"rows": rows, "in_features": of, "out_features": to, "bias": bias, "calls": number, "flop": 2 * rows * of * to}
        for (rows, of, to, bias), number in calls.items()
    ]
    return sorted(found, key=lambda one: -one["calls"] * one["flop"])


def main(asked: dict[str, Any]) -> dict[str, Any]:
    """Call the model once; ``asked``: the subject of a model (`cpulab.measure.subjects`)."""
    subject = subjects.build(asked)
    with torch.no_grad():
        found = layers(subject.function, subject.call)
    facts = {name: subject.facts[name] for name in ("batch", "sequence_length", "weights", "layers")}
    return {"layers": found, "packing": packing(), "facts": facts}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
