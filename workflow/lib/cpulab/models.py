"""The models: from a name to a network and its inputs. Runs in the measured process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

if TYPE_CHECKING:
    from torch import Tensor, nn

# The model of the tutorial. MobileBertConfig's defaults are its architecture: 24 layers, 24.6 M parameters, 362 Linear.
PUBLISHED = "csarron/mobilebert-uncased-squad-v2"

REACH_TIMEOUT_S = 5


def hub_is_reachable() -> bool:
    """Tell whether the model hub answers at all, by one request, so that no machine waits for a client's retries."""
    from huggingface_hub import constants  # noqa: PLC0415 - heavy

    if os.environ.get("HF_HUB_OFFLINE") == "1":
        return False
    try:
        with urlopen(constants.ENDPOINT, timeout=REACH_TIMEOUT_S):  # noqa: S310 - the client's own endpoint
            return True
    except HTTPError:
        return True
    except OSError:
        return False


def locate(name: str) -> dict[str, Any]:
    """Find the weights of ``name`` once, fetching them where the network has them.

    Returns ``{"weights": "published" | "own" | "seeded", "problem": str | None}``: the tutorial's, the user's, or, where
    the published ones are not at hand, the published architecture with seeded ones (``problem`` says why). For a model
    that is not the tutorial's and cannot be loaded, ``weights`` is None.
    """
    online = not Path(name).is_dir() and hub_is_reachable()
    try:
        _pretrained(name, local_files_only=not online)
    except Exception as error:  # noqa: BLE001 - transformers raises OSError, ValueError, KeyError and its dependencies' own
        problem = " ".join(str(error).split("\n")[0].split()).rstrip(".")
        return {"weights": "seeded" if name == PUBLISHED else None, "problem": problem}
    return {"weights": "published" if name == PUBLISHED else "own", "problem": None}


def _pretrained(name: str, **settings: Any) -> nn.Module:
    from transformers import AutoModelForQuestionAnswering, MobileBertForQuestionAnswering  # noqa: PLC0415 - heavy

    builder = MobileBertForQuestionAnswering if name == PUBLISHED else AutoModelForQuestionAnswering
    network: nn.Module = builder.from_pretrained(name, **settings)
    return network


def build(name: str, *, layers: int | None, attention: str, seed: int) -> tuple[nn.Module, str]:
    """Build the network of ``name`` in evaluation mode, from what is on disk alone.

    ``layers``: hidden layers, None for the model's own number; ``attention``: transformers' attn_implementation, "eager"
    as in the tutorial or "sdpa". Returns the network and where its weights come from: "published", "own" or "seeded".

    Raises:
        OSError: it is not the tutorial's model and cannot be loaded.

    """
    import torch  # noqa: PLC0415 - heavy
    from transformers import MobileBertConfig, MobileBertForQuestionAnswering  # noqa: PLC0415 - heavy

    torch.manual_seed(seed)
    shape = {} if layers is None else {"num_hidden_layers": layers}
    try:
        network = _pretrained(name, local_files_only=True, attn_implementation=attention, **shape)
    except OSError:
        if name != PUBLISHED:
            raise
        config = MobileBertConfig(**shape)
        config._attn_implementation = attention  # noqa: SLF001 - the constructor has no public argument for it
        return MobileBertForQuestionAnswering(config).eval(), "seeded"
    return network.eval(), "published" if name == PUBLISHED else "own"


def inputs(network: nn.Module, *, batch: int, sequence_length: int, seed: int) -> dict[str, Tensor]:
    """Return the tutorial's input: ``input_ids`` (batch, sequence_length) int64, uniform over the vocabulary."""
    import torch  # noqa: PLC0415 - heavy

    generator = torch.Generator().manual_seed(seed)
    vocabulary = network.config.vocab_size
    return {"input_ids": torch.randint(0, vocabulary, (batch, sequence_length), dtype=torch.int64, generator=generator)}
