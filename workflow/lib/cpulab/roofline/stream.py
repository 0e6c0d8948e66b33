"""STREAM's copy and triad on arrays of this process: compiled, loaded, checked. Runs in the measured process."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).with_name("stream.cpp")

# Without the last two, compilers make the copy a call of memcpy, whose stores bypass the caches. Eager's and Inductor's
# kernels store through them, so that a roof of other stores would be no bound of theirs.
FLAGS = (
    "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-fno-builtin", "-fno-tree-loop-distribute-patterns",
)  # fmt: skip

ELEMENT_BYTES = 8

# With b = 2 and copy and triad in turn, a and c stay below 4: nothing overflows, however long it runs.
SCALAR = 0.5


def compiler() -> str:
    """Return the C++ compiler that Inductor uses."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    return str(get_cpp_compiler())


def library(folder: Path) -> ctypes.CDLL:
    """Return the compiled kernels; built into ``folder`` where they are not there yet.

    Raises:
        subprocess.CalledProcessError: the compiler refuses them.

    """
    built = folder / "stream.so"
    if not built.exists():
        unfinished = folder / f"stream-{os.getpid()}.so"
        subprocess.run([compiler(), *FLAGS, "-o", str(unfinished), str(SOURCE)], check=True)
        unfinished.replace(built)
    return ctypes.CDLL(str(built))


@dataclass(frozen=True)
class Stream:
    """Three arrays of ``elements`` doubles, touched first by the ``threads`` that work on them."""

    kernels: ctypes.CDLL
    elements: int
    threads: int
    arrays: tuple[torch.Tensor, ...] = field(init=False)

    def __post_init__(self) -> None:
        arrays = tuple(torch.empty(self.elements, dtype=torch.float64) for _ in range(3))
        object.__setattr__(self, "arrays", arrays)
        self.kernels.first_touch(*map(_address, arrays), ctypes.c_ssize_t(self.elements), ctypes.c_int(self.threads))

    @property
    def array_bytes(self) -> int:
        """Size of one array."""
        return self.elements * ELEMENT_BYTES

    def copy(self, threads: int) -> Callable[[], None]:
        """Return the copy c = a. It moves 2 arrays: STREAM counts a read and a write, and no read for the write."""
        a, _, c = map(_address, self.arrays)
        elements, of = ctypes.c_ssize_t(self.elements), ctypes.c_int(threads)
        return lambda: self.kernels.copy(c, a, elements, of)

    def triad(self, threads: int) -> Callable[[], None]:
        """Return the triad a = b + 0.5 c. It moves 3 arrays, counted in the same way."""
        a, b, c = map(_address, self.arrays)
        elements, of, scalar = ctypes.c_ssize_t(self.elements), ctypes.c_int(threads), ctypes.c_double(SCALAR)
        return lambda: self.kernels.triad(a, b, c, scalar, elements, of)

    def is_right(self) -> bool:
        """Run both once on untouched arrays (1, 2 and 0) and tell whether every element is what it should be."""
        self.copy(self.threads)()
        self.triad(self.threads)()
        found = [[float(end) for end in array.aminmax()] for array in self.arrays]
        return found == [[2 + SCALAR] * 2, [2.0] * 2, [1.0] * 2]


def of_bytes(array_bytes: int, folder: Path) -> Stream:
    """Return arrays of so many bytes each for all threads of this process; as `library` builds into ``folder``."""
    return Stream(library(folder), array_bytes // ELEMENT_BYTES, torch.get_num_threads())


def _address(array: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.data_ptr())
