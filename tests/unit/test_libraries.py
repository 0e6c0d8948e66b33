"""Libraries and the compiler are found, or the error says where they were looked for and how to get them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cpulab.errors import MissingLibrary, MissingProgram
from cpulab.host import libraries

if TYPE_CHECKING:
    from pathlib import Path


def test_a_versioned_name_is_found_too(tmp_path: Path) -> None:
    (tmp_path / "libjemalloc.so.2").touch()
    assert libraries.find("libjemalloc", [tmp_path / "none", tmp_path]) == tmp_path / "libjemalloc.so.2"


def test_the_environments_own_library_comes_before_condas_and_the_systems(tmp_path: Path) -> None:
    folders = libraries.folders(tmp_path, {"CONDA_PREFIX": "/conda"})
    assert [str(folder) for folder in folders[:2]] == [str(tmp_path / "lib"), "/conda/lib"]


@pytest.mark.parametrize(("library", "package"), [("libjemalloc", "libjemalloc2"), ("libiomp5", ".venv-cpu")])
def test_a_missing_library_says_where_it_was_looked_for_and_what_to_do(
    library: str, package: str, tmp_path: Path
) -> None:
    with pytest.raises(MissingLibrary) as error:
        libraries.find(library, [tmp_path])
    assert str(tmp_path) in str(error.value)
    assert package in str(error.value)


def test_no_compiler_on_the_path_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(MissingProgram, match=r"g\+\+, clang\+\+.*apt-get install g\+\+"):
        libraries.find_compiler({"PATH": str(tmp_path)})


def test_cxx_decides_which_compiler_it_is(tmp_path: Path) -> None:
    compiler = tmp_path / "my-compiler"
    compiler.touch(mode=0o755)
    assert libraries.find_compiler({"PATH": "/usr/bin", "CXX": str(compiler)}) == compiler


def test_no_libnuma_names_the_package() -> None:
    program = (
        "import ctypes.util; ctypes.util.find_library = lambda name: None\n"
        "from cpulab.errors import MissingLibrary\n"
        "from cpulab.host import binding\n"
        "try:\n    binding.check_available()\n"
        "except MissingLibrary as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "libnuma.so.1 was not found" in done.stdout, done.stderr
    assert "apt-get install libnuma1" in done.stdout
