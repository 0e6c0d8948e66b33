"""What is in force inside a measured process, as that process finds it. Runs there; prints one JSON object."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

from cpulab.host.kernel import fields


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


def provider(process: ctypes.CDLL, symbol: str) -> str | None:
    """Return the file whose ``symbol`` the process's own look-up finds first (dladdr(3)), or None."""
    try:
        address = ctypes.cast(getattr(process, symbol), ctypes.c_void_p)
    except AttributeError:
        return None
    found = _DlInfo()
    if not process.dladdr(address, ctypes.byref(found)) or found.dli_fname is None:
        return None
    return str(Path(os.fsdecode(found.dli_fname)).resolve())


def malloc_options(process: ctypes.CDLL, names: list[str]) -> dict[str, str | None]:
    """Read jemalloc's live options (mallctl ``opt.*``); None for one it does not have, or without jemalloc."""
    options: dict[str, str | None] = {}
    for name in names:
        try:
            mallctl = process.mallctl
        except AttributeError:
            options[name] = None
            continue
        value: Any
        if name == "background_thread":
            value = ctypes.c_bool()
        elif name == "oversize_threshold":
            value = ctypes.c_size_t()
        elif name.endswith("_ms"):
            value = ctypes.c_ssize_t()
        else:
            value = ctypes.c_char_p()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        if mallctl(f"opt.{name}".encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)):
            options[name] = None
        elif isinstance(value.value, bytes):
            options[name] = value.value.decode()
        else:
            options[name] = str(value.value).lower()
    return options


def thread_affinities() -> list[dict[str, Any]]:
    """Return name, role and allowed CPUs (kernel list format) of every thread of this process.

    ``in_team`` marks the threads that run parallel regions: the main one and those that libiomp5 names openmp_worker.
    """
    threads = []
    for status in sorted(Path("/proc/self/task").glob("*/status")):
        about = fields(status.read_text())
        name = about["Name"]
        in_team = int(about["Pid"]) == os.getpid() or name.startswith("openmp_worker")
        threads.append({"name": name, "in_team": in_team, "cpus": about["Cpus_allowed_list"]})
    return threads


def memory_policy(address: int) -> dict[str, Any]:
    """Return the policy and the pages a node of the mapping that holds ``address`` (/proc/self/numa_maps, numa(7))."""
    try:
        lines = Path("/proc/self/numa_maps").read_text().splitlines()
    except OSError as error:
        return {"policy": None, "pages": {}, "reason": str(error)}
    below = [line.split() for line in lines if int(line.split()[0], 16) <= address]
    mapping = max(below, key=lambda words: int(words[0], 16))
    pages = {word[1:].split("=")[0]: int(word.split("=")[1]) for word in mapping if word[0] == "N" and "=" in word}
    return {"policy": mapping[1], "pages": pages, "reason": None}


def attest(malloc_names: list[str]) -> dict[str, Any]:
    """Run one parallel region of torch, then say what is in force in this process."""
    import torch
    from torch._inductor import cpp_builder, cpu_vec_isa

    touched = torch.ones(4096, 4096).exp_()
    process = ctypes.CDLL(None)
    runtime = provider(process, "omp_get_max_threads")
    isa = cpu_vec_isa.pick_vec_isa()
    flags = cpu_vec_isa.x86_isa_checker()
    blocktime = None
    if runtime is not None and "iomp5" in runtime:
        blocktime = int(process.kmp_get_blocktime())
    mapped = {line.split(maxsplit=5)[5].strip() for line in Path("/proc/self/maps").read_text().splitlines()
              if "/" in line}  # fmt: skip
    return {
        "openmp_runtime": runtime,
        "openmp_mapped": sorted(path for path in mapped if "omp" in Path(path).name and ".so" in path),
        "kmp_blocktime": blocktime,
        "malloc": provider(process, "malloc"),
        "malloc_options": malloc_options(process, malloc_names),
        "threads": thread_affinities(),
        "memory": memory_policy(touched.data_ptr()),
        "torch_threads": torch.get_num_threads(),
        "torch_parallel": torch.__config__.parallel_info().strip().splitlines(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "inductor_isa": str(isa) if isa else "none",
        # What the processor offers, and what of it the compiler builds and the loader loads: Inductor tries each.
        "isa_offered": [str(one) for one in cpu_vec_isa.supported_vec_isa_list if set(str(one).split()) <= set(flags)],
        "isa_usable": [str(one) for one in cpu_vec_isa.valid_vec_isa_list()],
        "compiler": cpp_builder.get_cpp_compiler(),
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    import importlib.metadata as packages
    import platform

    names = ["torch", "transformers", "numpy", "intel-openmp"]
    found = {dist.metadata["Name"].lower(): dist.version for dist in packages.distributions()}
    return {"python": platform.python_version(), **{name: found[name] for name in names if name in found}}


if __name__ == "__main__":
    json.dump(attest(sys.argv[1:]), sys.stdout)
