"""What the page shows of a benchmark: ratios, arms, how they were sampled and what disturbed them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from pages import parsed

from cpulab.records import Measurement, ProcessSamples, Record
from cpulab.report import measuring, views

if TYPE_CHECKING:
    from pages import Results


def shown(*measurements: Measurement, **observations: object) -> views.Shown:
    record = Record(
        "benchmark", "x", "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-03-01T10:00:00Z", 1.0,
        observations, list(measurements),  # type: ignore[arg-type]
    )  # fmt: skip
    return views.Shown("benchmark/x", record, "")


def arm(name: str, *processes: list[float], unit: str = "s") -> Measurement:
    return Measurement(name, unit, [ProcessSamples([9.0], values) for values in processes])


def test_a_ratio_is_eager_over_inductor_and_leaves_warm_up_out() -> None:
    bench = measuring.benchmark(
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
    bench = measuring.benchmark(shown(arm("eager", [2.0]), arm("inductor", [1.0])), None)
    assert bench.ratio is not None
    assert (bench.ratio.value, bench.ratio.low, bench.ratio.high) == (2.0, None, None)
    assert bench.sampling.arms[0].arm.low is None


def of_starts(*untuned: list[float], tuned: tuple[list[float], ...]) -> measuring.Tuning:
    in_force = {"openmp_runtime": "libgomp.so.1", "malloc": "libc.so.6", "torch_threads": 2, "cpus": "0-1"}
    rows = [{"process": place, **in_force, "memory_policy": "default"} for place in (1, 2)]
    return measuring.tuning(
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
    figure = measuring.ratio_figure([of_starts([2.0], [4.0], tuned=([1.0], [2.0]))], {"benchmark/x": "A title"})

    assert figure is not None
    assert "A title, eager: 2.0" in figure
    assert "placebo of eager" in figure


def test_first_calls_with_a_cold_cache_are_told_apart_from_warm_ones() -> None:
    one = shown(arm("first_call", [60.0], [18.0], [20.0]), first_call_caches=["cold", "warm", "warm"])
    plain = [
        (name, median.replace("\N{NO-BREAK SPACE}", " ")) for name, median, _ in measuring.benchmark(one, None).others
    ]
    assert plain == [("First call, cold cache", "60.0 s"), ("First call, warm cache", "19.0 s")]


def test_the_published_ratio_is_that_of_the_claim_which_rests_on_this_benchmark_alone(results: Results) -> None:
    found = results.verdicts["claims"]
    assert measuring.published_ratio("benchmark/mobilebert_as_published", found) == pytest.approx(2.359459)
    assert measuring.published_ratio("benchmark/fused_pattern", found) == pytest.approx(6.0287, abs=1e-3)
    assert measuring.published_ratio("benchmark/mobilebert_default", found) is None


def plain(text: object) -> str:
    return str(text).replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


def stretch(process: int, first: int, rounds: int, **changes: Any) -> dict[str, Any]:
    return {
        "process": process, "first_round": first, "rounds": rounds, "seconds": 0.5, "sentinel_s": 1e-4, "waited": 0.0,
        "steal": 0.0, "others": 0.01, "involuntary": 2, "running": 2, "frequency_hz": None, "disturbed": False,
        "because": "", **changes,
    }  # fmt: skip


def watched(**changes: Any) -> views.Shown:
    """Return a benchmark of two processes; in rounds 3 and 4 of the second one a neighbour ran."""
    marked = [2, 3]
    measurements = [
        Measurement(
            name, "s", [ProcessSamples([9.0], [one] * 4), ProcessSamples([9.0], [other, other, 8.0, 8.0], marked)]
        )
        for name, one, other in (("eager", 2.0, 2.2), ("inductor", 1.0, 1.1), ("placebo", 2.0, 2.2))
    ]
    measurements += [arm("peak_memory_eager", [1e9], unit="byte"), arm("peak_memory_inductor", [2e9], unit="byte")]
    seen = {
        "stopped_by": "budget",
        "warmups": [{"process": 0, "rounds": 4, "steady": True}, {"process": 1, "rounds": 16, "steady": False}],
        "watch": [
            stretch(0, 0, 4),
            stretch(1, 0, 2),
            stretch(1, 2, 2, disturbed=True, because="threads waited for a CPU 31 % of the time", waited=0.314),
        ],
        "rounds_taken": 8, "rounds_disturbed": 2, "rounds_again": 1, "harness_s_per_sample": 2e-3, "calls_per_sample": [2, 2],
        "protocol": [
            {"arm": "eager", "warmup": 10, "iterations": 50, "seconds": 150.0, "first_call": 3.0},
            {"arm": "inductor", "warmup": 10, "iterations": 50, "seconds": 50.0, "first_call": 30.0},
        ],
    }  # fmt: skip
    return shown(*measurements, **(seen | changes))


def facts(sampling: measuring.Sampling) -> dict[str, str]:
    return {name: plain(value) for name, value in sampling.facts if value}


def test_disturbed_rounds_are_drawn_as_crosses_and_do_not_count() -> None:
    bench = measuring.benchmark(watched(), None)
    assert bench.ratio is not None
    assert bench.ratio.value == pytest.approx(2.0)
    eager = bench.sampling.arms[0]
    assert (eager.processes, eager.taken, eager.kept) == (2, 8, 6)
    assert eager.arm.centre == pytest.approx((2.0 * 2.2) ** 0.5)
    assert bench.figure is not None
    assert bench.figure.count("<circle") == 18
    assert bench.figure.count('class="cross"') == 6


def test_a_process_with_too_few_undisturbed_rounds_counts_whole_and_that_is_said() -> None:
    one = ProcessSamples([], [1.0, 1.0, 1.0, 3.0], [0, 1, 2])
    other = ProcessSamples([], [1.0] * 4)
    bench = measuring.benchmark(
        shown(Measurement("eager", "s", [one, other]), rounds_taken=8, rounds_disturbed=3, rounds_again=0), None
    )
    assert bench.sampling.arms[0].kept == 8
    assert "too few were left in process 1, so that all rounds count there" in facts(bench.sampling)["Rounds"]


def test_several_processes_are_told_together() -> None:
    never = [{"process": number, "rounds": 16, "steady": False} for number in (0, 1)]
    told = facts(measuring.benchmark(watched(warmups=never), None).sampling)
    assert told["Warm-up rounds until steady"] == "16, 16; processes 1 and 2 did not become steady"


def test_how_samples_were_taken_is_told_in_words() -> None:
    told = facts(measuring.benchmark(watched(), None).sampling)
    assert told["Processes"] == "2"
    assert told["Warm-up rounds until steady"] == "4, 16; process 2 did not become steady"
    assert told["Rounds"] == "8 taken, 2 marked as disturbed, 1 taken again in their place"
    assert told["Sampling stopped because"] == "the time budget was spent"
    # 2 ms on top of a sample of two calls of 1.05 s.
    assert told["Cost of the harness"].startswith("2.0 ms a sample with the sentinel, 0.095 % of a sample")


def test_each_arm_has_the_peak_memory_of_its_own_process() -> None:
    bench = measuring.benchmark(watched(), None)
    assert [plain(row.peak_memory) for row in bench.sampling.arms] == ["1.00 GB", "2.00 GB", ""]
    assert bench.others == []


def test_the_tutorials_protocol_stands_beside_the_ratio_with_what_it_would_have_said() -> None:
    bench = measuring.benchmark(watched(), 2.36)
    said = {what: (plain(value), words) for what, value, words in bench.said}
    value, words = said["The tutorial\N{RIGHT SINGLE QUOTATION MARK}s own protocol, run once here"]
    assert value == "3.00"
    assert words == "10 and 50 calls, arms one after the other: above our interval"
    assert said["Published"] == ("2.36", "above our interval")
    assert "Smallest effect that such a run finds" in said
    assert [plain(row.protocol) for row in bench.sampling.arms] == ["3.00 s", "1.00 s", ""]


def test_a_disturbed_stretch_is_a_row_with_its_reason_beside_what_is_usual() -> None:
    watch = measuring.benchmark(watched(), None).sampling.watch
    (row,) = watch.disturbed
    assert (row.number, row.process, row.rounds) == (1, 2, "3 to 4")
    assert row.because == "threads waited for a CPU 31 % of the time"
    waited = watch.columns.index("Waited for a CPU")
    assert (plain(row.cells[waited]), plain(watch.usual[waited])) == ("31 %", "0 %")
    assert watch.stretches == 3
    # This machine does not tell its frequency.
    assert "Frequency" not in watch.columns


def test_the_timeline_has_every_round_of_every_arm_the_sentinel_and_the_marks_number() -> None:
    figure = measuring.benchmark(watched(), None).sampling.timeline
    assert figure is not None
    assert figure.count("<circle") == 18
    assert figure.count('class="cross"') == 6
    assert figure.count('class="boundary"') == 1
    assert ">sentinel</text>" in figure
    band = re.search(r'<rect class="disturbed" x="([\d.]+)%" y="\d+" width="([\d.]+)%"', figure)
    assert band is not None
    assert [float(share) for share in band.groups()] == [75.0, 25.0]
    assert '<text class="sign" x="87.50%" y="28" text-anchor="middle">1</text>' in figure


def test_disturbed_stretches_that_follow_one_another_have_one_mark() -> None:
    rows = [stretch(0, first, 1, disturbed=first != 2, because="x") for first in range(4)]
    figure = measuring.benchmark(watched(watch=rows), None).sampling.timeline
    assert figure is not None
    assert re.findall(r'<text class="sign"[^>]*>([^<]*)<', figure) == ["1\N{EN DASH}2", "3"]


def test_rounds_of_both_start_kinds_stand_in_the_order_their_processes_ran() -> None:
    one = shown(
        arm("eager_untuned", [4.0, 4.0], [5.0, 5.0]),
        arm("eager_tuned", [2.0, 2.0], [2.5, 2.5]),
        process_order=[
            {"process": place, "start": start} for place, start in enumerate(("tuned", "untuned", "untuned", "tuned"))
        ],
        watch=[stretch(process, 0, 2) for process in range(4)],
    )
    figure = measuring.tuning(one).sampling.timeline
    assert figure is not None
    assert list(dict.fromkeys(re.findall(r'<g class="arm-(\d)', figure))) == ["0"]
    lanes = dict(re.findall(r'<g class="arm-\d"><text[^>]*>(\w+ \w+)<(.*?)</g>', figure))
    places = {name: [float(x) for x in re.findall(r'<circle cx="([\d.]+)%"', body)] for name, body in lanes.items()}
    assert places == {"eager tuned": [6.25, 18.75, 81.25, 93.75], "eager untuned": [31.25, 43.75, 56.25, 68.75]}


def test_a_process_without_a_sample_breaks_nothing() -> None:
    bench = measuring.benchmark(shown(arm("eager", [2.0, 2.0], []), arm("inductor", [1.0], [])), None)
    assert bench.ratio is not None
    assert (bench.ratio.value, bench.ratio.low) == (2.0, None)


def test_a_record_from_before_the_watch_shows_what_it_has() -> None:
    bench = measuring.benchmark(shown(arm("eager", [2.0, 2.0], [2.0, 2.0]), arm("inductor", [1.0], [1.0])), None)
    assert bench.sampling.timeline is None
    assert bench.sampling.watch == measuring.Watch()
    assert facts(bench.sampling) == {"Processes": "2"}
    assert [row.peak_memory for row in bench.sampling.arms] == ["", ""]


def test_the_page_shows_the_marked_rounds_and_escapes_their_reasons(results: Results) -> None:
    attack = "<script>alert(1)</script>"
    one = watched(watch=[stretch(0, 0, 4), stretch(1, 0, 4, disturbed=True, because=attack)]).record
    assert one is not None
    results.records["benchmark/fused_pattern"] = one
    html = results.page()
    page = parsed(html)
    assert page.faults == []
    assert attack not in html
    assert "1 of 2 watched stretches of rounds marked as disturbed, and why" in page.text
    assert f"2 1 to 4 {attack}" in page.text
