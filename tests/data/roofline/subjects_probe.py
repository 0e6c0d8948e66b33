"""What the roofline step's subjects are, seen from inside a measured process: `python subjects_probe.py FOLDER ANSWER.json`."""

import json
import sys
from pathlib import Path

import torch
from torch import nn

from cpulab.measure import subjects
from cpulab.roofline import stream, worker

folder, answer = Path(sys.argv[1]), Path(sys.argv[2])
found = {}

# Copy and triad on an odd number of elements, which no vector length divides.
arrays = stream.Stream(stream.library(folder), 100_003, torch.get_num_threads())
found["touched"] = [sorted(set(array.tolist())) for array in arrays.arrays]
found["right"] = arrays.is_right()
found["worked"] = [sorted(set(array.tolist())) for array in arrays.arrays]
built = folder / "stream.so"
before = built.stat().st_mtime_ns
stream.library(folder)
found["built_once"] = built.stat().st_mtime_ns == before
broken = stream.Stream(stream.library(folder), 1000, 1)
broken.arrays[1][500] = 7.0
found["wrong"] = broken.is_right()

asked = {"kind": "pattern", "library": str(folder), "seed": 0}
with torch.no_grad():
    pattern = subjects.build(asked)
    out = pattern.arms["preallocated"]()
    found["pattern"] = {
        "arms": list(pattern.arms),
        "facts": dict(pattern.facts),
        "same_memory": out.data_ptr() == pattern.arms["preallocated"]().data_ptr(),
        "equal": torch.equal(out, pattern.call()),
    }

    names = ["copy", "triad", "matmul_float32", "matmul_bfloat16"]
    names += [f"{name}_one" for name in names]
    roofs = subjects.build(
        {"kind": "machine", "arms": names, "array_bytes": 8000, "library": str(folder), "seed": 0}
    )
    threads = torch.get_num_threads()
    for name in ("copy", "triad_one", "matmul_float32_one"):
        roofs.arms[name]()
    found["machine"] = {
        "arms": sorted(roofs.arms),
        "asked": sorted(names),
        "roofs": roofs.facts["roofs"],
        "threads_kept": torch.get_num_threads() == threads,
        "threads": threads,
    }
    without = [name for name in names if "bfloat16" not in name]
    few = subjects.build({"kind": "machine", "arms": without, "array_bytes": 8000, "library": str(folder), "seed": 0})
    found["without_bfloat16"] = sorted(few.arms) == sorted(without)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8, bias=False)

        def forward(self, x):
            return self.narrow(self.wide(self.narrow(self.wide(x))))

    network = Twice()
    found["layers"] = worker.layers(network, lambda: network(torch.zeros(2, 3, 8)))
    hooked = worker.layers(network, lambda: None)
    found["hooks_gone"] = hooked == [] and not any(module._forward_pre_hooks for module in network.modules())
    found["packing"] = worker.packing()
    layers = [
        {
            "rows": 64, "in_features": 48, "out_features": 16, "bias": bias,
            "plain": f"plain_{bias}", "packed": f"packed_{bias}", "placebo": f"placebo_{bias}",
        }
        for bias in (True, False)
    ]
    found["linear"] = {}
    for packing in ("mkl", "mkldnn"):
        if packing == "mkl" and not torch._C.has_mkl:
            continue
        linear = subjects.build({"kind": "linear", "layers": layers, "packing": packing, "seed": 0})
        found["linear"][packing] = {
            "facts": dict(linear.facts),
            "arms": list(linear.arms),
            "close": [
                torch.allclose(linear.arms[f"plain_{bias}"](), linear.arms[f"packed_{bias}"](), atol=1e-5)
                for bias in (True, False)
            ],
            "bias_matters": not torch.allclose(linear.arms["packed_True"](), linear.arms["packed_False"]()),
        }
answer.write_text(json.dumps(found))
