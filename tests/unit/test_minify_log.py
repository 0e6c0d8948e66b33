"""The minifier's log, read back as its steps."""

from pathlib import Path

import pytest

from cpulab.minify import log

DATA = Path(__file__).parents[1] / "data" / "minify"


def read(name: str) -> log.Minification:
    return log.parse((DATA / name).read_text())


@pytest.mark.parametrize("name", ["minifier_no_isolate.log", "minifier_isolated.log"])
class TestTheTutorialsProgram:
    def test_shrinks_from_five_nodes_to_four_to_three(self, name: str) -> None:
        assert read(name).node_counts == [5, 4, 3]

    def test_names_what_each_success_changed(self, name: str) -> None:
        assert [step for step in read(name).steps if step.success] == [
            log.Step("Truncate suffix", 2, nodes_before=5, inputs_before=2, nodes_after=4, success=True),
            log.Step("Remove unused inputs", 4, nodes_before=4, inputs_before=2, nodes_after=3, success=True),
        ]

    def test_keeps_the_steps_that_failed_with_the_graph_unchanged(self, name: str) -> None:
        failed = [step for step in read(name).steps if not step.success]
        assert len(failed) == 14
        assert failed[0] == log.Step("Eliminate dead code", 4, 5, 2, 5, success=False)
        assert all(step.nodes_after == step.nodes_before for step in failed)

    def test_names_strategies_once_in_the_order_of_their_first_use(self, name: str) -> None:
        assert read(name).tried == [
            "Eliminate dead code", "Remove unused inputs", "Consolidate Inputs",
            "Truncate suffix", "Delta Debugging", "Remove outputs",
        ]  # fmt: skip
        assert read(name).succeeded == ["Truncate suffix", "Remove unused inputs"]

    def test_counts_the_queries_and_finishes(self, name: str) -> None:
        run = read(name)
        assert (run.queries, run.finished, run.given_up) == (9, True, None)


def test_a_graph_that_does_not_fail_makes_the_minifier_give_up() -> None:
    run = read("gave_up.log")
    assert run.given_up == "Input graph did not fail the tester"
    assert (run.started_with, run.node_counts, run.steps, run.finished) == (None, [], [], False)


def test_a_success_that_is_taken_back_leaves_the_graph_as_it_was() -> None:
    run = read("taken_back.log")
    assert run.node_counts == [6]
    assert run.succeeded == []
    assert {step.nodes_after for step in run.steps} == {6}


def test_more_inputs_are_a_success_though_the_nodes_stay_as_many() -> None:
    run = read("more_inputs.log")
    assert run.node_counts == [5, 5, 4]
    assert run.succeeded == ["Delta Debugging"]


def test_fewer_outputs_are_a_success_though_the_nodes_stay_as_many() -> None:
    run = read("fewer_outputs.log")
    assert run.node_counts == [5, 5, 4, 3]
    assert run.succeeded == ["Remove outputs", "Truncate suffix", "Eliminate dead code"]


def test_a_log_cut_short_is_not_finished() -> None:
    text = (DATA / "more_inputs.log").read_text()
    run = log.parse(text[: text.index("SUCCESS: Went from 1 to 2 inputs") + 33])
    assert not run.finished
    assert run.queries is None
    assert run.steps[-1].success
    assert run.steps[-1].nodes_after is None
    assert run.node_counts == [5]


def test_what_isolated_children_say_is_not_the_minifiers_word() -> None:
    said = "\n".join(f">>  {line}" for line in (DATA / "minifier_no_isolate.log").read_text().splitlines())
    assert log.parse(said) == log.Minification()


def test_a_success_tells_its_nodes_even_where_the_log_ends_with_it() -> None:
    text = (DATA / "minifier_no_isolate.log").read_text()
    success = "SUCCESS: Went from 5 to 4 nodes"
    assert log.parse(text[: text.index(success) + len(success)]).node_counts == [5, 4]
