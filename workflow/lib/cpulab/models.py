"""The models: from a name to a network and its inputs. Runs in the measured process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

if TYPE_CHECKING:
    from torch import Tensor, nn

# The model of the tutorial. MobileBertConfig's defaults are its architecture: 24 layers, 24.6 M parameters, 362 Linear.
PUBLISHED = "csarron/mobilebert-uncased-squad-v2"

REACH_TIMEOUT_S = 5


class Unloadable(Exception):
    """A model that is neither in a folder nor in the cache, or is no question-answering model; says why."""


def hub_is_reachable() -> bool:
    """Tell whether the model hub answers at all, by one request, so that no machine waits for a client's retries."""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
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

    Returns ``{"weights": "published" | "own" | "seeded" | None, "problem": str | None, "missing_weights": int}``: the
    tutorial's, the user's, or, where the published ones are not at hand, the published architecture with seeded ones
    (``problem`` says why). For a model that is not the tutorial's and cannot be loaded, ``weights`` is None.
    ``missing_weights``: the network's tensors that the source does not hold, so that they are random.
    """
    online = name == PUBLISHED or (not looks_like_a_folder(name) and not Path(name).is_dir())
    online = online and hub_is_reachable()
    try:
        _, missing = _pretrained(name, layers=None, attention="eager", local_files_only=not online)
    except Unloadable as error:
        return {"weights": "seeded" if name == PUBLISHED else None, "problem": str(error), "missing_weights": 0}
    return {"weights": "published" if name == PUBLISHED else "own", "problem": None, "missing_weights": missing}


def looks_like_a_folder(name: str) -> bool:
    """Tell whether ``name`` can only mean a folder: a hub name is NAME or OWNER/NAME."""
    return name.startswith((".", "/", "~")) or name.count("/") > 1


def _pretrained(name: str, *, layers: int | None, attention: str, local_files_only: bool) -> tuple[nn.Module, int]:
    """Load ``name`` and return its network and the number of tensors it had no weights for.

    Raises:
        Unloadable: it cannot be loaded.

    """
    from transformers import AutoConfig, AutoModelForQuestionAnswering

    if looks_like_a_folder(name) and not Path(name).is_dir():
        raise Unloadable(f"there is no folder {name}")
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise Unloadable(f"the folder {name} holds no config.json")
    try:
        config = AutoConfig.from_pretrained(name, local_files_only=local_files_only)
        own = getattr(config, "num_hidden_layers", None)
        if layers is not None and own is not None:
            config.num_hidden_layers = min(layers, own)
        network, loading = AutoModelForQuestionAnswering.from_pretrained(
            name, config=config, attn_implementation=attention, local_files_only=local_files_only,
            dtype="float32", output_loading_info=True,
        )  # fmt: skip
    except Exception as error:  # transformers raises OSError, ValueError, KeyError and its dependencies' own
        raise Unloadable(_reason(name, error, local_files_only=local_files_only)) from error
    return network, len(loading["missing_keys"]) + len(loading["mismatched_keys"])


def _reason(name: str, error: Exception, *, local_files_only: bool) -> str:
    """Say in one clause why ``name`` was not loaded."""
    from transformers.utils import cached_file

    if not Path(name).is_dir() and local_files_only:
        try:
            cached_file(name, "config.json", local_files_only=True)
        except (OSError, ValueError):
            return "it is not in the cache and the model hub cannot be reached"
    sentence = " ".join(str(error).split(". ")[0].split()).rstrip(".")
    return f"{type(error).__name__}: {sentence[:240]}"


def build(name: str, *, layers: int | None, attention: str, seed: int) -> tuple[nn.Module, str]:
    """Build the network of ``name`` in evaluation mode and float32, from what is on disk alone.

    ``layers``: hidden layers at most, None for the model's own number; ``attention``: transformers'
    attn_implementation, "eager" as in the tutorial or "sdpa". The tutorial's model, where its weights are not on disk,
    is the published architecture with weights drawn from ``seed``. Returns the network and where its weights come from:
    "published", "own" or "seeded".

    Raises:
        Unloadable: it is not the tutorial's model and cannot be loaded.

    """
    import torch
    from transformers import MobileBertConfig, MobileBertForQuestionAnswering

    torch.manual_seed(seed)
    try:
        network, _ = _pretrained(name, layers=layers, attention=attention, local_files_only=True)
    except Unloadable:
        if name != PUBLISHED:
            raise
        config = MobileBertConfig() if layers is None else MobileBertConfig(num_hidden_layers=layers)
        config._attn_implementation = attention  # noqa: SLF001 - the constructor has no public argument for it
        return MobileBertForQuestionAnswering(config).eval(), "seeded"
    return network.eval(), "published" if name == PUBLISHED else "own"


def describe(network: nn.Module) -> dict[str, Any]:
    """Return what ``network`` really is, whatever was asked for.

    ``layers``: hidden layers, None where its architecture does not count them; ``attention``: the implementation it
    runs with; ``parameters``: their number (elements, not tensors); ``linear_modules``: number of linear layers.
    """
    from torch import nn

    return {
        "layers": getattr(network.config, "num_hidden_layers", None),
        "attention": str(network.config._attn_implementation),  # noqa: SLF001 - transformers has no public name for it
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "linear_modules": sum(isinstance(module, nn.Linear) for module in network.modules()),
    }


def inputs(network: nn.Module, *, batch: int, sequence_length: int, seed: int) -> dict[str, Tensor]:
    """Return the tutorial's input: ``input_ids`` (batch, sequence_length) int64, uniform over the vocabulary."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    vocabulary = network.config.vocab_size
    return {"input_ids": torch.randint(0, vocabulary, (batch, sequence_length), dtype=torch.int64, generator=generator)}
