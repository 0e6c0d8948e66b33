"""The C++ compiler's message is parsed, and it points into the kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpulab.debug import artefacts, compile_errors

DATA = Path(__file__).parents[1] / "data" / "debug"
LOG = (DATA / "compile_error.log").read_text(encoding="utf-8")


@pytest.fixture
def error() -> compile_errors.NoMatchingFunction:
    parsed = compile_errors.parse(LOG)
    assert parsed is not None
    return parsed


def test_the_failing_call_its_operands_and_the_candidate_are_told_apart(
    error: compile_errors.NoMatchingFunction,
) -> None:
    assert error.call == "max_propagate_nan(unsigned char&, int&)"
    assert error.function == "max_propagate_nan"
    assert error.operand_types == ["unsigned char&", "int&"]
    assert error.candidate == "template<class scalar_t> scalar_t max_propagate_nan(scalar_t, scalar_t)"


def test_the_conflicting_types_belong_to_the_template_parameter(error: compile_errors.NoMatchingFunction) -> None:
    assert error.template_parameter == "scalar_t"
    assert error.conflicting_types == ["unsigned char", "int"]


def test_the_line_number_is_that_of_the_kernel_in_the_output_code(error: compile_errors.NoMatchingFunction) -> None:
    (kernel,) = artefacts.kernels((DATA / "faulty_output_code.py").read_text(encoding="utf-8"))
    assert kernel.lines[error.line - 1].strip() == error.source == "auto tmp3 = max_propagate_nan(tmp0, tmp2);"


def test_the_file_is_named_without_its_folder(error: compile_errors.NoMatchingFunction) -> None:
    assert error.file.endswith(".main.cpp")
    assert "/" not in error.file


def test_an_ascii_locale_quotes_otherwise_and_says_the_same(error: compile_errors.NoMatchingFunction) -> None:
    assert compile_errors.parse(LOG.replace("\u2018", "'").replace("\u2019", "'")) == error


def test_notes_of_a_second_error_are_not_taken_for_the_firsts() -> None:
    first = "k.cpp:3:1: error: no matching function for call to 'f(int&)'\n    3 |   f(tmp0);\n"
    second = (
        "k.cpp:9:1: error: no matching function for call to 'g(int&, char&)'\n"
        "x.h:1:1: note: candidate: 'template<class T> T g(T, T)'\n"
        "k.cpp:9:1: note:   deduced conflicting types for parameter 'T' ('int' and 'char')\n"
    )
    parsed = compile_errors.parse(first + second)
    assert parsed is not None
    assert (parsed.function, parsed.line, parsed.source) == ("f", 3, "f(tmp0);")
    assert parsed.candidate is None
    assert parsed.conflicting_types == []


def test_a_message_about_something_else_is_no_error_of_this_kind() -> None:
    assert compile_errors.parse("k.cpp:3:1: error: expected ';' before '}' token\n") is None


def test_types_are_split_at_their_own_commas_only() -> None:
    types = "at::vec::Vectorized<float>&, std::array<int, 2>&, void (*)(int, int)"
    assert compile_errors.split_types(types) == [
        "at::vec::Vectorized<float>&",
        "std::array<int, 2>&",
        "void (*)(int, int)",
    ]
    assert compile_errors.split_types("") == []


def test_the_faulty_operand_went_from_unsigned_char_to_int(error: compile_errors.NoMatchingFunction) -> None:
    assert compile_errors.changed_type(error, "tmp2") == ("unsigned char", "int")


def test_a_variable_that_is_not_in_the_call_changed_nothing(error: compile_errors.NoMatchingFunction) -> None:
    assert compile_errors.changed_type(error, "tmp9") == (None, None)
