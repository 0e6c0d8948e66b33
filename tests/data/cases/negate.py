"""The tutorial's program in its two dtypes, and one with a backward: what the injected faults of neg are found in."""

import torch


def of_uint8(x1, x2):
    return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)


def of_float32(x1, x2):
    return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)


def with_backward(x):
    return torch.cos(x).sum()


INPUTS = {
    "of_uint8": lambda: [torch.randint(256, (1, 8), dtype=torch.uint8), torch.randint(256, (839, 8), dtype=torch.uint8)],
    "of_float32": lambda: [torch.randn(1, 8), torch.randn(839, 8)],
    "with_backward": lambda: [torch.randn(8, 40, requires_grad=True)],
}
