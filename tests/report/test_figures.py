"""Figures: every sample is drawn where it belongs, and an odd interval breaks nothing."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from cpulab.report import figures
from cpulab.report.figures import Arm, Ratio

ARMS = [
    Arm("eager", [[1.0, 1.1, 1.2], [1.05, 1.15]], 1.1, 1.0, 1.2),
    Arm("inductor", [[0.5, 0.6], [0.55]], 0.55, 0.5, 0.6),
]


def places(svg: str, tag: str) -> list[float]:
    """Return where the elements of a kind stand, in per cent of the width."""
    return [float(x) for x in re.findall(rf'<{tag} cx="([\d.]+)%"', svg)]


def test_every_sample_is_a_dot_within_the_figure() -> None:
    svg = figures.samples("f", "Samples", ARMS, "s")
    dots = places(svg, "circle")
    assert len(dots) == 8
    assert all(0 < dot < 100 for dot in dots)
    assert dots[0] < dots[1] < dots[2]
    assert max(dots[5:]) < min(dots[:5])


def test_every_process_has_a_line_of_its_own() -> None:
    svg = figures.samples("f", "Samples", ARMS, "s")
    heights = dict.fromkeys(re.findall(r'cy="([\d.]+)"', svg))
    assert len(heights) == 4


def test_a_figure_is_well_formed_and_named_for_those_who_do_not_see_it() -> None:
    for svg in (
        figures.samples("f", "Samples & more", ARMS, "s"),
        figures.ratios("f", "Ratios & more", [("Model", [Ratio("eager / inductor", 2.0, 1.9, 2.1, 2.36)])], "same"),
        figures.steps("f", "Steps & more", [("start", 5), ("cut <here>", 3)]),
    ):
        root = ET.fromstring(svg)  # noqa: S314 - our own
        names = [child.tag for child in root]
        assert names[:2] == ["title", "desc"]
        assert root.get("aria-labelledby") == "f-t f-d"
        assert root[1].text


def test_values_far_apart_get_a_logarithmic_axis() -> None:
    assert not figures.axis([1.0, 2.0]).logarithmic
    axis = figures.axis([0.01, 1.0])
    assert axis.logarithmic
    assert axis.place(0.1) == pytest.approx(50)
    assert {0.01, 0.1, 1.0} <= {round(tick, 9) for tick in axis.ticks}


def test_equal_values_still_have_an_axis() -> None:
    assert 0 < figures.axis([3.0, 3.0]).place(3.0) < 100


@pytest.mark.parametrize(("low", "high"), [(0.0, math.inf), (1e-30, 1e30), (None, None)])
def test_an_interval_wider_than_the_axis_is_cut_and_does_not_crowd_the_samples(
    low: float | None, high: float | None
) -> None:
    odd = Arm("eager", [[1.0, 1.1], [1.2, 1.3]], 1.15, low, high)
    svg = figures.samples("f", "Samples", [odd], "s")
    dots = places(svg, "circle")
    assert max(dots) - min(dots) > 50
    shares = [float(share) for share in re.findall(r'"(-?[\d.]+)%"', svg)]
    assert all(0 <= share <= 100 for share in shares)
    ratios = figures.ratios("f", "Ratios", [("Model", [Ratio("r", 1.2, low, high, 2.36)])], "same")
    assert max(places(ratios, "circle")) > 5


def test_a_published_ratio_is_a_diamond_and_a_number() -> None:
    svg = figures.ratios(
        "f", "Ratios", [("Model", [Ratio("r", 1.2, 1.1, 1.3, 2.36), Ratio("placebo", 1.0, 0.9, 1.1)])], "same"
    )
    assert svg.count("<path") == 1
    assert "published 2.36" in svg


def test_steps_are_as_long_as_their_count() -> None:
    svg = figures.steps("f", "Steps", [("start", 5), ("cut", 3)])
    assert re.findall(r'class="bar" x="0%" y="\d+" width="([\d.]+)%"', svg) == ["100.00", "60.00"]


def test_a_share_fills_its_bar_and_no_more() -> None:
    assert 'width="25.00%"' in figures.share_bar(0.25)
    assert 'width="100.00%"' in figures.share_bar(1.7)
