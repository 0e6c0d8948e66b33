"""Injected faults in the real PyTorch: they reach children, and are gone afterwards."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from cpulab.debug import faults
from cpulab.host.launch import load_environment, run_measured

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

ASK = "from torch._inductor.codegen.cpp import CppOverrides; print('generated', CppOverrides.neg('x'))"


def test_a_fault_reaches_a_child_process_of_the_real_thing_and_is_gone_afterwards(
    environment: Path, tmp_path: Path
) -> None:
    loaded = load_environment(environment)

    def python(*arguments: str, variables: dict[str, str] | None = None) -> str:
        completed = run_measured(loaded, ["python", *arguments], variables=variables, cwd=tmp_path, timeout_s=300)
        assert completed.returncode == 0, completed.stderr
        return completed.stdout

    # Every function that any fault breaks.
    places = sorted({place for fault in faults.FAULTS.values() for place in fault.places})
    spawn = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {ASK!r}], check=True)"
    before = json.loads(python("-m", "cpulab.debug.code_objects", "installed", *places))
    during = python("-c", spawn, variables=faults.variables("neg_without_cast", "scalar"))
    after = json.loads(python("-m", "cpulab.debug.code_objects", "imported", *places))
    assert "generated -x" in during
    assert after == before
    assert [*after] == places
    assert None not in before.values()


@pytest.mark.parametrize(
    ("injected", "broken", "healthy"),
    [
        (("neg_doubled", "vector"), "CppVecOverrides.neg", "CppOverrides.neg"),
        (("sum_drops_tail", "scalar"), "LoopLevel.lines", "CppVecKernel.reduction_combine_vec"),
    ],
)
def test_the_bytecode_differs_while_the_fault_is_there(
    environment: Path, tmp_path: Path, injected: tuple[str, str], broken: str, healthy: str
) -> None:
    loaded = load_environment(environment)
    digests = {
        name: json.loads(
            run_measured(
                loaded,
                ["python", "-m", "cpulab.debug.code_objects", name, broken, healthy],
                variables=faults.variables(*injected),
                cwd=tmp_path,
                timeout_s=300,
            ).stdout
        )
        for name in ("installed", "imported")
    }
    assert digests["installed"][healthy] == digests["imported"][healthy]
    assert digests["installed"][broken] != digests["imported"][broken]
