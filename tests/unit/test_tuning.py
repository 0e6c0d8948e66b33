"""The tuned environment is data: what the tutorial asks for, and what the suite adds with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from cpulab.host.plan import Plan
from cpulab.host.tuning import proven_isa, tuning


def test_every_variable_of_the_tutorial_is_set_as_published() -> None:
    wanted = tuning(Plan([0, 1, 2], [0], []), Path("/lib/libiomp5.so"), Path("/lib/libjemalloc.so.2"))
    assert {one.name: one.value for one in wanted if one.asked_by == "tutorial"} == {
        "KMP_BLOCKTIME": "1",
        "KMP_SETTINGS": "1",
        "KMP_AFFINITY": "granularity=fine,compact,1,0",
        "LD_PRELOAD": "/lib/libiomp5.so:/lib/libjemalloc.so.2",
        "MALLOC_CONF": (
            "oversize_threshold:1,background_thread:true,metadata_thp:auto,dirty_decay_ms:-1,muzzy_decay_ms:-1"
        ),
    }
    assert {one.name: one.value for one in wanted if one.asked_by == "suite"} == {"OMP_NUM_THREADS": "3"}


def test_instruction_sets_are_not_tried_again_where_the_probe_found_all_usable() -> None:
    found = proven_isa({"isa_offered": ["avx512", "avx2"], "isa_usable": ["avx512", "avx2"]})
    assert [(one.name, one.value) for one in found] == [("TORCHINDUCTOR_VEC_ISA_OK", "1")]


@pytest.mark.parametrize("usable", [["avx2"], []])
def test_instruction_sets_are_tried_by_each_process_where_one_is_not_usable(usable: list[str]) -> None:
    assert proven_isa({"isa_offered": ["avx512", "avx2"], "isa_usable": usable}) == []


def test_a_processor_without_such_sets_gets_no_such_setting() -> None:
    assert proven_isa({"isa_offered": [], "isa_usable": []}) == []
