"""Right programs of many dtypes, shapes and kinds: nobody is to be accused of any."""

from __future__ import annotations

import collections
import dataclasses

import torch
import torch.nn.functional as F
from torch import nn


def float32_chain(x, y):
    return torch.relu(x * y + 1).sqrt().log1p()


def gelu_layernorm_linear(x, w, b):
    return F.gelu(F.layer_norm(F.linear(x, w, b), (32,)))


def softmax_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / 8, dim=-1) @ v


def scaled_dot_product(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def conv_and_pool(x, w, b):
    return F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)


def bfloat16_chain(x, y):
    return torch.tanh(x * y + x) * 0.5 + y.exp()


def float16_chain(x, y):
    return (x + y).sigmoid() * (x - y)


def bfloat16_linear_softmax(x, w):
    return torch.softmax(x @ w, dim=-1)


def float64_chain(x):
    return (x.sin() ** 2 + x.cos() ** 2).mean(dim=0)


def uint8_arithmetic(x, y):
    return x * y - 7, x // (y | 1), x >> 2, x ^ y


def int8_wraps(x, y):
    return x * y + x, -x, x.abs()


def int16_arithmetic(x, y):
    return torch.maximum(x - y, y), x % (y.abs() + 1)


def int32_arithmetic(x, y):
    return x * y + x, torch.clamp(x, -5, 5), x.sum()


def int64_arithmetic(x, y):
    return x * y - x, torch.bitwise_and(x, y), x.cumsum(0)


def bool_logic(x, y):
    return x & ~y, x.any(), (x ^ y).sum(), x.to(torch.float32).mean()


def complex_arithmetic(z, w):
    return z * w + z.conj(), z.abs()


def strided_expanded_transposed(x, y, z):
    return x + y + z.t()


def scatter_and_gather(x, index, source):
    return x.scatter_add(0, index, source), x.gather(0, index)


def index_add_and_select(x, index, source):
    return x.index_add(0, index, source).index_select(1, index[:3])


def advanced_indexing(x, rows, columns):
    x = x.clone()
    x[rows, columns] = 3.0
    return x[rows] + x[:, columns].sum()


def running_sums(x):
    return x.cumsum(1), x.cumprod(1), x.logcumsumexp(1)


def sorted_and_topk(x):
    values, order = x.sort(dim=1)
    return values, order, x.topk(3).values


def argmax_with_nan(x):
    return x.argmax(1), x.argmin(0), x.amax(1), torch.isnan(x).sum()


def reductions_of_nan(x):
    return x.sum(), x.mean(0), x.max(), x.nansum(), x.var(1), x.prod(0)


def embedding_lookup(ids, table):
    return F.embedding(ids, table).mean(1)


def views_as_outputs(x):
    y = x * 2
    return y[1:], y.t(), y.view(-1), x[::2]


def aliased_outputs(x):
    y = x.exp()
    return y, y, y + 0


def in_place(x, y):
    x.add_(1).mul_(y)
    y[0] = 0
    return x.sum()


def in_place_and_nothing(x):
    x.clamp_(min=0)


Pair = collections.namedtuple("Pair", ["sum", "difference"])  # noqa: PYI024


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    extra: dict


def nested_outputs(x, y):
    return {"pair": Pair(x + y, x - y), "answer": Answer(x * y, {"n": 3, "list": [x.max(), "word", None]})}


def scalars_among_inputs(x, n, scale, name):
    return (x * scale + n) if name == "add" else x


def scalar_among_outputs(x):
    return x * 2, x.shape[0], 2.5, float(x.sum())


def empty_tensors(x):
    return x + 1, x.sum(), torch.cat([x, x])


def zero_dimensional(x, y):
    return x * y + 1, x.sin()


def dynamic_control_flow(x):
    if x.sum() > 0:
        return x.cos() + 1
    return x.sin() - 1


def loop_and_print(x):
    for step in range(3):
        x = x * step + 1
        print("step", step)
    return x


def autograd_of_mlp(x, w1, w2):
    return F.mse_loss(torch.tanh(x @ w1) @ w2, torch.ones(8, 4))


def autograd_of_softmax(x):
    return torch.softmax(x, -1), F.log_softmax(x * 3, -1)


def autograd_of_norm(x, w):
    return F.layer_norm(x, (16,), w) * x.sigmoid()


def dtype_promotion(x, y, z):
    return x + y, y * z, x / 3, torch.where(x > 0, y, z)


def conversions_that_fit(x):
    return x.to(torch.int32), (x * 10).to(torch.uint8), x.to(torch.bool), x.to(torch.float16)


def bucketize_and_where(x, edges):
    return torch.bucketize(x, edges), torch.where(x > 0.5, x, -x)


def cat_stack_pad(x, y):
    return torch.cat([x, y], 1), torch.stack([x, x]), F.pad(x, (1, 2)), x.roll(1, 0), x.flip(1)


def random_without_effect(x):
    torch.rand(3)
    return x + 1


def long_reductions(x):
    return x.sum(), x.mean(1), x.std(0), (x * x).sum(1).sqrt()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.second = nn.Linear(32, 4)

    def forward(self, x):
        return self.second(F.relu(self.norm(self.first(x))))


net = Net()
evaluated = Net().eval()


def module_in_a_global(x):
    with torch.no_grad():
        return net.first(x)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


scale = Scale(3)


def _r(*shape, **kwargs):
    return torch.randn(*shape, **kwargs)


def _i(dtype, *shape):
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -(2**31)), min(limits.max, 2**31 - 1)
    return torch.randint(low, high, shape, dtype=torch.int64).to(dtype)


def _nan():
    x = _r(7, 19)
    x[2, 3] = float("nan")
    x[:, 5] = float("nan")
    return x


INPUTS = {
    "float32_chain": lambda: [_r(33, 17), _r(33, 17)],
    "gelu_layernorm_linear": lambda: [_r(9, 16), _r(32, 16), _r(32)],
    "softmax_attention": lambda: [_r(2, 10, 64), _r(2, 10, 64), _r(2, 10, 64)],
    "scaled_dot_product": lambda: [_r(1, 2, 12, 16), _r(1, 2, 12, 16), _r(1, 2, 12, 16)],
    "conv_and_pool": lambda: [_r(2, 3, 12, 12), _r(5, 3, 3, 3), _r(5)],
    "bfloat16_chain": lambda: [_r(40, 9).bfloat16(), _r(40, 9).bfloat16()],
    "float16_chain": lambda: [_r(40, 9).half(), _r(40, 9).half()],
    "bfloat16_linear_softmax": lambda: [_r(6, 64).bfloat16(), _r(64, 10).bfloat16()],
    "float64_chain": lambda: [_r(65, 5, dtype=torch.float64)],
    "uint8_arithmetic": lambda: [_i(torch.uint8, 77), _i(torch.uint8, 77)],
    "int8_wraps": lambda: [_i(torch.int8, 77), _i(torch.int8, 77)],
    "int16_arithmetic": lambda: [_i(torch.int16, 77), _i(torch.int16, 77)],
    "int32_arithmetic": lambda: [_i(torch.int32, 77), _i(torch.int32, 77)],
    "int64_arithmetic": lambda: [_i(torch.int64, 77), _i(torch.int64, 77)],
    "bool_logic": lambda: [_r(50) > 0, _r(50) > 0],
    "complex_arithmetic": lambda: [_r(20, dtype=torch.complex64), _r(20, dtype=torch.complex64)],
    "strided_expanded_transposed": lambda: [_r(12, 20)[::2, ::2], _r(6, 1).expand(6, 10), _r(10, 6)],
    "scatter_and_gather": lambda: [_r(8, 6), torch.randint(8, (8, 6)), _r(8, 6)],
    "index_add_and_select": lambda: [_r(8, 9), torch.tensor([0, 3, 3, 7]), _r(4, 9)],
    "advanced_indexing": lambda: [_r(8, 6), torch.tensor([1, 3, 5]), torch.tensor([0, 2, 4])],
    "running_sums": lambda: [_r(5, 30)],
    "sorted_and_topk": lambda: [_r(6, 20)],
    "argmax_with_nan": lambda: [_nan()],
    "reductions_of_nan": lambda: [_nan()],
    "embedding_lookup": lambda: [torch.randint(50, (4, 6)), _r(50, 16)],
    "views_as_outputs": lambda: [_r(6, 8)],
    "aliased_outputs": lambda: [_r(6, 8)],
    "in_place": lambda: [_r(6, 8), _r(6, 8)],
    "in_place_and_nothing": lambda: [_r(6, 8)],
    "nested_outputs": lambda: [_r(6, 8), _r(6, 8)],
    "scalars_among_inputs": lambda: [_r(6, 8), 3, 0.5, "add"],
    "scalar_among_outputs": lambda: [_r(6, 8)],
    "empty_tensors": lambda: [torch.empty(0, 4)],
    "zero_dimensional": lambda: [torch.tensor(1.5), torch.tensor(-2.0)],
    "dynamic_control_flow": lambda: [_r(30)],
    "loop_and_print": lambda: [_r(30)],
    "autograd_of_mlp": lambda: [_r(8, 16), _r(16, 12, requires_grad=True), _r(12, 4, requires_grad=True)],
    "autograd_of_softmax": lambda: [_r(5, 33, requires_grad=True)],
    "autograd_of_norm": lambda: [_r(5, 16, requires_grad=True), _r(16, requires_grad=True)],
    "dtype_promotion": lambda: [torch.arange(-9, 9), _r(18), _r(18, dtype=torch.float64)],
    "conversions_that_fit": lambda: [torch.rand(60) * 20],
    "bucketize_and_where": lambda: [torch.rand(60), torch.linspace(0, 1, 7)],
    "cat_stack_pad": lambda: [_r(4, 5), _r(4, 5)],
    "random_without_effect": lambda: [_r(4, 5)],
    "long_reductions": lambda: [torch.rand(300, 1000)],
    "net": lambda: [_r(12, 16)],
    "evaluated": lambda: [_r(12, 16)],
    "module_in_a_global": lambda: [_r(12, 16)],
    "scale": lambda: [_r(12, 16)],
}
