"""What the roofline step measures, each as arms of one process. Runs in the measured process."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cpulab.cases import PROGRAMS
from cpulab.measure.correctness import RELATIVE_TOLERANCE
from cpulab.measure.subjects import Subject
from cpulab.roofline import stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Call = Callable[[], Any]

# Rows and columns of the square matrices: 17 Gflop a product, so that starting threads is no part of it.
MATRIX = 2048


def machine(asked: Mapping[str, Any]) -> Subject:
    """Build the roofs: copy, triad and matrix products, on all threads (``copy``) and on one (``copy_one``).

    ``asked``: ``arms``, their names; ``array_bytes`` of each array; ``library``, the folder of the compiled kernels.
    Facts: ``roofs``, a row an arm with the ``bytes`` or ``flop`` of a call. A product of n x n matrices has n^3
    multiplications and as many additions.
    """
    threads = torch.get_num_threads()
    arrays = stream.of_bytes(asked["array_bytes"], Path(asked["library"]))
    right = arrays.is_right()
    generator = torch.Generator().manual_seed(asked["seed"])
    matrices = {
        dtype: [torch.rand(MATRIX, MATRIX, generator=generator).to(dtype) for _ in range(2)]
        for dtype in (torch.float32, torch.bfloat16)
        if f"matmul_{_name(dtype)}" in asked["arms"]
    }
    arms: dict[str, Call] = {}
    roofs: list[dict[str, Any]] = []
    for suffix, of in (("", threads), ("_one", 1)):
        for kernel, call, moved in (("copy", arrays.copy(of), 2), ("triad", arrays.triad(of), 3)):
            arms[kernel + suffix] = call
            roofs.append(_roof(kernel, kernel + suffix, of, moved=moved * arrays.array_bytes))
        for dtype, (left, right_hand) in matrices.items():
            kernel = f"matmul_{_name(dtype)}"
            product = partial(torch.mm, left, right_hand, out=torch.empty(MATRIX, MATRIX, dtype=dtype))
            arms[kernel + suffix] = product if of == threads else partial(_on, of, product)
            roofs.append(_roof(kernel, kernel + suffix, of, flop=2 * MATRIX**3))
    facts = {
        "roofs": roofs,
        "roofs_are_right": right,
        "array_bytes": arrays.array_bytes,
        "matrix_rows": MATRIX,
        "compiler": Path(stream.compiler()).name,
        "compiler_flags": " ".join(stream.FLAGS),
    }
    return Subject(_nothing, {}, facts, arms=arms)


def pattern(asked: Mapping[str, Any]) -> Subject:
    """Build the fused pattern with an eager arm that allocates nothing, and with roofs of the same size.

    ``preallocated`` has eager's operations, each into a tensor that exists. Eager frees each temporary one operation
    later, so that its allocator hands out two of them in turn: two tensors stand for them here, and both arms move the
    same bytes. ``copy`` and ``triad`` work on arrays of as many bytes as a matrix of the pattern has: triad reads two
    and writes one, as the fused kernel does, so that a cache that holds a part of the one holds that part of the other.

    Facts: ``bytes_moved``, a row an arm: what a call reads and writes at least, counted tensor by tensor, and as STREAM
    counts (a store that first reads its line counts once). Of m bytes a matrix and r a row:

    | arm | operations | reads | writes |
    |---|---|---|---|
    | eager, preallocated | x + bias | m + r | m |
    | | that + residual | 2 m | m |
    | | that * weight | m + r | m |
    | | that + shift | m + r | m |
    | inductor | one kernel | 2 m + 3 r | m |
    | copy | c = a | m | m |
    | triad | a = b + 0.5 c | 2 m | m |
    """
    program = PROGRAMS["fused_pattern"]
    x, bias, residual, weight, shift = inputs = program.inputs(asked["seed"])
    one, other = torch.empty_like(x), torch.empty_like(x)

    def preallocated() -> torch.Tensor:
        torch.add(x, bias, out=one)
        torch.add(one, residual, out=other)
        torch.mul(other, weight, out=one)
        return torch.add(one, shift, out=other)

    arrays = stream.of_bytes(x.nbytes, Path(asked["library"]))
    matrix, row = x.nbytes, bias.nbytes
    eager = {"reads": 5 * matrix + 3 * row, "writes": 4 * matrix}
    fused = {"reads": 2 * matrix + 3 * row, "writes": matrix}
    moved = {
        "eager": eager,
        "preallocated": eager,
        "inductor": fused,
        "copy": {"reads": matrix, "writes": matrix},
        "triad": {"reads": 2 * matrix, "writes": matrix},
    }
    rows, columns = x.shape
    facts = {
        "rows": rows,
        "columns": columns,
        "array_bytes": arrays.array_bytes,
        "bytes_moved": [
            {"arm": arm, **bytes_, "bytes": bytes_["reads"] + bytes_["writes"]} for arm, bytes_ in moved.items()
        ],
        "preallocated_is_right": torch.equal(preallocated(), program.function(*inputs)),
        "roofs_are_right": arrays.is_right(),
    }
    arms: dict[str, Call] = {
        "preallocated": preallocated,
        "copy": arrays.copy(arrays.threads),
        "triad": arrays.triad(arrays.threads),
    }
    return Subject(program.function, {}, facts, tuple(inputs), arms)


def linear(asked: Mapping[str, Any]) -> Subject:
    """Build each linear layer twice: plain, as eager calls it, and on a weight packed as Inductor's freezing packs it.

    ``asked["layers"]``: `cpulab.roofline.worker.layers`, each with the names of its arms; ``packing``: that worker's.
    Both arms add the bias, though the compiled model may leave that to a fused kernel: what is compared is the packing.
    The placebo is the plain layer again. Facts: how far packed is from plain, of the layer where it is the most for
    its tolerance (as `cpulab.measure.correctness`).
    """
    generator = torch.Generator().manual_seed(asked["seed"])
    arms: dict[str, Call] = {}
    differences = []
    for layer in asked["layers"]:
        of = layer["in_features"]
        x = torch.rand(layer["rows"], of, generator=generator)
        weight = (torch.rand(layer["out_features"], of, generator=generator) - 0.5) / of**0.5
        bias = torch.rand(layer["out_features"], generator=generator) if layer["bias"] else None
        plain = partial(torch.nn.functional.linear, x, weight, bias)
        arms[layer["plain"]] = arms[layer["placebo"]] = plain
        arms[layer["packed"]] = PACKINGS[asked["packing"]](x, weight, bias)
        expected, found = plain(), arms[layer["packed"]]()
        tolerance = RELATIVE_TOLERANCE[x.dtype] * float(expected.abs().max())
        differences.append((float((expected - found).abs().max()), tolerance))
    error, tolerance = max(differences, key=lambda one: one[0] / one[1])
    facts = {"packed_is_right": error <= tolerance, "largest_error": error, "tolerance": tolerance}
    return Subject(_nothing, {}, facts, arms=arms)


# The operators that Inductor's freezing puts in place of addmm, with the arguments that it gives them
# (torch/_inductor/fx_passes/mkldnn_fusion.py, CpuMkldnnDeviceOp).
def _mkl(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Call:
    rows = x.shape[0]
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, rows)  # noqa: SLF001 - the operator that it is about
    return partial(torch.ops.mkl._mkl_linear, x, packed, weight, bias, rows)  # noqa: SLF001


def _mkldnn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> Call:
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, x.shape[0])  # noqa: SLF001
    return partial(torch.ops.mkldnn._linear_pointwise, x, packed, bias, "none", [], "")  # noqa: SLF001


PACKINGS = {"mkl": _mkl, "mkldnn": _mkldnn}


def _roof(kernel: str, arm: str, threads: int, *, moved: int | None = None, flop: int | None = None) -> dict[str, Any]:
    return {"kernel": kernel, "arm": arm, "threads": threads, "bytes": moved, "flop": flop}


def _on(threads: int, call: Call) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    call()
    torch.set_num_threads(before)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _nothing() -> None:
    """Stand for the function of a subject that has arms only."""
