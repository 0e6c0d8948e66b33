"""Compares results of known faults and of known rounding; prints what is said of each as JSON. Run where torch is."""

import json
import sys

import torch
import torch.nn.functional as F

from cpulab.explain import case, comparison, shadow

torch.manual_seed(0)


def judged(program, compiled, *inputs):
    """Say whether ``compiled``'s result for the program's inputs is wrong, and why each element differs."""
    mode = shadow.Shadow(perturbed=True)
    with mode:
        expected = program(*inputs)
    evidence = mode.evidence([leaf for _, leaf in comparison.leaves(expected)])
    found = comparison.compare(expected, compiled(*inputs), evidence=evidence, terms=mode.facts.terms)
    return {
        "wrong": any(one["wrong"] for one in found),
        "names": [one["name"] for one in found],
        "causes": sorted({cause for one in found for cause in one["causes"]}),
    }


def dropped_tail(x):
    return x[:, :-3].sum(1)


def one_element_off(x):
    found = x.exp()
    found[-1] *= 1.0001
    return found


def wrong_nan(x):
    found = x.log()
    found[0] = float("nan")
    return found


def two_ways(x):
    return x.double().softmax(-1).float()


x = torch.randn(64, 1000)
positive = torch.rand(100) + 1
low = torch.randn(100).bfloat16()
integers = torch.randint(-100, 100, (50,))
whole = torch.arange(-20, 20) / 2

ANSWERS = {
    "a sum without its tail": judged(lambda x: x.sum(1), dropped_tail, x),
    "one element of an exponential": judged(torch.exp, one_element_off, positive),
    "a constant off in the fifth digit": judged(lambda x: x * 1.2345, lambda x: x * 1.23452, x),
    "a cancelled difference that is wrong": judged(lambda x: (x + 1) - 1, lambda x: (x + 1) - 1 + 1e-4, positive),
    "NaN where there is none": judged(torch.log, wrong_nan, positive),
    "an integer off by one": judged(lambda x: x * 3, lambda x: x * 3 + (x == x.max()), integers),
    "a floor at a whole number": judged(torch.floor, lambda x: torch.ceil(x) - 1, whole),
    "a comparison at equality": judged(lambda x: x >= 1.5, lambda x: x > 1.5, whole),
    "an argmax of ties": judged(torch.argmax, lambda x: torch.tensor(2), torch.tensor([1.0, 3.0, 3.0])),
    "a low precision result doubled": judged(lambda x: (x * x).sin(), lambda x: (x * x).sin() * 2, low),
    "another dtype": judged(lambda x: x + 1, lambda x: (x + 1).double(), x),
    "another shape": judged(lambda x: x + 1, lambda x: (x + 1)[None], x),
    "a softmax in float64": judged(lambda x: x.softmax(-1), two_ways, x),
    "a matrix product of blocks": judged(
        lambda x: x @ x.t(), lambda x: x[:, :500] @ x[:, :500].t() + x[:, 500:] @ x[:, 500:].t(), x
    ),
    "a gelu in float64": judged(F.gelu, lambda x: F.gelu(x.double()).float(), x),
    "a layer norm by hand": judged(
        lambda x: F.layer_norm(x, (1000,)),
        lambda x: (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt(),
        x,
    ),
    "other strides": judged(lambda x: x + 1, lambda x: (x.t() + 1).t().contiguous().t().contiguous().t(), x),
    "a zero of the other sign": judged(lambda x: x * 0, lambda x: -(x * 0), positive),
}

FACTS = {
    "unfit": shadow.unfit(torch.tensor([255.9, 256.0, -0.9, -1.0, float("nan"), float("inf")]), torch.uint8).tolist(),
    "unfit int64": shadow.unfit(torch.tensor([2.0**62, 2.0**63, -(2.0**63)]), torch.int64).tolist(),
    "paths": [path for path, _ in comparison.leaves({"a": (1, [x]), "b": None})],
    "expanded strides": comparison.frozen(torch.ones(3, 1).expand(3, 4)).leaves[0][1].stride(),
    "equal zeros": [
        torch.allclose(torch.tensor(-0.0), torch.tensor(0.0)),
        torch.equal(torch.tensor(-0.0), torch.tensor(0.0)),
        torch._dynamo.utils.same(torch.tensor(-0.0), torch.tensor(0.0)),
    ],
}

file = sys.argv[1]
function = case.load(file, "nested_outputs")
first, second = case.inputs(file, "nested_outputs", 0), case.inputs(file, "nested_outputs", 0)
FACTS["same seed"] = torch.equal(first[0], second[0])
FACTS["shared memory"] = first[0].untyped_storage().data_ptr() == second[0].untyped_storage().data_ptr()
strided = case.inputs(file, "strided_expanded_transposed", 0)
case.load(file, "strided_expanded_transposed")
FACTS["strides of inputs"] = [list(one.stride()) for one in strided]

print(json.dumps({"answers": ANSWERS, "facts": FACTS}))
