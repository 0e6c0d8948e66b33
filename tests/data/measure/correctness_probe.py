"""Compares made-up results as the correctness gate does: ``python correctness_probe.py ANSWER.json``."""

import dataclasses
import json
import math
import sys
from pathlib import Path

import torch
from cpulab.measure.correctness import compare, in_float64

ONES = torch.ones(4)
WIDE = torch.ones(4, dtype=torch.float64)


def no_reference():
    raise AssertionError("float64 was asked for although eager decides")


def with_value(value):
    changed = ONES.clone()
    changed[2] = value
    return changed


class Halve(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(0.1))

    def forward(self, x, index):
        return x * self.weight + index


module = Halve()
wide = in_float64(module, {"x": ONES, "index": torch.arange(4)})
compared = {
    "equal": compare(ONES, ONES.clone(), no_reference),
    "close": compare(ONES, ONES + 5e-5, no_reference),
    "small_scale": compare(ONES * 1e-3, ONES * 1e-3 + 5e-5, lambda: WIDE * 1e-3),
    "large_scale": compare(ONES * 1e3, ONES * 1e3 + 5e-2, no_reference),
    "far_and_wrong": compare(ONES, ONES + 1e-2, lambda: WIDE),
    "far_and_nearer": compare(ONES + 1e-2, ONES, lambda: WIDE),
    "far_and_as_near": compare(ONES - 1e-2, ONES + 1e-2, lambda: WIDE),
    "same_infinity": compare(with_value(math.inf), with_value(math.inf), no_reference),
    "same_nan": compare(with_value(math.nan), with_value(math.nan), no_reference),
    "new_nan": compare(ONES, with_value(math.nan), lambda: WIDE),
    "lost_overflow": compare(with_value(math.inf), ONES, lambda: WIDE),
    "lost_nan": compare(with_value(math.nan), ONES, lambda: WIDE),
    "both_overflow": compare(with_value(math.inf), with_value(math.inf) + 1e-2, lambda: WIDE),
    "both_close": compare([ONES * 1e6, ONES], [ONES * 1e6 + 1, ONES + 5e-5], no_reference),
    "both_infinite_in_float64": compare(with_value(3e7), with_value(math.inf), lambda: with_value(math.inf).double()),
    "other_dtype": compare(ONES, WIDE, no_reference),
    "other_shape": compare(ONES, ONES[:3], no_reference),
    "other_number": compare((ONES, ONES), (ONES,), no_reference),
    "integers_differ": compare(torch.tensor([1000000]), torch.tensor([1000001]), no_reference),
    "large_integers_differ": compare(torch.tensor([2**60]), torch.tensor([2**60 + 1]), no_reference),
    "integers_and_floats_differ": compare([torch.tensor([1]), ONES], [torch.tensor([2]), ONES + 1], no_reference),
    "nothing": compare(torch.ones(0), torch.ones(0), no_reference),
    "booleans_equal": compare(torch.tensor([True]), torch.tensor([True]), no_reference),
    "second_of_two": compare(
        {"a": ONES * 1e6, "b": ONES}, {"a": ONES * 1e6, "b": ONES + 1e-2}, lambda: [WIDE * 1e6, WIDE]
    ),
    "half_precision": compare(ONES.half(), (ONES + 5e-3).half(), no_reference),
}
answer = {name: dataclasses.asdict(one) for name, one in compared.items()}
answer["in_float64"] = {"dtype": str(wide.dtype), "parameter_stays": str(module.weight.dtype), "value": wide.tolist()}
Path(sys.argv[1]).write_text(json.dumps(answer))
