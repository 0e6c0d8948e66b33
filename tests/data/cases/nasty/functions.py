"""Functions that end, crash, hang or cannot be compared; each is a result."""

import ctypes
import os
import signal
import sys

import torch


def raises(x):
    raise ValueError("no such mode")


def returns_nothing(x):
    x + 1


def returns_a_number(x):
    return float(x.sum())


def returns_a_word(x):
    return "done"


def exits(x):
    sys.exit(3)


def exits_at_once(x):
    os._exit(0)


def segfaults(x):
    return ctypes.string_at(0)


def aborts(x):
    os.abort()


def kills_itself(x):
    os.kill(os.getpid(), signal.SIGKILL)


def loops_for_ever(x):
    while True:
        x = x + 1


def runs_out_of_memory(x):
    return torch.ones(1 << 42) + x


def runs_out_of_memory_in_python(x):
    return x, bytearray(1 << 45)


def no_tensor_inputs(n):
    return torch.arange(n) * 2


def no_inputs():
    return torch.ones(3).cumsum(0)


def mutates(x, y):
    x.mul_(2)
    return x + y


def asks_for_input(x):
    return x + float(input("how much? "))


def fails_only_compiled(x):
    return x + 1 if not torch.compiler.is_compiling() else torch.zeros(3) + 1


def hangs_only_compiled(x):
    if torch.compiler.is_compiling():
        _forever()
    return x + 1


@torch._dynamo.disable
def _forever():
    while True:
        pass


def crashes_only_compiled(x):
    if torch.compiler.is_compiling():
        _crash()
    return x + 1


@torch._dynamo.disable
def _crash():
    ctypes.string_at(0)


def wrong_inputs(x):
    return x


def raising_inputs(x):
    return x


not_callable = 3


INPUTS = {
    name: lambda: [torch.ones(3)]
    for name in (
        "raises", "returns_nothing", "returns_a_number", "returns_a_word", "exits", "exits_at_once", "segfaults", "aborts",
        "kills_itself", "loops_for_ever", "runs_out_of_memory", "runs_out_of_memory_in_python", "asks_for_input",
        "fails_only_compiled", "hangs_only_compiled", "crashes_only_compiled", "not_callable",
    )
} | {
    "no_tensor_inputs": lambda: [5],
    "no_inputs": list,
    "mutates": lambda: [torch.ones(3), torch.ones(3)],
    "wrong_inputs": lambda: torch.ones(3),
    "raising_inputs": lambda: 1 / 0,
}
