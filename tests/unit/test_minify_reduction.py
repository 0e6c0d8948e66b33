"""Our reducer's strategies on graphs without values: what fails is told by which nodes a candidate keeps."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from cpulab.minify.reduction import Candidate, Graph, Node, closed, reduce, with_ends

if TYPE_CHECKING:
    from collections.abc import Callable


def chain(length: int) -> Graph:
    """n0 takes x, each other node the one before it; the last is returned."""
    nodes = [Node(f"n{i}", "aten.neg.default", (f"n{i - 1}" if i else "x",)) for i in range(length)]
    return Graph(("x",), tuple(nodes), (f"n{length - 1}",), {"x": (8, 5)} | {node.name: (8, 5) for node in nodes})


# p = split(x) -> a, b;  s = sin(a);  t = add(s, y);  u = mul(t, b);  returned: t, u
FORKED = Graph(
    inputs=("x", "y", "unused"),
    nodes=(
        Node("split", "aten.split.Tensor", ("x",), value="tuple"),
        Node("a", "getitem", ("split",), part_of="split"),
        Node("b", "getitem", ("split",), part_of="split"),
        Node("s", "aten.sin.default", ("a",)),
        Node("t", "aten.add.Tensor", ("s", "y")),
        Node("u", "aten.mul.Tensor", ("t", "b")),
    ),
    outputs=("t", "u"),
)


def having(*names: str) -> Callable[[Candidate], bool]:
    return lambda candidate: set(names) <= set(candidate.kept)


def test_one_faulty_node_of_many_is_left_alone_with_its_input() -> None:
    found = reduce(chain(20), having("n13"))
    assert found.minimal is not None
    assert (found.minimal.kept, found.minimal.inputs, found.minimal.outputs) == (("n13",), ("n12",), ("n13",))
    assert found.minimal.nodes == 3


def test_the_faulty_node_is_found_by_bisection() -> None:
    found = reduce(chain(1000), having("n617"))
    assert sum(step.queries for step in found.steps) <= 13  # the whole, 10 halvings, one alone, one shape


@pytest.mark.parametrize("name", ["n0", "n10", "n19"])
def test_a_named_node_is_tried_before_anything_else(name: str) -> None:
    found = reduce(chain(20), having(name), guilty=name)
    assert [step.strategy for step in found.steps[:2]] == ["the whole graph", "guilty node alone"]
    assert found.minimal is not None
    assert found.minimal.kept == (name,)


def test_a_wrongly_named_node_costs_one_query_and_no_more() -> None:
    right, misled = reduce(chain(20), having("n13")), reduce(chain(20), having("n13"), guilty="n4")
    assert misled.minimal == right.minimal
    assert sum(step.queries for step in misled.steps) == sum(step.queries for step in right.steps) + 1


def test_two_nodes_that_fail_only_together_stay_together() -> None:
    found = reduce(chain(20), having("n3", "n11"))
    assert found.minimal is not None
    assert set(found.minimal.kept) == {"n3", "n11"}
    assert found.minimal.inputs == ("n2", "n10")


def test_what_is_left_is_least_whatever_fails_together() -> None:
    for seed in range(30):
        draw = random.Random(seed)  # noqa: S311 - which nodes fail
        names = [f"n{i}" for i in range(16)]
        wanted = set(draw.sample(names, draw.randint(1, 4)))
        found = reduce(chain(16), having(*wanted))
        assert found.minimal is not None
        assert set(found.minimal.kept) == wanted


def test_a_graph_that_does_not_fail_is_not_reduced() -> None:
    found = reduce(chain(5), lambda _: False)
    assert found.minimal is None
    assert [step.success for step in found.steps] == [False]


def test_no_candidate_is_asked_twice() -> None:
    asked = []

    def fails(candidate: Candidate) -> bool:
        asked.append(candidate)
        return {"n3", "n11"} <= set(candidate.kept)

    reduce(chain(20), fails)
    assert len(asked) == len(set(asked))


def test_the_rows_join_on_to_each_other() -> None:
    steps = reduce(chain(20), having("n3", "n11")).steps
    for before, after in pairwise(steps):
        assert (after.nodes_before, after.inputs_before) == (before.nodes_after, before.inputs_after)
    for step in steps:
        assert step.success or (step.nodes_before, step.inputs_before) == (step.nodes_after, step.inputs_after)


def test_the_chart_counts_queries_up_and_nodes_down() -> None:
    found = reduce(chain(20), having("n13"))
    queries = [point["queries"] for point in found.progress]
    nodes = [point["nodes"] for point in found.progress]
    assert queries == sorted(set(queries))
    assert nodes == sorted(nodes, reverse=True)
    assert queries[-1] == sum(step.queries for step in found.steps)


def test_at_the_end_of_the_time_the_smallest_until_then_is_given() -> None:
    now = iter(range(1000))
    found = reduce(chain(64), having("n3", "n40"), timeout_s=12, clock=lambda: float(next(now)))
    assert found.reason is not None
    assert "12 s" in found.reason
    assert found.minimal is not None
    assert {"n3", "n40"} <= set(found.minimal.kept)
    assert len(found.minimal.kept) < 64


def test_without_time_for_even_the_whole_graph_there_is_no_minimal_one() -> None:
    found = reduce(chain(3), having("n1"), timeout_s=-1)
    assert found.minimal is None
    assert found.reason is not None


def test_unused_inputs_go_first() -> None:
    found = reduce(FORKED, lambda candidate: len(candidate.kept) == 6)
    assert [step.strategy for step in found.steps[:2]] == ["the whole graph", "remove unused inputs"]
    assert found.minimal is not None
    assert found.minimal.inputs == ("x", "y")


def test_a_tuple_is_never_an_input_and_its_parts_are() -> None:
    found = reduce(FORKED, having("s"))
    assert found.minimal is not None
    assert (found.minimal.kept, found.minimal.inputs) == (("s",), ("a",))


def test_a_tuple_stays_with_a_part_that_comes_out() -> None:
    found = reduce(FORKED, having("split"))
    assert found.minimal is not None
    assert "split" in found.minimal.kept
    assert set(found.minimal.kept) <= {"split", "a", "b"}
    assert found.minimal.outputs


def test_a_part_without_its_tuple_is_an_input() -> None:
    candidate = closed(FORKED, ["a", "s"], ["s"])
    assert candidate == Candidate(kept=("s",), outputs=("s",), inputs=("a",))


def test_a_node_that_is_neither_tensor_nor_tuple_is_no_input() -> None:
    graph = Graph(
        ("x",),
        (Node("k", "aten.sym_size.int", ("x",), value="constant"), Node("n", "aten.mul.Tensor", ("x", "k"))),
        ("n",),
    )
    assert closed(graph, ["n"], ["n"]) == Candidate(kept=("n",), outputs=("n",), inputs=("x",))
    assert closed(graph, ["k"], ["k"]) is None


def test_what_nothing_uses_any_more_comes_out() -> None:
    candidate = with_ends(FORKED, ["split", "a", "b", "s", "t"], ["u"])
    assert candidate is not None
    assert set(candidate.outputs) == {"t", "b"}


def test_outputs_that_do_not_matter_are_removed() -> None:
    found = reduce(FORKED, lambda candidate: {"t", "s"} <= set(candidate.kept) and "t" in candidate.outputs)
    assert found.minimal is not None
    assert (found.minimal.kept, found.minimal.outputs) == (("s", "t"), ("t",))


def test_all_dimensions_are_cut_to_one_element_where_that_still_fails() -> None:
    found = reduce(chain(1), having("n0"))
    assert found.minimal is not None
    assert {(cut.size, cut.to) for cut in found.minimal.cuts} == {(8, 1), (5, 1)}


def test_a_dimension_that_matters_keeps_enough_and_its_last_elements_if_need_be() -> None:
    graph = Graph(("x",), (Node("n", "aten.sum.default", ("x",)),), ("n",), {"x": (5000, 3), "n": ()})

    def fails(candidate: Candidate) -> bool:
        cuts = {cut.size: cut for cut in candidate.cuts}
        rows = cuts.get(5000)
        return rows is None or (rows.to >= 60 and rows.last)

    found = reduce(graph, fails)
    assert found.minimal is not None
    cuts = {cut.size: (cut.to, cut.last) for cut in found.minimal.cuts}
    assert cuts == {5000: (67, True), 3: (1, False)}


def test_large_inputs_are_taken_from_a_seed_where_they_still_fail() -> None:
    graph = Graph(("x", "y"), (Node("n", "aten.mul.Tensor", ("x", "y")),), ("n",))
    found = reduce(graph, lambda candidate: "y" not in candidate.generated, generate=lambda _: ["x", "y"])
    assert found.minimal is not None
    assert found.minimal.generated == ("x",)
