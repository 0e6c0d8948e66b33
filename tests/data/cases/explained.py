"""Programs whose compiled results differ from eager's without a fault, and what is to be said of each."""

from __future__ import annotations

import random
import time

import torch
import torch.nn.functional as F


def undefined_conversion(x):
    return (x * 1e10).to(torch.int8)


def undefined_conversion_of_nan(x):
    return torch.log(x).to(torch.int8).to(torch.float32) * 2


def undefined_conversion_in_part(x):
    return (x * 1).to(torch.int8), x + 1


def bfloat16_cancellation(x):
    return (x + 256) - 256


def bfloat16_comparison(x, y):
    return (x * y) > (x * y + x * 0.001)


def autocast_like(x, y):
    return (x.bfloat16() * y.bfloat16()).float() + 1.0


def float16_underflow(x):
    return (x * x) / x


def inverse_of_singular(x):
    return torch.linalg.inv(x @ x.t())


def cancelled_sum(x):
    return ((x + 1e6).sum() - x.sum() - 1e6 * x.numel()) / x.std()


def dropout(x):
    return F.dropout(x, 0.5) * 2


def randn_inside(x):
    return x + torch.randn_like(x)


def randint_and_permutation(x):
    return torch.randperm(30) * x + torch.randint(5, x.shape)


def permuted_at_random(x):
    return x[torch.randperm(30)]


def random_shape(x):
    n = int(torch.randint(2, 9, (1,)))
    return x[:n] * 2


def bernoulli_and_multinomial(x):
    return torch.bernoulli(x), torch.multinomial(x, 3)


def python_random(x):
    return x * random.random()


def in_place_random(x):
    return torch.empty(7).uniform_() + torch.empty(7).normal_() + x


def clock(x):
    return x + time.time()


def unset_memory(x):
    return x + torch.empty(100_000)


def random_beside(x):
    return x.sin(), torch.rand(3)


def random_of_gradients(x):
    return F.dropout(x, 0.5).exp()


counter = 0


def counts_its_calls(x):
    global counter
    counter += 1
    return x + counter


def sign_of_zero_in_division(x, y):
    return 1 / torch.maximum(x, y)


def zeros_of_both_signs(x):
    return torch.minimum(x, -x)


def sum_of_many(x):
    return x.sum(1)


def transposed_strides(x):
    return (x.t() + 1).contiguous(), x.t() * 2


INPUTS = {
    "undefined_conversion": lambda: [torch.randn(50)],
    "undefined_conversion_of_nan": lambda: [torch.linspace(-1, 5, 37)],
    "undefined_conversion_in_part": lambda: [torch.tensor([1.5, 1e9, float("inf"), -3.0] * 9)],
    "bfloat16_cancellation": lambda: [torch.rand(50).bfloat16()],
    "bfloat16_comparison": lambda: [torch.randn(500).bfloat16(), torch.randn(500).bfloat16()],
    "autocast_like": lambda: [torch.randn(50), torch.randn(50)],
    "float16_underflow": lambda: [torch.full((40,), 1e-4).half()],
    "inverse_of_singular": lambda: [torch.rand(4, 2)],
    "cancelled_sum": lambda: [torch.rand(1000)],
    "dropout": lambda: [torch.randn(30, 5)],
    "randn_inside": lambda: [torch.randn(30, 5)],
    "randint_and_permutation": lambda: [torch.randn(30)],
    "permuted_at_random": lambda: [torch.randn(30)],
    "random_shape": lambda: [torch.randn(30)],
    "bernoulli_and_multinomial": lambda: [torch.rand(30)],
    "python_random": lambda: [torch.randn(30)],
    "in_place_random": lambda: [torch.randn(7)],
    "clock": lambda: [torch.zeros(3, dtype=torch.float64)],
    "unset_memory": lambda: [torch.zeros(100_000)],
    "random_beside": lambda: [torch.randn(30)],
    "random_of_gradients": lambda: [torch.randn(30, requires_grad=True)],
    "counts_its_calls": lambda: [torch.randn(30)],
    "sign_of_zero_in_division": lambda: [torch.full((21,), -0.0), torch.zeros(21)],
    "zeros_of_both_signs": lambda: [torch.zeros(21)],
    "sum_of_many": lambda: [torch.rand(3, 100_000)],
    "transposed_strides": lambda: [torch.randn(5, 7)],
}
