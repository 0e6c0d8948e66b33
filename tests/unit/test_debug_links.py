"""Every line of a kernel is linked to the FX node it was generated for, or openly to none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cpulab.debug import artefacts, links

DATA = Path(__file__).parents[1] / "data" / "debug"


def kernels(variant: str, name: str) -> list[artefacts.Kernel]:
    return artefacts.kernels((DATA / f"uint8_{variant}" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("variant", ["scalar", "vectorized"])
def test_loads_link_to_the_inputs_operations_to_theirs_and_the_store_to_its_producer(variant: str) -> None:
    (kernel,) = kernels(variant, "output_code.py")
    found = links.links(kernel, kernels(variant, "marked_output_code.py"))
    assert [(link.ir, link.fx, link.aten) for link in found] == [
        ("ops.load", "arg1_1", None),
        ("ops.load", "arg0_1", None),
        ("ops.neg", "neg", "aten.neg.default"),
        ("ops.maximum", "maximum", "aten.maximum.default"),
        ("ops.store", "maximum", "aten.maximum.default"),
    ]
    assert [link.line for link in found] == kernel.statements
    assert [link.cpp for link in found] == [kernel.lines[number - 1].strip() for number in kernel.statements]


def test_links_are_never_taken_from_another_kernels_recording() -> None:
    (kernel,) = kernels("vectorized", "output_code.py")
    found = links.links(kernel, kernels("scalar", "marked_output_code.py"))
    assert len(found) == len(kernel.statements)
    assert all(link.fx is None and link.ir is None for link in found)


def test_a_line_without_a_mark_is_linked_to_none_alone() -> None:
    (kernel,) = kernels("scalar", "output_code.py")
    (marked,) = kernels("scalar", "marked_output_code.py")
    lines = marked.lines
    place = kernel.statements[2] - 1
    lines[place] = kernel.lines[place]
    found = links.links(kernel, [dataclasses.replace(marked, source="\n".join(lines))])
    assert [link.fx for link in found] == ["arg1_1", "arg0_1", None, "maximum", "maximum"]


def test_a_mark_is_read_as_it_was_written_and_leaves_the_line_as_it_was() -> None:
    line = "auto tmp0 = x;"
    marked = line + links.mark("ops.load", "arg0_1", None)
    assert links.is_marked(marked)
    assert not links.is_marked(line)
    assert links.unmarked(f"{marked}\n{line}") == f"{line}\n{line}"
