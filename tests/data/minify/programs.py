"""Programs for the reducer, a case file: each has one neg (the op that the tests break), or none."""

import torch


def twenty_and_more(x, y):
    for _ in range(9):
        x = torch.sin(x) * y
    x = x - torch.neg(y).exp()
    return torch.cos(x) + 1, x.sum(0)


def adds_in_place(x, y):
    x.add_(torch.neg(y))
    return x * 2


def two_graphs(x):
    y = torch.sin(x)
    print("a graph break")
    return torch.neg(y) * 3


def random_inside(x):
    return torch.neg(x) + torch.rand_like(x)


def cosine_of_product(x, w):
    return torch.cos(x @ w).sum()


def right(x):
    return torch.sin(x) + 1


def in_a_branch(x):
    return torch.cond(x.sum() > 0, lambda x: torch.neg(x), lambda x: x.sin(), (x,))


INPUTS = {
    "twenty_and_more": lambda: [torch.randn(70, 33), torch.rand(33)],
    "adds_in_place": lambda: [torch.arange(40), torch.arange(2**60, 2**60 + 40)],
    "two_graphs": lambda: [torch.randn(9, 9).half()],
    "random_inside": lambda: [torch.randn(50)],
    "cosine_of_product": lambda: [torch.randn(5, 6, requires_grad=True), torch.randn(6, 7, requires_grad=True)],
    "right": lambda: [torch.randn(5, 3).t()],
    "in_a_branch": lambda: [torch.rand(5)],
}
