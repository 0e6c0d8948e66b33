"""CPU affinity and memory policy of this process, by py-libnuma: the one module that knows that library."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cpulab.errors import BindingRefused, MissingLibrary

if TYPE_CHECKING:
    from collections.abc import Sequence


def _libnuma() -> tuple[Any, Any]:
    try:
        from numa import memory, schedule  # noqa: PLC0415 - importing it loads the shared library
    except (ImportError, OSError, AttributeError, Exception) as error:
        raise MissingLibrary("libnuma.so.1", "sudo apt-get install libnuma1", [f"the loader's path ({error})"]) from error
    return schedule, memory


def bind(cpus: Sequence[int], memory_nodes: Sequence[int] | None) -> None:
    """Bind this process, and what it becomes or starts, to ``cpus`` and ``memory_nodes`` (None: leave the policy).

    Raises:
        BindingRefused: the kernel does not allow it.
        MissingLibrary: libnuma is not installed.

    """
    schedule, memory = _libnuma()
    try:
        schedule.run_on_cpus(0, *cpus)
    except Exception as error:  # py-libnuma raises nothing more exact
        raise BindingRefused(f"CPUs {list(cpus)}", str(error)) from error
    bound = sorted(os.sched_getaffinity(0))
    if bound != sorted(cpus):
        raise BindingRefused(f"CPUs {list(cpus)}", f"the kernel left it on {bound}")
    if memory_nodes is not None:
        memory.set_membind_nodes(*memory_nodes)  # libnuma reports a refusal on stderr only, so look
        left = list(memory.get_membind_nodes())
        if left != sorted(memory_nodes):
            raise BindingRefused(f"memory nodes {list(memory_nodes)}", f"the kernel left it on {left}")
