"""What is in force inside a measured process, as that process finds it. Runs there.

``python -m cpulab.host.attest`` prints one JSON object, the last line of its output.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
import time
from array import array
from pathlib import Path
from typing import Any, NamedTuple

from cpulab.host.kernel import fields
from cpulab.host.tuning import MALLOC_OPTIONS

# GNU's, Intel's and LLVM's OpenMP runtimes, with the suffixes that wheels give them.
OPENMP_LIBRARY = re.compile(r"/lib(gomp|iomp5|omp)[-.\w]*\.so[.\d]*$")

# A thread between two parallel regions spins before it sleeps; so often, a millisecond apart, it is looked at again.
LOOKS = 300

# Frames of a thread that waits stand within this many bytes of its stack pointer.
STACK_BYTES = 1 << 18


class _DlInfo(ctypes.Structure):
    _fields_ = (
        ("dli_fname", ctypes.c_char_p),
        ("dli_fbase", ctypes.c_void_p),
        ("dli_sname", ctypes.c_char_p),
        ("dli_saddr", ctypes.c_void_p),
    )


class Mapping(NamedTuple):
    """One line of /proc/self/maps (proc_pid_maps(5)); ``file`` is empty for anonymous memory."""

    start: int
    end: int
    permissions: str
    file: str


def mappings() -> list[Mapping]:
    """Return what is mapped into this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, permissions, *rest = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in span.split("-"))
        found.append(Mapping(start, end, permissions, rest[3] if len(rest) > 3 else ""))
    return found


def provider(process: ctypes.CDLL, symbol: str) -> str | None:
    """Return the file whose ``symbol`` the process's own look-up finds first (dladdr(3)), or None."""
    try:
        address = ctypes.cast(getattr(process, symbol), ctypes.c_void_p)
    except AttributeError:
        return None
    found = _file_of(process, address)
    if found != str(Path("/proc/self/exe").resolve()):
        return found
    # An executable that is linked to a fixed address, as Debian's python is, has an entry of its own for a function
    # that it calls, and the look-up gives that; the function is the first library's that has one.
    for library in _libraries():
        own = getattr(ctypes.CDLL(library, os.RTLD_NOLOAD | os.RTLD_LAZY), symbol, None)
        if own is not None and _file_of(process, ctypes.cast(own, ctypes.c_void_p)) == str(Path(library).resolve()):
            return str(Path(library).resolve())
    return found


def _file_of(process: ctypes.CDLL, address: ctypes.c_void_p) -> str | None:
    found = _DlInfo()
    if not process.dladdr(address, ctypes.byref(found)) or found.dli_fname is None:
        return None
    return str(Path(os.fsdecode(found.dli_fname)).resolve())


def _libraries() -> list[str]:
    """Return the libraries of this process in the order of the look-up (dl_iterate_phdr(3)), less the executable."""

    class Info(ctypes.Structure):
        _fields_ = (("dlpi_addr", ctypes.c_void_p), ("dlpi_name", ctypes.c_char_p))

    found: list[str] = []

    def take(info: Any, _size: int, _data: object) -> int:
        found.append(os.fsdecode(info.contents.dlpi_name or b""))
        return 0

    called = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(called(take), None)
    return [name for name in found if name.startswith("/")]


def malloc_options(process: ctypes.CDLL) -> dict[str, str | None]:
    """Read jemalloc's live options (mallctl ``opt.*``); None for one it does not have, or without jemalloc."""
    options: dict[str, str | None] = {}
    for name in MALLOC_OPTIONS:
        value: Any
        if name == "background_thread":
            value = ctypes.c_bool()
        elif name == "oversize_threshold":
            value = ctypes.c_size_t()
        elif name.endswith("_ms"):
            value = ctypes.c_ssize_t()
        else:
            value = ctypes.c_char_p()
        options[name] = _mallctl(process, f"opt.{name}", value)
    return options


def _mallctl(process: ctypes.CDLL, name: str, value: Any) -> str | None:
    try:
        mallctl = process.mallctl
    except AttributeError:
        return None
    size = ctypes.c_size_t(ctypes.sizeof(value))
    if mallctl(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    return value.value.decode() if isinstance(value.value, bytes) else str(value.value).lower()


def threads(mapped: list[Mapping]) -> list[dict[str, Any]]:
    """Return of every thread of this process its name, its allowed CPUs (kernel list format) and its OpenMP runtime.

    ``runtime`` is the file of the OpenMP runtime that started the thread, None where none did. ``in_team`` marks the
    threads that run parallel regions: the main one and those that a runtime started.
    """
    found = []
    for folder in sorted(Path("/proc/self/task").iterdir(), key=lambda one: int(one.name)):
        about = fields((folder / "status").read_text())
        is_main = int(folder.name) == os.getpid()
        runtime = None if is_main else thread_runtime(folder, mapped)
        found.append(
            {
                "name": about["Name"],
                "cpus": about["Cpus_allowed_list"],
                "runtime": runtime,
                "in_team": is_main or runtime is not None,
            }
        )
    return found


def thread_runtime(folder: Path, mapped: list[Mapping]) -> str | None:
    """Return the OpenMP runtime whose code the thread of ``folder`` (/proc/self/task/ID) came from, or None.

    A thread that waits has its stack pointer in ``syscall`` (proc_pid_syscall(5)). Of the return addresses above it
    that lie in an OpenMP runtime, the outermost belongs to the function that the runtime started the thread with. No
    name tells this: libgomp names its threads after the program, and several runtimes may be mapped with one at work.
    """
    for _ in range(LOOKS):
        words = (folder / "syscall").read_text().split()
        if len(words) > 2:
            break
        time.sleep(0.001)
    else:
        return None
    pointer = int(words[-2], 16)
    stack = next((one for one in mappings() if one.start <= pointer < one.end), None)
    if stack is None:
        return None
    span = min(stack.end - pointer, STACK_BYTES) // 8 * 8
    frames = array("Q", ctypes.string_at(pointer, span))
    code = [one for one in mapped if "x" in one.permissions and OPENMP_LIBRARY.search(one.file)]
    for address in reversed(frames):
        for one in code:
            if one.start <= address < one.end:
                return str(Path(one.file).resolve())
    return None


def memory_policy(address: int) -> dict[str, Any]:
    """Return the policy and the pages a node of the mapping that holds ``address`` (/proc/self/numa_maps, numa(7))."""
    try:
        lines = Path("/proc/self/numa_maps").read_text().splitlines()
    except OSError as error:
        return {"policy": None, "pages": {}, "reason": f"/proc/self/numa_maps cannot be read ({error.strerror})"}
    below = [line.split() for line in lines if int(line.split()[0], 16) <= address]
    mapping = max(below, key=lambda words: int(words[0], 16))
    pages = {word[1:].split("=")[0]: int(word.split("=")[1]) for word in mapping if word[0] == "N" and "=" in word}
    return {"policy": mapping[1], "pages": pages, "reason": None}


def facts() -> dict[str, Any]:
    """Run one parallel region of torch, then say what is in force in this process; ``seconds`` is what that took."""
    import torch

    start = time.perf_counter()
    touched = torch.ones(2048, 2048).exp_()
    process = ctypes.CDLL(None)
    runtime = provider(process, "omp_get_max_threads")
    is_intel = runtime is not None and "iomp5" in Path(runtime).name
    mapped = mappings()
    return {
        "openmp_runtime": runtime,
        # What torch's own code calls; its wheel is built with GNU's compiler.
        "openmp_entry": provider(process, "GOMP_parallel"),
        "openmp_mapped": sorted({one.file for one in mapped if OPENMP_LIBRARY.search(one.file)}),
        "kmp_blocktime": int(process.kmp_get_blocktime()) if is_intel else None,
        "malloc": provider(process, "malloc"),
        "malloc_version": _mallctl(process, "version", ctypes.c_char_p()),
        "malloc_options": malloc_options(process),
        "threads": threads(mapped),
        "memory": memory_policy(touched.data_ptr()),
        "torch_threads": torch.get_num_threads(),
        "seconds": time.perf_counter() - start,
    }


def build() -> dict[str, Any]:
    """Return what code is generated for and with: instruction sets, compiler, versions, how torch was built."""
    import importlib.metadata as packages
    import platform

    import torch
    from torch._inductor import cpp_builder, cpu_vec_isa

    isa = cpu_vec_isa.pick_vec_isa()
    flags = cpu_vec_isa.x86_isa_checker()
    installed = {
        distribution.metadata["Name"].lower(): distribution.version for distribution in packages.distributions()
    }
    names = ["torch", "transformers", "numpy", "intel-openmp"]
    return {
        "torch_build": [line.strip() for line in torch.__config__.show().splitlines() if line.strip()],
        "torch_parallel": torch.__config__.parallel_info().strip().splitlines(),
        "torch_git": torch.version.git_version,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "inductor_isa": str(isa) if isa else "none",
        # What the processor offers, and what of it the compiler builds and the loader loads: Inductor tries each.
        "isa_offered": [str(one) for one in cpu_vec_isa.supported_vec_isa_list if set(str(one).split()) <= set(flags)],
        "isa_usable": [str(one) for one in cpu_vec_isa.valid_vec_isa_list()],
        "compiler": cpp_builder.get_cpp_compiler(),
        "versions": {
            "python": platform.python_version(),
            **{name: installed[name] for name in names if name in installed},
        },
    }


if __name__ == "__main__":
    json.dump(facts() | (build() if "--build" in sys.argv else {}), sys.stdout)
