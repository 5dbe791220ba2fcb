from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.report.charts.inks import INKS, arm_styles
from controller.report.charts.order import order_chart
from controller.report.charts.phases import MOST_BARS, phases_chart
from controller.report.charts.plane import plane_chart, readings_fit
from controller.report.charts.png import png_file
from controller.report.charts.positions import positions_chart
from controller.report.charts.scale import Scale, nice_step, span, spread, tick_text
from controller.report.charts.shapes import Drawing, Line, Mark, Path, Text
from controller.report.charts.svg import inline_svg, svg_file
from controller.report.charts.throughput import throughput_chart
from controller.report.facts import collect
from tests.unit.controller.report.sample import BASELINE, EVIL, SLOWER, story, write_sweep

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from controller.report.facts import SweepFacts

FINITE = st.floats(min_value=-1e6, max_value=1e6)


def luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1])
def test_contrast(theme: int) -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for what a chart shows (1.4.11)."""
    for ground in ("paper", "stripe"):
        for ink in ("ink", "quiet", "good", "bad"):
            assert contrast(INKS[ink][theme], INKS[ground][theme]) >= 4.5, (ink, ground)
    for ink in (name for name in INKS if name.startswith("arm-")):
        assert contrast(INKS[ink][theme], INKS["paper"][theme]) >= 4.5, ink  # their names are written in them


def test_arms_differ_by_colour_or_form() -> None:
    names = ["baseline", *(f"steps-{number}" for number in range(1, 13))]
    styles = arm_styles(names, "baseline")
    assert styles["baseline"] == ("arm-0", "circle")
    assert len(set(styles.values())) == len(names)


@given(low=FINITE, width=st.floats(min_value=1e-6, max_value=1e6))
def test_ticks_lie_on_the_scale(low: float, width: float) -> None:
    scale = Scale(low, low + width, 0, 100)
    if scale.high == scale.low:
        return
    ticks = scale.ticks()
    assert len(ticks) <= 7
    assert all(-1 <= scale(tick) <= 101 for tick in ticks)


def test_scale_words() -> None:
    assert nice_step(10, 5) == 2
    assert tick_text(0.3000001, 0.1) == "0.3"
    assert tick_text(20.0, 10) == "20"
    assert span([]) == (0.0, 1.0)
    assert span([5.0, float("inf")])[0] < 5 < span([5.0])[1]
    assert Scale(0, 10, 0, 100).clip(20) == 100
    assert Scale(0, 10, 0, 100).holds(5)


@given(st.lists(st.floats(min_value=0, max_value=300), max_size=8))
def test_labels_are_moved_apart(wanted: list[float]) -> None:
    placed = sorted(spread(wanted, 15, 0, 300))
    assert all(later - earlier >= 15 - 1e-6 for earlier, later in itertools.pairwise(placed))
    assert all(-1e-6 <= place <= 300 + 1e-6 for place in placed)


@pytest.fixture
def facts(tmp_path: FilePath) -> SweepFacts:
    return collect(story(tmp_path))


def drawings(facts: SweepFacts, width: float) -> list[Drawing]:
    assert facts.analysis is not None
    [level] = facts.analysis.levels
    styles = arm_styles([arm.name for arm in facts.plan.arms], "baseline")
    found = [
        throughput_chart(level, styles, width=width, confidence=0.95, simulated=True),
        plane_chart(level, styles, width=width, simulated=True),
        positions_chart(level, styles, width=width, simulated=True),
        order_chart(level, facts.cells, styles, width=width, simulated=True),
        phases_chart(facts.cells, styles, width=width),
    ]
    assert None not in found
    return [drawing for drawing in found if drawing is not None]


@pytest.mark.parametrize("width", [900.0, 356.0])
def test_everything_stays_on_the_paper(facts: SweepFacts, width: float) -> None:
    for drawing in drawings(facts, width):
        for shape in drawing.shapes:
            match shape:
                case Mark():
                    places = [(shape.x, shape.y)]
                case Line():
                    places = [(shape.x1, shape.y1), (shape.x2, shape.y2)]
                case Path():
                    places = list(shape.points)
                case Text():
                    places = [(shape.x, shape.y)]
                case _:
                    places = [(shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height)]
            for x, y in places:
                assert -1 <= x <= drawing.width + 1, (drawing.title, shape)
                assert -1 <= y <= drawing.height + 1, (drawing.title, shape)


def test_every_launch_is_a_mark_and_figures_say_simulated(facts: SweepFacts) -> None:
    throughput, plane, *_ = drawings(facts, 900.0)
    marks = [shape for shape in throughput.shapes if isinstance(shape, Mark) and shape.title]
    assert len(marks) == 11
    assert "simulated" in throughput.title
    assert any("simulated" in shape.words for shape in plane.shapes if isinstance(shape, Text))
    assert "95% intervals" in throughput.description


def test_both_back_ends_take_every_shape(facts: SweepFacts) -> None:
    for drawing in drawings(facts, 356.0):
        assert EVIL not in inline_svg(drawing)
        assert EVIL not in svg_file(drawing)
        assert "var(--ink)" in inline_svg(drawing)
        assert png_file(drawing).startswith(b"\x89PNG")


def test_the_worked_example_is_drawn_only_where_the_scale_allows(tmp_path: FilePath) -> None:
    fast = collect(write_sweep(tmp_path / "fast", {"baseline": (800.0, 801.0, 802.0), "steps-2": (300.0,) * 3}))
    story_like = collect(write_sweep(tmp_path / "story", {"baseline": BASELINE, "steps-2": SLOWER}))
    assert fast.analysis is not None
    assert story_like.analysis is not None
    assert not readings_fit(fast.analysis.levels[0])
    assert readings_fit(story_like.analysis.levels[0])
    assert re.search("60 tok/s: C grew", inline_svg(drawings(story_like, 900.0)[1]))


@pytest.mark.parametrize("width", [900.0, 356.0])
def test_names_in_the_plane_cover_no_launch(tmp_path: FilePath, width: float) -> None:
    speeds = {"baseline": BASELINE, "steps-2": SLOWER, "steps-3": (57.0, 56.0, 57.5)}
    for lengths in ({"steps-2": 1.7, "steps-3": 1.7}, {"steps-2": 1.0, "steps-3": 1.0}):
        facts = collect(write_sweep(tmp_path / "sweep", speeds, lengths=lengths))
        plane = drawings(facts, width)[1]
        names = [shape for shape in plane.shapes if isinstance(shape, Text) and shape.words.startswith("steps-")]
        marks = [shape for shape in plane.shapes if isinstance(shape, Mark) and shape.title]
        assert len(names) == 2
        assert sum("-steps-" in mark.title for mark in marks) == 6
        for name in names:
            for mark in marks:
                beside = abs(mark.x - name.x) > 3.4 * len(name.words) + mark.size
                assert beside or not name.y - 11 < mark.y < name.y + 3, (name, mark)


def test_wide_intervals_get_arrows(tmp_path: FilePath) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": (82.0, 120.0), "steps-2": (60.0, 61.0)}))
    throughput = drawings(facts, 900.0)[0]
    assert any(isinstance(shape, Path) and shape.filled for shape in throughput.shapes)


def test_charts_without_data(tmp_path: FilePath) -> None:
    facts = collect(write_sweep(tmp_path, {"baseline": BASELINE}))
    assert facts.analysis is not None
    [level] = facts.analysis.levels
    styles = arm_styles(["baseline"], "baseline")
    assert plane_chart(level, styles, width=900, simulated=True) is None
    assert positions_chart(level, styles, width=900, simulated=True) is None
    assert phases_chart((), styles, width=900) is None
    empty = dataclasses.replace(level, arms=())
    assert order_chart(empty, (), styles, width=900, simulated=True) is None
    assert throughput_chart(empty, styles, width=900, confidence=0.95, simulated=True).height > 0


def test_many_launches_are_medians_by_arm(tmp_path: FilePath) -> None:
    many = (80.0,) * (MOST_BARS + 1)
    facts = collect(write_sweep(tmp_path, {"baseline": many}))
    drawing = phases_chart(facts.cells, arm_styles(["baseline"], "baseline"), width=356)
    assert drawing is not None
    assert "median of each arm" in drawing.title
