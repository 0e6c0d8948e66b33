"""CPU affinity and memory policy of this process, by py-libnuma: the one module that knows that library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cpulab.errors import BindingRefused, MissingLibrary
from cpulab.host.topology import NumaView, format_list

if TYPE_CHECKING:
    from collections.abc import Sequence


def _libnuma() -> tuple[Any, Any]:
    try:
        from numa import memory, schedule
    except Exception as error:  # py-libnuma raises a bare one when libnuma is missing
        looked_in = [f"the loader's path ({error})"]
        raise MissingLibrary("libnuma.so.1", "sudo apt-get install libnuma1", looked_in) from error
    return schedule, memory


def check_available() -> None:
    """Raise `MissingLibrary` where libnuma cannot be loaded."""
    _libnuma()


def view() -> NumaView:
    """Return which nodes and CPUs libnuma sees, and which of them it says that this process may use.

    Raises:
        MissingLibrary: libnuma is not installed.

    """
    schedule, memory = _libnuma()
    from numa import info

    node_cpus = {}
    for node in range(info.get_max_node() + 1):  # ids may have gaps, so their number does not tell them
        cpus = list(info.node_to_cpus(node))
        if cpus or memory.node_memory_info(node)[0] > 0:
            node_cpus[node] = cpus
    return NumaView(
        node_cpus=node_cpus,
        allowed_cpus=list(schedule.get_affinitive_cpus(0)),
        # Empty where the kernel refuses the question (get_mempolicy, in a container without CAP_SYS_NICE).
        allowed_nodes=list(memory.get_allocation_allowed_nodes()) or None,
    )


def bind(cpus: Sequence[int], memory_nodes: Sequence[int] | None) -> None:
    """Bind this process, and what it becomes or starts, to ``cpus`` and ``memory_nodes`` (None: leave the policy).

    Raises:
        BindingRefused: the kernel does not allow it.
        MissingLibrary: libnuma is not installed.

    """
    schedule, _ = _libnuma()
    try:
        schedule.run_on_cpus(0, *cpus)
    except Exception as error:  # py-libnuma raises nothing more exact
        raise BindingRefused(f"CPUs {list(cpus)}", str(error)) from error
    bound = sorted(os.sched_getaffinity(0))
    if bound != sorted(cpus):
        raise BindingRefused(f"CPUs {list(cpus)}", f"the kernel left it on {bound}")
    if memory_nodes is not None:
        refused = memory_refusal(memory_nodes)
        if refused is not None:
            raise BindingRefused(f"memory nodes {list(memory_nodes)}", refused["reason"])


def memory_refusal(nodes: Sequence[int]) -> dict[str, str] | None:
    """Bind this process's memory to ``nodes``; return None where the kernel did it, else ``{reason, remedy}``.

    A container without CAP_SYS_NICE refuses; libnuma says so on stderr only, so the policy is read back
    (/proc/self/numa_maps has it for every mapping; where it cannot be read, libnuma's answer stands).
    """
    _, memory = _libnuma()
    memory.set_membind_nodes(*nodes)
    wanted = f"bind:{format_list(list(nodes))}"
    try:
        lines = Path("/proc/self/numa_maps").read_text().splitlines()
    except OSError:
        is_bound = list(memory.get_membind_nodes()) == sorted(nodes)
    else:
        is_bound = any(line.split()[1].startswith(wanted) for line in lines)
    if is_bound:
        return None
    return {
        "reason": "the kernel refuses this process a memory policy (set_mempolicy)",
        "remedy": "in a container, start it with --cap-add SYS_NICE",
    }
