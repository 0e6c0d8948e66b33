"""The debug step puts recorded outputs together into the observations that claims speak of."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from cpulab.debug import scripts, step

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA = Path(__file__).parents[1] / "data" / "debug"


def inductor(code: str, **rung: Any) -> dict[str, Any]:
    return {
        "backend": "inductor",
        "exception": None,
        "exception_chain": "",
        "passed": True,
        "output_code": code,
        **rung,
    }


def answer(code: str = "faulty_output_code.py", generated: Sequence[str] = ("-tmp1",), **rung: Any) -> dict[str, Any]:
    text = (DATA / code).read_text(encoding="utf-8")
    return {"ladder": [inductor(text, **rung)], "generated": list(generated)}


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    for name, source in {
        "output_code.py": "faulty_output_code.py",
        "fx_graph_transformed.py": "uint8_scalar/fx_graph_transformed.py",
        "ir_post_fusion.txt": "uint8_scalar/ir_post_fusion.txt",
    }.items():
        (tmp_path / name).write_text((DATA / source).read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


@pytest.fixture
def bench(tmp_path: Path) -> SimpleNamespace:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "program.py").write_text(scripts.script("uint8", "scalar", seed=0, accuracy=False), encoding="utf-8")
    return SimpleNamespace(folder=folder)


def test_the_compilers_message_is_brought_together_with_the_kernel(trace: Path) -> None:
    completed = SimpleNamespace(stderr=(DATA / "compile_error.log").read_text(encoding="utf-8"), returncode=1)
    seen = step._compiler_message(
        completed,
        trace,
        answer(passed=False, exception="InductorError", exception_chain="InductorError <- CppCompileError"),
    )
    assert seen["compile_failed"] is True
    assert seen["exception_chain"] == ["InductorError", "CppCompileError"]
    assert seen["faulty_line"] == "auto tmp2 = -tmp1;"
    assert seen["error_line"] == seen["error_line_as_compiler_shows_it"]
    assert seen["error_line_uses_faulty"] is True
    assert (seen["type_before"], seen["type_after"]) == ("unsigned char", "int")


def test_without_a_compile_error_there_is_none_to_observe(trace: Path) -> None:
    completed = SimpleNamespace(stderr="", returncode=0)
    seen = step._compiler_message(completed, trace, answer(generated=[]))
    assert seen["compile_failed"] is False
    assert seen["exception_chain"] == seen["operand_types"] == seen["conflicting_types"] == []
    assert seen["faulty_line"] is seen["error_line"] is seen["type_after"] is None
    assert seen["error_line_uses_faulty"] is None


def test_the_chain_leads_from_the_users_line_to_the_minus(bench: SimpleNamespace, trace: Path) -> None:
    seen = step._chain(bench, trace, "neg", ["-tmp1"])
    assert [link["level"] for link in seen["chain"]] == ["torch", "aten", "ops", "cpp"]
    assert seen["chain"][0]["text"] == "return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)"
    assert seen["chain"][-1]["text"] == "auto tmp2 = -tmp1;"
    assert all(seen[name] for name in ("chain_torch_neg", "chain_aten_neg", "chain_ops_neg", "chain_cpp_minus"))


def test_a_line_that_the_users_program_does_not_have_is_no_link(bench: SimpleNamespace, trace: Path) -> None:
    script = bench.folder / "program.py"
    script.write_text(script.read_text(encoding="utf-8").replace("torch.neg(x1)", "-x1"), encoding="utf-8")
    seen = step._chain(bench, trace, "neg", [])
    assert seen["chain_torch_neg"] is False
    assert seen["chain_cpp_minus"] is False
    assert seen["chain_aten_neg"] is True


def test_a_line_that_only_resembles_the_one_of_the_graph_is_no_link(bench: SimpleNamespace, trace: Path) -> None:
    script = bench.folder / "program.py"
    script.write_text(script.read_text(encoding="utf-8").replace("torch.neg(x1)", "torch.neg(x2)"), encoding="utf-8")
    assert step._chain(bench, trace, "neg", [])["chain_torch_neg"] is False


def test_a_minus_with_its_cast_is_not_the_faults(bench: SimpleNamespace, trace: Path) -> None:
    healthy = (DATA / "uint8_scalar" / "output_code.py").read_text(encoding="utf-8")
    (trace / "output_code.py").write_text(healthy, encoding="utf-8")
    assert step._chain(bench, trace, "neg", ["decltype(tmp1)(-tmp1)"])["chain_cpp_minus"] is False


@pytest.mark.parametrize(
    ("log", "status", "failed", "tolerance"),
    [
        ("accuracy.log", 1, True, 0.0001),
        ("accuracy.log", 0, False, 0.0001),
        ("compile_error.log", 1, False, None),
        ("default_run.log", 0, False, None),
    ],
)
def test_an_assertion_failed_when_it_ended_the_program(
    log: str, status: int, failed: bool, tolerance: float | None
) -> None:
    completed = SimpleNamespace(stderr=(DATA / log).read_text(encoding="utf-8"), returncode=status)
    seen = step._assertion(completed)
    assert (seen["assertion_failed"], seen["exit_status"], seen["tolerance"]) == (failed, status, tolerance)


def test_a_fault_whose_text_is_not_in_the_kernel_is_off_the_path() -> None:
    assert step._on_path(answer()) is True
    assert step._on_path(answer(generated=["decltype(tmp1)(2 * tmp1)"])) is False
    # Called, but its scalar kernel was dropped for the vectorized one.
    assert step._on_path(answer("uint8_vectorized/output_code.py")) is False


@pytest.mark.parametrize(
    ("rung", "effect"),
    [
        ({}, "compiles and is right"),
        ({"passed": False}, "compiles and is wrong"),
        ({"passed": False, "exception": "E", "exception_chain": "E <- C"}, "does not compile (E <- C)"),
    ],
)
def test_the_effect_of_a_fault_is_told_in_words(rung: dict[str, Any], effect: str) -> None:
    assert step._effect(answer(**rung)) == effect


def test_a_code_generator_that_cannot_be_found_is_not_called_unchanged() -> None:
    healthy = {"code_objects": {"CppOverrides": "a", "CppVecOverrides": None}}
    assert step._unchanged(healthy["code_objects"], healthy) is False
    assert step._unchanged({"CppOverrides": "a"}, {"code_objects": {"CppOverrides": "a"}}) is True
    assert step._unchanged({"CppOverrides": "a"}, {"code_objects": {"CppOverrides": "b"}}) is False


@pytest.mark.parametrize("variant", ["scalar", "vectorized"])
@pytest.mark.parametrize("accuracy", [True, False])
def test_a_script_holds_all_that_it_needs(variant: str, accuracy: bool) -> None:
    text = scripts.script("uint8", variant, seed=3, accuracy=accuracy)
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not any("cpulab" in name for name in imported)
    assert ("simdlen = 1" in text) is (variant == "scalar")
    assert ("assert same(" in text) is accuracy
    assert "program.inputs(3)" in text


NEG_GUILTY: dict[str, Any] = {
    "walk_rows": [
        {"id": "fx:4", "text": '        neg: "u8[1, 8]" = torch.ops.aten.neg.default(arg0_1);  arg0_1 = None'},
        {"id": "cpp:52", "text": "auto tmp2 = -tmp1;"},
    ],
    "walk_guilty": ["fx:4", "cpp:52"],
}


@pytest.mark.parametrize(
    ("backend", "op", "agrees"),
    [
        ("inductor", "aten.neg.default", True),
        ("inductor", None, True),  # a subsystem that has no ops
        ("inductor", "aten.maximum.default", False),
        ("aot_eager_decomp_partition", None, False),
        (None, None, False),
    ],
)
def test_the_bisector_agrees_where_it_names_the_same_component_and_no_other_op(
    backend: str | None, op: str | None, agrees: bool
) -> None:
    seen = step._beside_bisector(NEG_GUILTY, "inductor", {"backend": backend, "op": op})
    (answer,) = seen["bisector"]  # type: ignore[misc, union-attr]
    assert seen["op"] == "aten.neg.default"
    assert answer["agrees"] is agrees  # type: ignore[index, call-overload]
