"""What the page shows of verdicts and records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cpulab.records import Measurement, ProcessSamples, Record
from cpulab.report import views

if TYPE_CHECKING:
    from pages import Results


def claims(**states: int) -> list[dict[str, str]]:
    return [{"state": state} for state, number in states.items() for _ in range(number)]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"reproduced": 3}, "All 3 of the tutorial's findings hold on this machine."),
        ({"reproduced": 1, "partly": 1}, "1 of the tutorial's 2 findings holds on this machine; 1 holds in part."),
        (
            {"reproduced": 2, "not_reproduced": 1, "inconclusive": 2, "blocked": 3},
            (
                "2 of the tutorial's 8 findings hold on this machine; 1 does not hold, 2 cannot be decided and "
                "3 are blocked."
            ),
        ),
        ({"not_applicable": 1}, "0 of the tutorial's 1 findings hold on this machine; 1 has no counterpart here."),
    ],
)
def test_the_outcome_is_one_sentence_that_counts_every_claim(states: dict[str, int], said: str) -> None:
    assert views.outcome(claims(**states)) == said


def test_the_tally_counts_every_state_in_order_of_goodness() -> None:
    counted = [(state.key, number) for state, number in views.tally(claims(blocked=1, reproduced=2))]
    assert counted == [
        ("reproduced", 2), ("partly", 0), ("not_reproduced", 0), ("inconclusive", 0), ("not_applicable", 0), ("blocked", 1),
    ]  # fmt: skip


def shown(*measurements: Measurement, **observations: object) -> views.Shown:
    record = Record(
        "benchmark", "x", "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-03-01T10:00:00Z", 1.0,
        observations, list(measurements),  # type: ignore[arg-type]
    )  # fmt: skip
    return views.Shown("benchmark/x", record, "")


def arm(name: str, *processes: list[float], unit: str = "s") -> Measurement:
    return Measurement(name, unit, [ProcessSamples([9.0], values) for values in processes])


def test_a_ratio_is_eager_over_inductor_and_leaves_warm_up_out() -> None:
    bench = views.benchmark(
        shown(
            arm("eager", [2.0, 2.0], [2.0, 2.0]),
            arm("inductor", [1.0, 1.0], [1.0, 1.0]),
            arm("placebo", [2.2, 2.2], [2.2, 2.2]),
        ),
        2.36,
    )
    assert bench.ratio is not None
    assert bench.placebo is not None
    assert bench.ratio.value == pytest.approx(2.0)
    assert bench.placebo.value == pytest.approx(1 / 1.1)
    assert bench.ratio.published == 2.36
    assert bench.figure is not None
    assert bench.figure.count("<circle") == 12


def test_one_process_gives_a_ratio_without_an_interval() -> None:
    bench = views.benchmark(shown(arm("eager", [2.0]), arm("inductor", [1.0])), None)
    assert bench.ratio is not None
    assert (bench.ratio.value, bench.ratio.low, bench.ratio.high) == (2.0, None, None)
    assert bench.arms[0].low is None


def of_starts(*untuned: list[float], tuned: tuple[list[float], ...]) -> views.Tuning:
    in_force = {"openmp_runtime": "libgomp.so.1", "malloc": "libc.so.6", "torch_threads": 2, "cpus": "0-1"}
    rows = [{"process": place, **in_force, "memory_policy": "default"} for place in (1, 2)]
    return views.tuning(
        shown(arm("eager_untuned", *untuned), arm("eager_tuned", *tuned), arm("first_call_tuned", [3.0]), untuned=rows)
    )


def test_what_the_tuning_is_worth_is_untuned_over_tuned_pair_by_pair_beside_its_placebo() -> None:
    found = of_starts([2.0, 9.0, 2.0], [4.0], tuned=([1.0, 1.0], [2.0]))
    (eager,) = found.arms

    assert (eager.ratio.value, eager.ratio.low, eager.ratio.high) == pytest.approx((2.0, 2.0, 2.0))
    assert (eager.untuned.centre, eager.tuned.centre) == pytest.approx((8**0.5, 2**0.5))
    assert eager.placebo is not None
    assert eager.placebo.value == pytest.approx(1.0)
    assert eager.placebo.high is not None
    assert eager.placebo.high > 2
    assert [one.name for one in found.ratios] == ["eager", "placebo of eager"]
    assert [name for name, _, _ in found.others] == ["First call tuned"]
    assert ("OpenMP runtime, untuned", ["libgomp.so.1"]) in found.untuned


def test_one_pair_of_processes_gives_a_ratio_and_no_placebo() -> None:
    (eager,) = of_starts([2.0], tuned=([1.0],)).arms

    assert (eager.ratio.value, eager.ratio.low, eager.placebo) == (2.0, None, None)


def test_ratios_of_processes_stand_in_the_figure_of_ratios() -> None:
    figure = views.ratio_figure([of_starts([2.0], [4.0], tuned=([1.0], [2.0]))], {"benchmark/x": "A title"})

    assert figure is not None
    assert "A title, eager: 2.0" in figure
    assert "placebo of eager" in figure


def test_first_calls_with_a_cold_cache_are_told_apart_from_warm_ones() -> None:
    one = shown(arm("first_call", [60.0], [18.0], [20.0]), first_call_caches=["cold", "warm", "warm"])
    plain = [(name, median.replace("\N{NO-BREAK SPACE}", " ")) for name, median, _ in views.benchmark(one, None).others]
    assert plain == [("First call, cold cache", "60.0 s"), ("First call, warm cache", "19.0 s")]


def test_the_published_ratio_is_that_of_the_claim_which_rests_on_this_benchmark_alone(results: Results) -> None:
    found = results.verdicts["claims"]
    assert views.published_ratio("benchmark/mobilebert_as_published", found) == pytest.approx(2.359459)
    assert views.published_ratio("benchmark/fused_pattern", found) == pytest.approx(6.0287, abs=1e-3)
    assert views.published_ratio("benchmark/mobilebert_default", found) is None


def test_a_link_belongs_to_the_line_of_its_number_and_text() -> None:
    lines = ["auto tmp0 = a;", "auto tmp1 = b;", "auto tmp0 = a;"]
    links = [{"line": 1, "cpp": "auto tmp0 = a;", "fx": "neg", "ir": "load", "aten": None}]
    found = views.kernel_lines(lines, links, {"auto tmp1 = b;": "here", None: "nowhere"})
    assert [line.fx for line in found] == ["neg", None, None]
    assert [line.mark for line in found] == [None, "here", None]
    assert [line.linked for line in found] == [True, False, False]


def test_a_kernel_begins_and_ends_with_a_line_that_says_something_and_keeps_its_numbers() -> None:
    found = views.kernel_lines(["", "void kernel() {", "", "}", "  "], [])
    assert [(line.number, line.text) for line in found] == [(2, "void kernel() {"), (3, ""), (4, "}")]


def test_the_ladder_has_a_column_for_every_backend_that_any_case_climbed() -> None:
    rung = {"passed": True, "dynamo_ran": True}
    full = shown(ladder=[{"backend": "eager", **rung}, {"backend": "inductor", **rung}])
    short = shown(ladder=[{"backend": "eager", **rung}])
    ladder = views.ladder([full, short, views.Shown("debug/gone", None, "")])
    assert [one["backend"] for one in ladder.backends] == ["eager", "inductor"]
    assert [[rung is not None for rung in row.rungs] for row in ladder.rows] == [[True, True], [True, False]]
    assert [gap.name for gap in ladder.gaps] == ["debug/gone"]


def test_evidence_without_a_record_has_no_link() -> None:
    cases = {"debug/there": shown(), "debug/gone": views.Shown("debug/gone", None, "")}
    names = ["debug/there", "debug/gone", "debug/there/output_code.py", "environment"]
    assert [link.target for link in views.evidence(names, cases)] == [
        "debug/there.json", None, "debug/there/output_code.py", "environment.json",
    ]  # fmt: skip
