"""What the page shows of roofs and of what lies under them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pages import parsed

from cpulab.records import Measurement, ProcessSamples, Record
from cpulab.report import roofline, views

if TYPE_CHECKING:
    from pages import Results


def shown(case: str, times: dict[str, float], processes: int = 2, **observations: Any) -> views.Shown:
    """Return a case whose arms take these times in every round, but in one that is marked as disturbed."""
    measurements = [
        Measurement(arm, "s", [ProcessSamples([9.0], [value, 50 * value, value], [1]) for _ in range(processes)])
        for arm, value in times.items()
    ]
    record = Record(
        "roofline", case, "default", "smoke", "ok", "0" * 64, ["cpulab"], "2026-03-01T10:00:00Z", 1.0, observations,
        measurements,
    )  # fmt: skip
    return views.Shown(f"roofline/{case}", record, "")


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{NARROW NO-BREAK SPACE}", " ")


TIMES = {"eager": 36e-3, "preallocated": 30e-3, "inductor": 12.5e-3, "placebo": 36e-3, "copy": 10e-3, "triad": 10e-3}
MOVED = [
    {"arm": arm, "bytes": amount * 10**6}
    for arm, amount in {"eager": 90, "preallocated": 90, "inductor": 30, "copy": 20, "triad": 30}.items()
]
ROOFS = [
    {"kernel": "copy", "arm": "copy", "threads": 8, "bytes": 2 * 10**9, "flop": None},
    {"kernel": "matmul_float32", "arm": "matmul_float32", "threads": 8, "bytes": None, "flop": 16 * 10**9},
    {"kernel": "copy", "arm": "copy_one", "threads": 1, "bytes": 2 * 10**9, "flop": None},
    {"kernel": "matmul_float32", "arm": "matmul_float32_one", "threads": 1, "bytes": None, "flop": 16 * 10**9},
]
LAYERS: list[dict[str, Any]] = [
    {
        "rows": 64, "in_features": 512, "out_features": outputs, "calls": calls, "flop": 2 * 64 * 512 * outputs,
        "plain": f"plain_{outputs}", "packed": f"packed_{outputs}", "placebo": f"placebo_{outputs}",
    }
    for outputs, calls in ((128, 3), (2, 1))
]  # fmt: skip
LINEAR = {
    "plain_128": 1.5, "packed_128": 1.0, "placebo_128": 1.5, "plain_2": 0.1, "packed_2": 0.2, "placebo_2": 0.1,
}  # fmt: skip


def test_a_roof_is_what_a_call_moves_or_computes_over_its_time_on_all_threads_and_on_one() -> None:
    times = {"copy": 0.1, "copy_one": 0.2, "matmul_float32": 0.02, "matmul_float32_one": 0.16}
    found = roofline.machine(shown("machine", times, roofs=ROOFS))
    assert [(one.name, *map(plain, (one.amount, one.all_threads, one.one_thread))) for one in found] == [
        ("Copy", "2.00 GB", "20.0 GB/s", "10.0 GB/s"),
        ("Matrix product, float32", "16.0 Gflop", "800 Gflop/s", "100 Gflop/s"),
    ]


def test_a_roof_that_was_not_measured_is_left_open() -> None:
    (copy, _) = roofline.machine(shown("machine", {"copy": 0.1}, roofs=ROOFS))
    assert (plain(copy.all_threads), copy.one_thread) == ("20.0 GB/s", "—")


def test_an_arm_is_shown_with_its_bytes_its_bandwidth_and_its_share_of_the_highest_roof() -> None:
    found = roofline.pattern(shown("pattern", TIMES, bytes_moved=MOVED))
    rows = {arm.name: [plain(cell) for cell in (arm.time, arm.moved, arm.bandwidth, arm.share)] for arm in found.arms}
    assert rows["eager"] == ["36.0 ms", "90.0 MB", "2.50 GB/s", "83.3 % (83.3 to 83.3)"]
    assert rows["inductor"] == ["12.5 ms", "30.0 MB", "2.40 GB/s", "80.0 % (80.0 to 80.0)"]
    assert rows["triad"][3] == "the roof"
    assert rows["copy"][3].startswith("66.7 %")
    assert found.highest == "triad"


def test_the_gain_is_shown_as_the_product_of_its_factors_beside_what_the_bytes_give() -> None:
    found = roofline.pattern(shown("pattern", TIMES, bytes_moved=MOVED))
    assert [one.value for one in found.factors] == pytest.approx([2.88, 1.2, 2.4])
    assert found.predicted == 3
    assert found.part.startswith("82.8")


def test_of_one_process_there_are_values_and_no_intervals() -> None:
    found = roofline.pattern(shown("pattern", TIMES, processes=1, bytes_moved=MOVED))
    assert [(one.value, one.low) for one in found.factors] == [
        (pytest.approx(value), None) for value in (2.88, 1.2, 2.4)
    ]
    assert (found.part, found.arms[0].share, plain(found.arms[0].time)) == ("", "—", "36.0 ms")


def test_a_pattern_that_lacks_an_arm_is_not_shown() -> None:
    for lacking in ("preallocated", "triad"):
        times = {arm: value for arm, value in TIMES.items() if arm != lacking}
        assert roofline.pattern(shown("pattern", times, bytes_moved=MOVED)) == roofline.Pattern()


def test_linear_layers_are_added_up_by_calls_and_shown_one_by_one() -> None:
    found = roofline.linear(shown("linear", LINEAR, linear_layers=LAYERS))
    assert found.ratio is not None
    assert found.placebo is not None
    assert (found.ratio.value, found.placebo.value) == pytest.approx((4.6 / 3.2, 1))
    assert (found.calls, [(arm, plain(told)) for arm, told in found.totals]) == (
        4, [("plain", "4.60 s"), ("packed", "3.20 s")],
    )  # fmt: skip
    wide, narrow = found.layers
    assert (wide.row["calls"], wide.ratio, narrow.ratio) == (3, "1.50 (1.50 to 1.50)", "0.500 (0.500 to 0.500)")
    assert plain(wide.rate) == "8.39 Mflop/s"


def test_layers_that_nothing_packs_are_not_shown_as_measured() -> None:
    layers = [row | {"plain": None, "packed": None, "placebo": None} for row in LAYERS]
    assert roofline.linear(shown("linear", {}, linear_layers=layers)) == roofline.Linear()


def test_the_figure_has_both_reasons_or_the_one_that_there_is() -> None:
    pattern = roofline.pattern(shown("pattern", TIMES, bytes_moved=MOVED))
    linear = roofline.linear(shown("linear", LINEAR, linear_layers=LAYERS))
    both = roofline.figure(pattern, linear)
    assert both is not None
    assert "traffic: preallocated / inductor: 2.40" in both
    assert "plain / packed, all layers: 1.4" in both
    alone = roofline.figure(roofline.Pattern(), linear)
    assert alone is not None
    assert "preallocated" not in alone
    assert roofline.figure(roofline.Pattern(), roofline.Linear()) is None


def test_why_sampling_stopped_is_told_in_words() -> None:
    told = dict(roofline.sampling(shown("pattern", TIMES, stopped_by="budget", attestations=[{}, {}], rounds_taken=6)))
    assert told == {
        "Processes": 2, "Rounds": 6, "Of these disturbed": None, "Why sampling stopped": "the time budget was spent",
    }  # fmt: skip


def test_the_verdicts_stand_beside_what_they_rest_on_and_the_profile_beside_packing(results: Results) -> None:
    text = parsed(results.page()).text
    section = text[text.index("Roofs and reasons Why the fused pattern") : text.index("Records What every finding")]
    for identity in ("K3", "K4"):
        assert " ".join(results.claim(identity)["reason"].split()) in section
    assert f"In the profile ( P5 ): {views.measured(results.claim('P5'), 'ratio')}" in section


def test_a_build_that_packs_nothing_is_said_to(results: Results) -> None:
    record = results.records["roofline/linear"]
    layers = [{**row, "plain": None, "packed": None, "placebo": None} for row in record.observations["linear_layers"]]  # type: ignore[union-attr,dict-item]
    seen = {**record.observations, "packing": None, "linear_layers": layers}
    results.records[record.name] = replace(record, observations=seen, measurements=[])
    assert "Packed by nobody in this build" in parsed(results.page()).text
