"""Kernels are read from the generated C++: by what they compute, not by their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpulab.profile import kernels

DATA = Path(__file__).parents[1] / "data" / "profile"
PATTERN = ["add", "add", "mul", "add"]


def recorded(name: str) -> list[kernels.Kernel]:
    return kernels.parse((DATA / f"{name}_output_code.py.txt").read_text())


def test_every_kernel_of_the_recording_is_found_in_its_order() -> None:
    names = [kernel.name for kernel in recorded("compiled_as_published")]
    assert [int(name.rpartition("_")[2]) for name in names] == list(range(10))
    assert names[6] == "cpp_fused_addmm_relu_view_6"


def test_a_kernel_knows_the_name_it_has_in_a_profile() -> None:
    assert {kernel.profiled_as for kernel in recorded("compiled_default")} == {
        f"graph_0_{kernel.name}" for kernel in recorded("compiled_default")
    }


@pytest.mark.parametrize("name", ["compiled_as_published", "compiled_default", "many_ops"])
def test_a_kernel_knows_the_line_of_its_definition(name: str) -> None:
    lines = (DATA / f"{name}_output_code.py.txt").read_text().splitlines()
    for kernel in recorded(name):
        assert lines[kernel.line - 1].startswith(f"{kernel.name} = async_compile.cpp")


def test_the_published_pattern_is_found_by_its_ops_although_the_name_tells_others() -> None:
    found = [kernel for kernel in recorded("compiled_as_published") if kernel.ops == PATTERN]
    assert [(kernel.name, kernel.shape) for kernel in found] == [
        ("cpp_fused_add_addmm_mul_relu_view_7", "(64, 128)"),
        ("cpp_fused_add_addmm_mul_relu_view_8", "(64, 512)"),
    ]
    for kernel in found:
        assert (kernel.vectorized, kernel.parallel, kernel.in_place, kernel.dtype) == (True, True, True, "float32")
        assert len(kernel.nests) == 1


def test_without_freezing_no_kernel_has_the_published_pattern() -> None:
    ops = {kernel.name: kernel.ops for kernel in recorded("compiled_default")}
    assert PATTERN not in ops.values()
    assert ops["cpp_fused_add_mul_view_6"] == ["add", "mul", "add"]


def test_the_lookup_of_an_embedding_counts_as_an_op() -> None:
    ops = {kernel.name: kernel.ops for kernel in recorded("compiled_default")}
    assert ops["cpp_fused_add_embedding_mul_slice_view_zeros_1"] == ["indirect_load", *PATTERN]


def test_ops_of_several_loop_nests_stay_apart() -> None:
    kernel = recorded("compiled_as_published")[3]
    assert [nest.ops for nest in kernel.nests] == [["add"], ["add"], ["add"]]
    assert kernel.shape == "; ".join(["(2, 4, 32, 32)"] * 3)
    assert not kernel.in_place


def test_a_small_kernel_is_neither_vectorized_nor_parallel() -> None:
    kernel = recorded("compiled_as_published")[9]
    assert (kernel.vectorized, kernel.parallel, kernel.shape) == (False, False, "(64,); (64,)")


def test_one_loop_nest_without_vectors_makes_the_kernel_not_vectorized() -> None:
    nests = [kernels.Nest(parallel=True, vectorized=True), kernels.Nest(parallel=True)]
    assert not kernels.Kernel("mixed", 1, None, in_place=False, dtype="float32", nests=nests).vectorized
    assert kernels.Kernel("vectors", 1, None, in_place=False, dtype="float32", nests=nests[:1]).vectorized


def test_what_is_computed_outside_any_loop_is_a_nest_without_extents() -> None:
    (kernel,) = recorded("single_elements")
    assert [(nest.shape, nest.ops) for nest in kernel.nests] == [
        ("(3700,)", ["mul", "sum"]), ("()", ["div"]), ("()", ["exp", "add"]),
    ]  # fmt: skip
    assert (kernel.parallel, kernel.vectorized) == (False, False)


def test_a_padded_load_is_masked_and_looked_up() -> None:
    assert recorded("compiled_as_published")[0].ops == [
        "lt", "indirect_load", "masked", "ge", "indirect_load", "masked", "indirect_load",
    ]  # fmt: skip


def test_a_kernel_that_only_copies_has_no_ops() -> None:
    assert recorded("compiled_as_published")[4].ops == []


def test_what_is_left_over_after_the_last_whole_vector_is_not_counted_twice() -> None:
    (kernel,) = recorded("many_ops")
    assert kernel.nests[1].ops == ["div"]
    assert kernel.nests[6].ops == ["add", "mul", "rsqrt"]


def test_reductions_are_named_and_their_last_sum_within_a_vector_is_not() -> None:
    (kernel,) = recorded("many_ops")
    assert kernel.nests[0].ops == ["sum"]
    assert kernel.nests[2].ops == ["sub", "mul", "sum", "max"]


def test_a_load_from_a_transposed_tile_is_no_lookup() -> None:
    (kernel,) = recorded("many_ops")
    assert kernel.nests[3].ops == [
        "sub", "exp", "sub", "div", "add", "rsqrt", "mul", "maximum", "relu", "sum",
    ]  # fmt: skip


def test_casts_and_constants_are_no_ops_and_a_lookup_is() -> None:
    (kernel,) = recorded("many_ops")
    assert kernel.nests[5].ops == ["add", "lt", "where", "indirect_load", "neg"]


def test_one_loop_nest_outside_the_parallel_loops_makes_the_kernel_not_parallel() -> None:
    (kernel,) = recorded("many_ops")
    assert [nest.parallel for nest in kernel.nests] == [True, False, True, True, True, True, True]
    assert not kernel.parallel


def test_every_written_type_is_named() -> None:
    (kernel,) = recorded("many_ops")
    assert kernel.dtype == "float32, bfloat16"


def test_scalar_and_vectorized_code_of_one_program_name_the_same_ops() -> None:
    (vectorized,) = recorded("many_ops")
    (scalar,) = recorded("many_ops_scalar")
    assert sorted(vectorized.ops) == sorted(scalar.ops)
    assert (vectorized.vectorized, scalar.vectorized) == (True, False)


def test_loops_side_by_side_within_a_nest_do_not_add_to_its_shape() -> None:
    (scalar,) = recorded("many_ops_scalar")
    assert scalar.shape == "(100, 37); (50, 37); (3700,)"


@pytest.mark.parametrize(
    ("expression", "op"),
    [
        ("tmp0 + tmp1", "add"),
        ("float(tmp0 + tmp5)", "add"),
        ("decltype(tmp1)(-tmp1)", "neg"),
        ("-tmp1", "neg"),
        ("tmp1.neg()", "neg"),
        ("max_propagate_nan(tmp0, tmp2)", "maximum"),
        ("at::vec::clamp_min(tmp2, decltype(tmp2)(0))", "relu"),
        ("at::vec::clamp_min(tmp2, tmp3)", "clamp_min"),
        ("std::max(tmp14, decltype(tmp14)(0))", "relu"),
        ("1 / std::sqrt(tmp4)", "rsqrt"),
        ("tmp9.template cast<float,1>()", None),
        ("at::vec::convert<at::BFloat16,1,float,2>(tmp10)", None),
        ("at::vec::Vectorized<float>(tmp1)", None),
        ("static_cast<float>(0.5)", None),
        ("(tmp0)", None),
        ("in_ptr0[static_cast<int64_t>(x0)]", None),
        ("in_ptr0[static_cast<int64_t>(x0 + 8L*tmp5)]", "indirect_load"),
        ("unheard_of(tmp1) * other(tmp2)", "unheard_of(tmp1) * other(tmp2)"),
    ],
)
def test_an_expression_is_named_by_what_it_computes(expression: str, op: str | None) -> None:
    assert kernels._op(expression) == op


def test_text_without_kernels_has_none() -> None:
    assert kernels.parse("import torch\n") == []
