"""The dumped files of TORCH_COMPILE_DEBUG=1 are read as data."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpulab.debug import artefacts

DATA = Path(__file__).parents[1] / "data" / "debug"


def read(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_a_default_run_has_no_debug_lines_although_openmp_prints_its_settings() -> None:
    output = read("default_run.log")
    assert "KMP_BLOCKTIME" in output
    assert artefacts.debug_lines(output) == []


def test_a_debug_run_names_its_trace() -> None:
    output = read("compile_error.log")
    (line,) = artefacts.debug_lines(output)
    assert "debug trace" in line
    (path,) = artefacts.trace_paths(output)
    assert path.startswith("/tmp/scratch/debug/torch_compile_debug/run_")  # noqa: S108 - a recording
    assert path.endswith("/torchinductor/model__0_inference_0.0")


def test_a_record_of_torchs_logger_is_a_debug_line_whatever_its_level() -> None:
    record = "I0101 00:00:00.000000 7 torch/_inductor/compile_fx.py:1] [0/0] Step 3"
    assert artefacts.debug_lines(f"1 torch/\n{record}\n") == [record]
    in_the_environment = "V0101 00:00:00.000000 7 /opt/measured/lib/python3.11/site-packages/torch/_dynamo/x.py:1] y"
    assert artefacts.debug_lines(in_the_environment) == [in_the_environment]


def test_a_debug_trace_is_named_by_a_debug_line_without_the_logger_too() -> None:
    assert artefacts.debug_lines("debug trace: /tmp/x\nequal to eager: True\n") == ["debug trace: /tmp/x"]


@pytest.mark.parametrize("name", ["fx_graph_transformed.py", "fx_graph_runnable.py"])
def test_the_fx_graph_is_neg_then_maximum(name: str) -> None:
    assert artefacts.fx_nodes(read(f"uint8_scalar/{name}")) == [
        artefacts.FxNode("neg", "torch.ops.aten.neg.default"),
        artefacts.FxNode("maximum", "torch.ops.aten.maximum.default"),
    ]


def test_an_item_of_a_result_is_a_node_and_a_dropped_name_is_none() -> None:
    graph = (
        "class <lambda>(torch.nn.Module):\n"
        "    def forward(self, a):\n"
        "        split = torch.ops.aten.split.Tensor(a, 1);  a = None\n"
        '        getitem: "f32[1]" = split[0];  split = None\n'
        "        return (getitem,)\n"
    )
    assert [(node.name, node.target) for node in artefacts.fx_nodes(graph)] == [
        ("split", "torch.ops.aten.split.Tensor"),
        ("getitem", "operator.getitem"),
    ]


def test_the_fx_graph_names_the_users_line() -> None:
    (origin,) = artefacts.origins(read("uint8_scalar/fx_graph_transformed.py"))
    assert origin.file.endswith("/program.py")
    assert origin.code == "return torch.cat([torch.maximum(x2, torch.neg(x1))], dim=0)"
    assert origin.line > 0


def test_the_ir_node_has_its_ops_its_group_and_what_it_reads_and_writes() -> None:
    assert artefacts.ir_nodes(read("uint8_scalar/ir_post_fusion.txt")) == [
        artefacts.IrNode("op0", ["neg", "maximum"], [8390, 8], ["arg0_1", "arg1_1"], ["buf0"])
    ]


def test_dependencies_that_are_not_met_are_read_too_and_end_with_their_node() -> None:
    text = read("uint8_scalar/ir_post_fusion.txt")
    second = text.replace("op0", "op1").replace(
        "op1.unmet_dependencies = []", "op1.unmet_dependencies = [MemoryDep('buf0', c0, {c0: 8})]"
    )
    first, other = artefacts.ir_nodes(text + second)
    assert first.dependencies == ["arg0_1", "arg1_1"]
    assert other.dependencies == ["arg0_1", "arg1_1", "buf0"]


@pytest.mark.parametrize(("variant", "vectorized"), [("scalar", False), ("vectorized", True)])
def test_the_output_code_has_one_kernel(variant: str, vectorized: bool) -> None:
    (kernel,) = artefacts.kernels(read(f"uint8_{variant}/output_code.py"))
    assert kernel.name == "cpp_fused_maximum_neg_0"
    assert kernel.is_vectorized is vectorized
    assert kernel.arguments == ["in_ptr0", "in_ptr1", "out_ptr0"]


@pytest.mark.parametrize("variant", ["scalar", "vectorized"])
def test_statements_are_the_loads_the_operations_and_the_store(variant: str) -> None:
    (kernel,) = artefacts.kernels(read(f"uint8_{variant}/output_code.py"))
    statements = [kernel.lines[number - 1].strip() for number in kernel.statements]
    assert [statement.split(" = ")[0] for statement in statements[:4]] == [f"auto tmp{n}" for n in range(4)]
    assert "out_ptr0" in statements[4]
    assert len(statements) == 5


@pytest.mark.parametrize(
    ("variant", "before"),
    [("scalar", "auto tmp2 = decltype(tmp1)(-tmp1);"), ("vectorized", "auto tmp2 = tmp1.neg();")],
)
def test_the_edit_undoes_the_first_operation_and_nothing_else(variant: str, before: str) -> None:
    text = read(f"uint8_{variant}/output_code.py")
    edit = artefacts.without_first_operation(text)
    assert edit is not None
    assert (edit.before, edit.after) == (before, "auto tmp2 = tmp1;")
    assert edit.text == text.replace(before, "auto tmp2 = tmp1;")
    assert edit.text != text


def test_code_without_an_operation_has_no_edit() -> None:
    assert artefacts.without_first_operation("x = 1\n") is None


def test_a_load_at_a_computed_place_is_not_an_operation_to_undo() -> None:
    text = read("uint8_scalar/output_code.py").replace(
        "auto tmp2 = decltype(tmp1)(-tmp1);", "auto tmp2 = in_ptr0[tmp1];"
    )
    edit = artefacts.without_first_operation(text)
    assert edit is not None
    assert edit.after == "auto tmp3 = tmp0;"


def test_a_fault_is_in_a_kernel_only_when_a_line_assigns_its_very_text() -> None:
    (faulty,) = artefacts.kernels(read("faulty_output_code.py"))
    (healthy,) = artefacts.kernels(read("uint8_scalar/output_code.py"))
    assert [faulty.lines[number - 1].strip() for number in artefacts.uses(faulty, ["-tmp1"])] == ["auto tmp2 = -tmp1;"]
    assert artefacts.uses(healthy, ["-tmp1"]) == []


def test_the_accuracy_message_tells_the_tolerance() -> None:
    assert artefacts.accuracy_message(read("accuracy.log")) == (
        "Accuracy failed: allclose not within tol=0.0001",
        0.0001,
    )
    assert artefacts.accuracy_message(read("default_run.log")) == (None, None)


@pytest.mark.parametrize(
    ("name", "exception"),
    [
        ("accuracy.log", "AssertionError"),
        ("compile_error.log", "torch._inductor.exc.InductorError"),
        ("default_run.log", None),
    ],
)
def test_the_exception_that_ended_a_program_is_found(name: str, exception: str | None) -> None:
    assert artefacts.last_exception(read(name)) == exception


def test_of_several_tracebacks_the_last_counts_and_a_name_alone_is_none() -> None:
    first = "Traceback (most recent call last):\n  File x\nKeyError: 1\n"
    assert artefacts.last_exception(f"{first}\nDuring handling:\n\n{first.replace('KeyError', 'OSError')}") == "OSError"
    assert artefacts.last_exception("ValueError: 1\n") is None
