"""The first rung that fails names the component at fault."""

from __future__ import annotations

from typing import Any

import pytest

from cpulab.debug.ladder import component_at_fault


def rungs(eager: bool, aot_eager: bool, decomposed: bool, inductor: bool) -> list[dict[str, Any]]:
    passed = {
        "inductor": inductor,
        "eager": eager,
        "aot_eager": aot_eager,
        "aot_eager_decomp_partition": decomposed,
    }
    return [{"backend": backend, "passed": value} for backend, value in passed.items()]


@pytest.mark.parametrize(
    ("passed", "component"),
    [
        ((True, True, True, True), None),
        ((True, True, True, False), "inductor"),
        ((True, True, False, False), "aot_autograd"),
        ((True, False, False, False), "aot_autograd"),
        ((False, False, False, False), "dynamo"),
        ((False, True, True, True), "dynamo"),
    ],
)
def test_the_first_failing_rung_names_the_component(
    passed: tuple[bool, bool, bool, bool], component: str | None
) -> None:
    assert component_at_fault(rungs(*passed)) == component


def test_a_ladder_with_a_missing_rung_is_refused() -> None:
    with pytest.raises(KeyError):
        component_at_fault(rungs(True, True, True, True)[1:])
