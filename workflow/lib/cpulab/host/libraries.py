"""Where the shared libraries of the tuned environment stand."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from cpulab.errors import MissingLibrary, MissingProgram

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Library -> file names it goes by, and how to get it.
LIBRARIES: dict[str, tuple[list[str], str]] = {
    "libiomp5": (["libiomp5.so"], "delete the folder .venv-cpu and rerun, it comes with envs/cpu.lock"),
    "libjemalloc": (["libjemalloc.so", "libjemalloc.so.2"], "sudo apt-get install libjemalloc2"),
}

# What Inductor itself tries, in its order, when CXX is not set (torch._inductor.config.cpp.cxx).
COMPILERS = ["g++", "clang++"]


def folders(environment: Path, variables: Mapping[str, str]) -> list[Path]:
    """Return the folders to look in: the environment's lib, CONDA_PREFIX's lib, then the system's."""
    conda = [Path(variables["CONDA_PREFIX"]) / "lib"] if variables.get("CONDA_PREFIX") else []
    triplet = f"{platform.machine()}-linux-gnu"
    system = [f"/usr/local/lib/{triplet}", "/usr/local/lib", f"/usr/lib/{triplet}", "/usr/lib64", "/usr/lib"]
    return [environment / "lib", *conda, *map(Path, system)]


def find(library: str, looked_in: Sequence[Path]) -> Path:
    """Return the first file that ``library`` goes by in the folders.

    Raises:
        MissingLibrary: it is in none of them.

    """
    names, remedy = LIBRARIES[library]
    for folder in looked_in:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise MissingLibrary(" or ".join(names), remedy, map(str, looked_in))


def find_compiler(variables: Mapping[str, str]) -> Path:
    """Return the C++ compiler that Inductor will use: CXX, or the first of `COMPILERS` on the PATH.

    Raises:
        MissingProgram: there is none.

    """
    names = [variables["CXX"]] if variables.get("CXX") else COMPILERS
    for name in names:
        for folder in [""] if "/" in name else variables.get("PATH", os.defpath).split(os.pathsep):
            path = Path(folder) / name if folder else Path(name)
            if path.is_file() and os.access(path, os.X_OK):
                return path
    raise MissingProgram("C++ compiler", names, "sudo apt-get install g++")
