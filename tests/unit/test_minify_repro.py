"""The minimal program: its graph, how it ended, what is kept of it."""

from pathlib import Path

import pytest

from cpulab.host.launch import Completed
from cpulab.minify import repro

DATA = Path(__file__).parents[1] / "data" / "minify"


def ended(name: str, returncode: int) -> repro.Ending:
    stderr = (DATA / name).read_text()
    return repro.ending(Completed(["python", "repro.py"], returncode, "", stderr, 1.0, timed_out=False))


class TestGraph:
    def test_of_the_minimal_program_is_neg_alone(self) -> None:
        assert repro.graph((DATA / "repro.py.txt").read_text()) == repro.Graph(["neg"], inputs=1, nodes=3)

    def test_of_the_launcher_is_the_whole_program(self) -> None:
        whole = repro.graph((DATA / "minifier_launcher.py.txt").read_text())
        assert whole == repro.Graph(["neg", "maximum"], inputs=2, nodes=5)

    def test_counts_a_constant_as_a_node_but_not_as_an_op(self) -> None:
        graph = repro.graph((DATA / "repro_getitem.py.txt").read_text())
        assert graph == repro.Graph(["max", "getitem", "getitem", "lift_fresh_copy", "add"], inputs=1, nodes=8)

    def test_of_a_script_without_one_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no class Repro"):
            repro.graph("import torch\n")


class TestEnding:
    def test_with_the_fault_is_an_accuracy_failure(self) -> None:
        ending = ended("repro_with_fault.log", 1)
        assert ending.is_accuracy_failure
        assert not ending.is_pass
        assert ending.exception == "torch._dynamo.debug_utils.AccuracyError: Bad accuracy detected"
        assert ending.difference.startswith(
            "RMSE (res-fp64): 3.60129, (ref-fp64): 0.00000 and shape=torch.Size([1, 8])"
        )

    def test_of_the_program_is_an_accuracy_failure(self) -> None:
        assert ended("program.log", 1).is_accuracy_failure

    def test_without_the_fault_is_a_pass(self) -> None:
        ending = ended("repro_without_fault.log", 0)
        assert ending.is_pass
        assert not ending.is_accuracy_failure
        assert (ending.exception, ending.difference) == (None, None)

    def test_for_want_of_a_compiler_is_neither(self) -> None:
        ending = ended("repro_no_compiler.log", 1)
        assert not ending.is_accuracy_failure
        assert not ending.is_pass
        assert ending.exception.startswith("torch._inductor.exc.InductorError: InvalidCxxCompiler")

    def test_by_another_exception_after_a_difference_is_no_accuracy_failure(self) -> None:
        text = (DATA / "repro_with_fault.log").read_text()
        other = text.replace("torch._dynamo.debug_utils.AccuracyError: Bad accuracy detected", "MemoryError")
        ending = repro.ending(Completed(["python"], 1, "", other, 1.0, timed_out=False))
        assert ending.exception == "MemoryError"
        assert not ending.is_accuracy_failure

    def test_with_status_0_is_no_pass_when_nothing_was_compared(self) -> None:
        ending = ended("repro_not_compared.log", 0)
        assert not ending.compared
        assert not ending.is_pass

    def test_with_another_status_is_no_pass_even_if_nothing_is_said(self) -> None:
        assert not ended("repro_without_fault.log", 1).is_pass


class TestPortable:
    TEXT = (
        "os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/home/me/scratch/inductor'\nos.environ['A'] = '/home/me/scratch/x'\n"
    )

    def test_leaves_out_the_cache_folder_that_a_reader_does_not_have(self) -> None:
        assert "TORCHINDUCTOR_CACHE_DIR" not in repro.portable(self.TEXT, {})

    def test_leaves_out_the_address_in_the_memory_of_another_process(self) -> None:
        line = "os.environ['_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR'] = '140500668173344'\n"
        assert repro.portable(line + "import torch\n", {}) == "import torch\n"

    def test_names_the_inner_of_two_folders(self) -> None:
        kept = repro.portable(self.TEXT, {"/home/me": "home", "/home/me/scratch": "."})
        assert kept == "os.environ['A'] = './x'\n"
