"""Make the minifier say what it seldom says: `python make_odd.py taken_back|more_inputs|fewer_outputs`, stderr is recorded."""

import sys

import torch
from torch import fx
from torch._functorch.fx_minifier import minifier


def chain(x):
    return x.sin().cos().tan().neg()


def outputs(x):
    return x.sin(), x.neg(), x.cos()


def has(target):
    return lambda graph, inputs: any(
        node.op != "placeholder" and target in str(node.target) for node in graph.graph.nodes
    )


def taken_back():
    """A tester that changes its mind: a candidate fails when it is found, and not when it is tested again."""
    asked = []

    def fails(graph, inputs):
        asked.append(len(graph.graph.nodes))
        return len(graph.graph.nodes) == 6 or asked.count(len(graph.graph.nodes)) % 2 == 1

    return chain, fails


def more_inputs():
    """The failing op needs two operands that only delta debugging can turn into inputs."""
    return (lambda x: (x.sin() + x.cos(),)), has("add")


def fewer_outputs():
    return outputs, has("neg")


function, fails = globals()[sys.argv[1]]()
minifier(fx.symbolic_trace(function), [torch.randn(2, 2)], fails, dump_state=lambda graph, inputs: None)
