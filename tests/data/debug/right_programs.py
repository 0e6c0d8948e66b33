"""Programs that are right, of kinds that are easily taken for wrong: nobody is at fault in them."""

import torch
import torch.nn.functional as F


def dropout(x):
    return F.dropout(x, 0.5) * 2


def adds_in_place(x):
    x.add_(1)
    return x * 2


def layer_norm(x, weight):
    return F.layer_norm(x, (37,), weight)


def batch_norm(x):
    return F.batch_norm(x, None, None, training=True)


def attention(q):
    return F.scaled_dot_product_attention(q, q, q)


def views_of_transposed(x):
    return x.t().reshape(-1).view(37, 5)[1:, ::2] * 2, x.t()


def low_precision_chain(x, y):
    return torch.softmax((x * y + 1).exp().tanh(), -1) * y


def solve(x):
    return torch.linalg.solve(x @ x.t() + torch.eye(7, dtype=torch.float64), x)


def constant_index(x):
    x = x.clone()
    x[[1, 1]] += x[[1, 1]]
    return x


def largest_three(x):
    return torch.topk(x, 3), x.max(1)


INPUTS = {
    "dropout": lambda: [torch.randn(5, 37)],
    "adds_in_place": lambda: [torch.randn(5, 37)],
    "layer_norm": lambda: [torch.randn(5, 37, requires_grad=True), torch.randn(37, requires_grad=True)],
    "batch_norm": lambda: [torch.randn(4, 3, 9, 9, requires_grad=True)],
    "attention": lambda: [torch.randn(1, 2, 17, 16, requires_grad=True)],
    "views_of_transposed": lambda: [torch.randn(5, 37)],
    "low_precision_chain": lambda: [torch.randn(5, 37).bfloat16(), torch.randn(5, 37).bfloat16()],
    "solve": lambda: [torch.randn(7, 7, dtype=torch.float64)],
    "constant_index": lambda: [torch.tensor([[1.0, 2.0], [3.0, 5.0]])],
    "largest_three": lambda: [torch.randn(5, 37)],
}
