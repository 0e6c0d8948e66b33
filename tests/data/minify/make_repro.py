"""Write a repro script whose graph takes one of two results and a constant: `python make_repro.py`, stdout is recorded."""

import sys

import torch
from torch._dynamo.repro.after_aot import save_graph_repro
from torch.fx.experimental.proxy_tensor import make_fx


def program(x):
    values, _ = x.max(dim=0)
    return (values + torch.tensor([1.0, 2.0]),)


argument = torch.zeros(2, 2)
save_graph_repro(sys.stdout, make_fx(program)(argument), [argument], "inductor", stable_output=True)
