"""Makes tiny models in a folder and looks them up: ``python models_probe.py FOLDER ANSWER.json``."""

import json
import shutil
import sys
from pathlib import Path

import torch
from cpulab import models
from cpulab.models_worker import look_up
from transformers import BertConfig, BertForQuestionAnswering, BertModel

folder = Path(sys.argv[1])
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=64,
)  # fmt: skip
BertForQuestionAnswering(config).half().save_pretrained(folder / "own")
BertModel(config).save_pretrained(folder / "headless")
shutil.copytree(folder / "own", folder / "cut")
(folder / "cut" / "model.safetensors").write_bytes(b"cut short")
(folder / "empty").mkdir()


def look(name, layers=2, sequence_length=32):
    return look_up({"model": name, "layers": layers, "sequence_length": sequence_length, "seed": 0})


def weights(seed):
    network, _ = models.build(models.PUBLISHED, layers=1, attention="sdpa", seed=seed)
    return torch.cat([parameter.detach().flatten()[:100] for parameter in network.parameters()])


network, source = models.build(str(folder / "own"), layers=None, attention="sdpa", seed=0)
tokens = models.inputs(network, batch=3, sequence_length=5, seed=1)["input_ids"]
answer = {name: look(str(folder / name)) for name in ("own", "headless", "cut", "empty", "missing")}
answer |= {
    "more_layers": look(str(folder / "own"), layers=9),
    "all_layers": look(str(folder / "own"), layers=None),
    "too_long": look(str(folder / "own"), sequence_length=65),
    "uncached": look("nobody/nothing"),
    "published": look(models.PUBLISHED),
    "built": {
        "source": source, "training": network.training, "dtype": str(network.dtype), **models.describe(network),
    },
    "inputs": {"shape": list(tokens.shape), "dtype": str(tokens.dtype), "largest": int(tokens.max())},
    "seeds": {"same": torch.equal(weights(0), weights(0)), "other": torch.equal(weights(0), weights(1))},
}  # fmt: skip
Path(sys.argv[2]).write_text(json.dumps(answer))
