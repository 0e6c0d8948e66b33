"""Faults are named, carried by the environment alone, and reach a process and its children before they import Inductor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.debug import code_objects, faults, injection
from cpulab.errors import BadSimdlen, FaultNotInjectable, UnknownFault, UnknownOverride
from cpulab.paths import LIBRARY

if TYPE_CHECKING:
    from types import CodeType

# What the hook needs of PyTorch, so that it can be tried without it.
STAND_IN = {
    "torch/__init__.py": "",
    "torch/_inductor/__init__.py": "",
    "torch/_inductor/config.py": "class cpp:\n    simdlen = None\n",
    "torch/_inductor/codegen/__init__.py": "",
    "torch/_inductor/codegen/cpp.py": (
        "class CppOverrides:\n"
        "    @staticmethod\n"
        "    def neg(x):\n"
        "        return f'decltype({x})(-{x})'\n"
        "class CppVecOverrides(CppOverrides):\n"
        "    @staticmethod\n"
        "    def neg(x):\n"
        "        return f'{x}.neg()'\n"
    ),
}

ASK = (
    "import json, torch._inductor.config as config, torch._inductor.codegen.cpp as cpp;"
    "print(json.dumps([cpp.CppOverrides.neg('t'), cpp.CppVecOverrides.neg('t'), config.cpp.simdlen]))"
)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    for name, text in STAND_IN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(code: str, path: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("CPULAB_", "PYTHON"))}
    pythonpath = os.pathsep.join([*([variables["PYTHONPATH"]] if "PYTHONPATH" in variables else []), str(path)])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**settings, **variables, "PYTHONPATH": pythonpath},
        cwd=path,
        capture_output=True,
        text=True,
        check=False,
    )


def answer(code: str, path: Path, variables: dict[str, str]) -> list[Any]:
    completed = run(code, path, variables)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


HEALTHY = ["decltype(t)(-t)", "t.neg()", None]


def test_without_variables_nothing_is_changed(stand_in: Path) -> None:
    assert answer(ASK, stand_in, {}) == HEALTHY


def test_the_hook_alone_changes_nothing(stand_in: Path) -> None:
    pythonpath = faults.variables("neg_without_cast", "scalar")["PYTHONPATH"]
    assert answer(ASK, stand_in, {"PYTHONPATH": pythonpath}) == HEALTHY


@pytest.mark.parametrize(
    ("fault", "override", "generated"),
    [
        ("neg_without_cast", "scalar", ["-t", "t.neg()"]),
        ("neg_without_cast", "vector", ["decltype(t)(-t)", "-t"]),
        ("neg_doubled", "scalar", ["decltype(t)(2 * t)", "t.neg()"]),
        ("neg_added_to_itself", "vector", ["decltype(t)(-t)", "(t + t)"]),
    ],
)
def test_a_fault_breaks_its_override_alone(stand_in: Path, fault: str, override: str, generated: list[str]) -> None:
    assert answer(ASK, stand_in, faults.variables(fault, override))[:2] == generated


def test_a_fault_reaches_a_child_in_another_folder(stand_in: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = str(tmp_path_factory.mktemp("isolate"))
    spawn = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ASK!r}], cwd={elsewhere!r}, check=True)"
    assert answer(spawn, stand_in, faults.variables("neg_without_cast", "scalar"))[0] == "-t"


def test_the_scalar_variant_is_forced_and_joins_a_fault(stand_in: Path) -> None:
    assert answer(ASK, stand_in, faults.variant_variables("scalar")) == [*HEALTHY[:2], 1]
    both = {**faults.variables("neg_doubled", "scalar"), **faults.variant_variables("scalar")}
    assert answer(ASK, stand_in, both) == ["decltype(t)(2 * t)", "t.neg()", 1]


def test_the_vectorized_variant_needs_no_variables() -> None:
    assert faults.variant_variables("vectorized") == {}


def test_the_variables_name_absolute_folders_and_keep_the_library() -> None:
    folders = faults.variables("neg_doubled", "scalar")["PYTHONPATH"].split(os.pathsep)
    assert all(Path(folder).is_absolute() for folder in folders)
    assert (Path(folders[0]) / "sitecustomize.py").is_file()
    assert folders[1:] == [str(LIBRARY)]


def test_a_sitecustomize_that_stood_there_before_still_runs(stand_in: Path) -> None:
    (stand_in / "sitecustomize.py").write_text("import sys; sys.was_here = True\n")
    code = f"import sys; assert sys.was_here; {ASK}"
    assert answer(code, stand_in, faults.variables("neg_without_cast", "scalar"))[0] == "-t"


def test_an_unknown_fault_is_refused_by_name() -> None:
    with pytest.raises(UnknownFault, match=r"'neg_tripled'.*neg_doubled"):
        faults.variables("neg_tripled", "scalar")


def test_an_unknown_override_is_refused_by_name() -> None:
    with pytest.raises(UnknownOverride, match=r"'tile'.*scalar, vector"):
        faults.variables("neg_doubled", "tile")


@pytest.mark.parametrize("setting", ["neg_tripled:scalar", "neg_doubled", "neg_doubled:tile"])
def test_a_process_with_a_wrong_fault_stops_before_it_starts(stand_in: Path, setting: str) -> None:
    variables = {**faults.variables("neg_doubled", "scalar"), "CPULAB_FAULT": setting}
    completed = run("print('ran')", stand_in, variables)
    assert completed.returncode == 1
    assert completed.stdout == ""
    assert completed.stderr.startswith("error: ")
    assert "Choose one of" in completed.stderr


def test_a_vector_length_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadSimdlen, match="CPULAB_SIMDLEN=wide"):
        injection.actions({"CPULAB_SIMDLEN": "wide"})


def test_an_op_that_this_version_does_not_have_is_an_error_and_not_silence(stand_in: Path) -> None:
    (stand_in / "torch/_inductor/codegen/cpp.py").write_text("class CppOverrides:\n    pass\n")
    completed = run(ASK, stand_in, faults.variables("neg_doubled", "scalar"))
    assert completed.returncode != 0
    assert FaultNotInjectable.__name__ in completed.stderr


def test_a_faulty_generator_stands_for_the_healthy_one_and_remembers_what_it_gave() -> None:
    class CppOverrides:
        @staticmethod
        def neg(x: str) -> str:
            return x

    injection.generated.clear()
    injection.inject(SimpleNamespace(CppOverrides=CppOverrides), faults.FAULTS["neg_without_cast"], "scalar")  # type: ignore[arg-type]
    # Called on an instance, too, and found by its name.
    assert CppOverrides().neg("tmp1") == "-tmp1"
    assert CppOverrides.neg("tmp2") == "-tmp2"
    assert CppOverrides.neg.__name__ == "neg"
    assert injection.generated == ["-tmp1", "-tmp2"]


def code_of(text: str) -> CodeType:
    return code_objects._nested(compile(text, "x.py", "exec"), "neg")


def test_code_objects_differ_by_what_they_do_and_not_by_where_they_stand() -> None:
    healthy = "def neg(x):\n    return f'-{x}'\n"
    assert code_objects.digest(code_of(healthy)) == code_objects.digest(code_of(f"\n\n{healthy}"))
    assert code_objects.digest(code_of(healthy)) != code_objects.digest(code_of(healthy.replace("-", "+")))
    assert code_objects.digest(code_of(healthy)) != code_objects.digest(code_of(healthy.replace("{x}", "{x()}")))
    one, other = (code_of(healthy.replace("{x}", f"{{x.{name}}}")) for name in ("real", "imag"))
    assert code_objects.digest(one) != code_objects.digest(other)
