"""Faults are named, carried by the environment alone, and reach a process and its children before they import Inductor."""

from __future__ import annotations

import ast
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
    from collections.abc import Callable
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


class Kernel:
    """A class with what a fault may replace: a static function and a method."""

    @staticmethod
    def neg(x: str) -> str:
        return f"healthy {x}"

    def lines(self, n: int) -> list[str]:
        return [f"for (; x<{n}; )"]


def fault_in(place: str, gives: Callable[..., Any]) -> faults.Fault:
    generator = faults.Generator(place, gives, "accuracy")
    return faults.Fault("made_up", "", "aten.neg.default", "", {"scalar": generator})


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.setattr(injection, "generated", [])
    return SimpleNamespace(__name__="cpp", Kernel=type("Kernel", (), dict(vars(Kernel))))


def inject(module: SimpleNamespace, fault: faults.Fault) -> None:
    injection.inject(module, fault, "scalar")  # type: ignore[arg-type]


def test_a_faulty_generator_stands_for_the_healthy_one_and_remembers_what_it_gave(module: SimpleNamespace) -> None:
    inject(module, fault_in("Kernel.neg", lambda _healthy, x: f"-{x}"))
    # Called on an instance, too, and found by its name.
    assert module.Kernel().neg("tmp1") == "-tmp1"
    assert module.Kernel.neg("tmp2") == "-tmp2"
    assert module.Kernel.neg.__name__ == "neg"
    assert injection.generated == ["-tmp1", "-tmp2"]


def test_a_method_is_replaced_by_what_is_made_of_its_healthy_result(module: SimpleNamespace) -> None:
    inject(
        module, fault_in("Kernel.lines", lambda healthy, _kernel, n: [line.replace(f"{n}", "0") for line in healthy])
    )
    assert module.Kernel().lines(37) == ["for (; x<0; )"]
    assert injection.generated == ["for (; x<0; )"]


def test_what_a_fault_gives_right_stays_as_it_was_and_is_not_counted_as_faulty(module: SimpleNamespace) -> None:
    inject(module, fault_in("Kernel.neg", lambda _healthy, x: "wrong" if x == "tmp2" else None))
    assert [module.Kernel.neg("tmp1"), module.Kernel.neg("tmp2")] == ["healthy tmp1", "wrong"]
    assert injection.generated == ["wrong"]


def test_a_place_that_is_not_there_is_an_error(module: SimpleNamespace) -> None:
    for place in ("Kernel.abs", "Loop.neg"):
        with pytest.raises(FaultNotInjectable, match=place):
            inject(module, fault_in(place, lambda *_: None))


def test_both_overrides_are_broken_at_once_when_asked(stand_in: Path) -> None:
    assert answer(ASK, stand_in, faults.variables("neg_added_to_itself", "both"))[:2] == [
        "decltype(t)(t + t)",
        "(t + t)",
    ]


def test_a_fault_of_one_type_leaves_the_others_right() -> None:
    class Operand:
        def __init__(self, dtype: str) -> None:
            self.dtype = dtype

    (generator,) = faults.FAULTS["product_in_32_bits"].chosen("scalar")
    assert generator.gives("a * b", Operand("torch.int32"), Operand("torch.int32")) is None
    assert "0xffffffff" in generator.gives("a * b", Operand("torch.int64"), Operand("torch.int64"))


def test_a_store_before_which_there_is_nothing_is_left_where_it_is() -> None:
    class Lines:
        def __init__(self, *lines: str) -> None:
            self.lines = [*lines]

        def map(self, change: Callable[[str], str]) -> Lines:
            return Lines(*map(change, self.lines))

    (generator,) = faults.FAULTS["tail_stored_one_early"].chosen("vector")
    store = Lines("tmp3.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(5L));")
    kernel = SimpleNamespace(tail_size=5, tiling_factor=16, tiling_idx=0, ranges=[37])
    assert generator.gives(store, kernel).lines == [
        "tmp3.store(out_ptr0 + static_cast<int64_t>(x0) - 1, static_cast<int64_t>(5L));"
    ]
    assert generator.gives(store, SimpleNamespace(tail_size=5, tiling_factor=16, tiling_idx=0, ranges=[5])) is None
    assert generator.gives(store, SimpleNamespace(tail_size=None, tiling_factor=16, tiling_idx=0, ranges=[32])) is None


def test_every_fault_has_a_program_with_inputs_in_the_case_file() -> None:
    tree = ast.parse(faults.PROGRAMS.read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    (table,) = [
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INPUTS"
    ]
    assert isinstance(table, ast.Dict)
    with_inputs = {key.value for key in table.keys if isinstance(key, ast.Constant)}
    assert {fault.program for fault in faults.FAULTS.values()} <= functions
    assert functions == with_inputs


def code_of(text: str) -> CodeType:
    return code_objects._nested(compile(text, "x.py", "exec"), "neg")


def test_code_objects_differ_by_what_they_do_and_not_by_where_they_stand() -> None:
    healthy = "def neg(x):\n    return f'-{x}'\n"
    assert code_objects.digest(code_of(healthy)) == code_objects.digest(code_of(f"\n\n{healthy}"))
    assert code_objects.digest(code_of(healthy)) != code_objects.digest(code_of(healthy.replace("-", "+")))
    assert code_objects.digest(code_of(healthy)) != code_objects.digest(code_of(healthy.replace("{x}", "{x()}")))
    one, other = (code_of(healthy.replace("{x}", f"{{x.{name}}}")) for name in ("real", "imag"))
    assert code_objects.digest(one) != code_objects.digest(other)
