"""The report's charts, element by element: every place is worked out by hand beside the figures it stands for."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from runs.pictures import drawn
from wardround.reports import charts
from wardround.reports.charts import few_shot
from wardround.reports.predictions import Curve, CurvePoint


def axis(x: str, y: str, text: str, anchor: str = "middle", css: str = "axis") -> str:
    return f"text {css} {x} {y} {anchor}: {text}"


def test_intervals_stand_on_a_scale_of_470_from_230() -> None:
    rows = [("a & b", 0.5, 0.25, 0.75), ("c", 1.0, None, 0.5), ("d", 0.0, 0.5, None)]
    scale = []
    for x, text in (("230.0", "0.0"), ("324.0", "0.2"), ("418.0", "0.4"), ("512.0", "0.6"), ("606.0", "0.8")):
        scale += [f"line grid {x} {x} 0 84", axis(x, "100.0", text)]
    assert drawn(charts.intervals(rows, title="T<")) == [
        "svg chart 760 0 0 760 110 img T<",
        "title: T<",
        *scale,
        "line grid 700.0 700.0 0 84",
        axis("700.0", "100.0", "1.0"),
        axis("220.0", "18.0", "a & b", "end", "label"),
        "line whisker 347.5 582.5 14 14",  # 230 + 470/4 and 230 + 470 * 3/4
        "circle dot 465.0 14 5",
        axis("712.0", "18.0", "0.500", "start", "value"),
        axis("220.0", "44.0", "c", "end", "label"),
        "circle dot 700.0 40 5",  # an interval with one end is none
        axis("712.0", "44.0", "1.000", "start", "value"),
        axis("220.0", "70.0", "d", "end", "label"),
        "circle dot 230.0 66 5",
        axis("712.0", "70.0", "0.000", "start", "value"),
    ]


def test_bars_fill_440_at_the_largest() -> None:
    assert drawn(charts.bars([("a", 2.0, "two"), ("b", 0.5, "half")], title="T")) == [
        "svg chart 760 0 0 760 58 img T",
        "title: T",
        axis("220.0", "18.0", "a", "end", "label"),
        "rect bar 230 5 440.0 17 2",
        axis("676.0", "18.0", "two", "start", "value"),
        axis("220.0", "44.0", "b", "end", "label"),
        "rect bar 230 31 110.0 17 2",
        axis("346.0", "44.0", "half", "start", "value"),
    ]


def test_a_whole_bar_may_be_named_and_no_bar_is_no_error() -> None:
    assert "rect bar 230 5 110.0 17 2" in drawn(charts.bars([("a", 0.5, "half")], title="T", full=2.0))
    assert "rect bar 230 5 0.0 17 2" in drawn(charts.bars([("a", 0.0, "0"), ("b", 1.0, "1")], title="T"))


def test_where_nothing_was_measured_no_mark_stands_at_zero() -> None:
    for chart in (
        charts.bars([], title="T"),
        charts.bars([("a", 0.0, "0.00 s")], title="T"),
        charts.frontier([("a", 0.0, 0.5), ("b", 0.0, 0.0)], title="T", unit="U"),
        charts.heat({"a": {"x": 0.0}}, ["x"], title="T"),
    ):
        assert chart == "<p>none</p>"


def test_a_heat_map_shows_shares_and_a_dot_for_none() -> None:
    # the longest name has 10 letters: cells of 8 + 7 * 10 = 78
    shares = {"r": {"x": 0.55, "yyyyyyyyyy": 1.5}, "s": {"x": 0.56}}
    assert drawn(charts.heat(shares, ["x", "yyyyyyyyyy"], title="T")) == [
        "svg chart 390 0 0 390 78 img T",
        "title: T",
        axis("269.0", "14.0", "x", css="label"),
        axis("347.0", "14.0", "yyyyyyyyyy", css="label"),
        axis("220.0", "39.0", "r", "end", "label"),
        "rect heat 231 23 76 24 0.275",  # half as opaque as the share is large
        axis("269.0", "39.0", "55%", css="label"),
        "rect heat 309 23 76 24 0.500",
        axis("347.0", "39.0", "150%", css="label"),
        axis("220.0", "65.0", "s", "end", "label"),
        "rect heat 231 49 76 24 0.280",
        axis("269.0", "65.0", "56%", css="label"),
        "rect heat 309 49 76 24 0.000",
        axis("347.0", "65.0", "·", css="value"),
    ]


def test_cells_are_46_to_130_wide() -> None:
    assert "rect heat 231 23 44 24 0.250" in drawn(charts.heat({"r": {"x": 0.5}}, ["x"], title="T"))
    assert "rect heat 231 23 128 24 0.250" in drawn(charts.heat({"r": {"x" * 40: 0.5}}, ["x" * 40], title="T"))


def levels(top: float, figures: str) -> list[str]:
    """The level lines of a plane from y 240 (0) up to 8 (``top``): each stands exactly where its figure says."""
    lines: list[str] = []
    for figure in figures.split():
        y = 8 + (1 - float(figure) / top) * 232
        lines += [f"line grid 40.0 520.0 {y:.1f} {y:.1f}", axis("34.0", f"{y + 4:.1f}", figure, "end")]
    return lines


def test_lines_run_over_the_settings_with_their_names_at_their_ends() -> None:
    # 0..50 with 6 % room: 40 + 3/56 * 480 = 65.7 and 494.3; up to 0.4 * 1.15 = 0.46: 0.2 is 8 + (1 - 0.2/0.46) * 232
    series = {"one": [(0.0, 0.2), (50.0, 0.4)], "two": [(0.0, 0.4)]}
    assert drawn(charts.lines(series, title="T", axis="A")) == [
        "svg chart 760 0 0 760 274 img T",
        "title: T",
        *levels(0.46, "0.0 0.1 0.2 0.3 0.4"),
        axis("65.7", "256.0", "0"),
        axis("494.3", "256.0", "50"),
        axis("280.0", "272.0", "A"),
        "polyline series s0 65.7,139.1 494.3,38.3",
        "circle dot s0 65.7 139.1 4",
        "circle dot s0 494.3 38.3 4",
        "polyline series s1 65.7,38.3",
        "circle dot s1 65.7 38.3 4",
        "line leader 500.3 38.3 534.0 38.3",
        axis("538.0", "42.3", "one", "start", "label"),
        "line leader 71.7 38.3 534.0 53.3",  # pushed down by 15, where two names would overlap
        axis("538.0", "57.3", "two", "start", "label"),
    ]


def test_the_seventh_line_looks_like_the_first() -> None:
    picture = drawn(charts.lines({f"{n}": [(0.0, 0.5)] for n in range(7)}, title="T", axis="A"))
    assert [line.split()[2] for line in picture if line.startswith("polyline")] == [
        f"s{n}" for n in (0, 1, 2, 3, 4, 5, 0)
    ]


def test_the_scale_ends_at_one_and_never_below_a_tenth() -> None:
    high = drawn(charts.lines({"a": [(1.0, 0.95)]}, title="T", axis="A"))
    low = drawn(charts.lines({"a": [(1.0, 0.0)]}, title="T", axis="A"))
    assert high[2:14] == levels(1.0, "0.0 0.2 0.4 0.6 0.8 1.0")
    assert low[2:14] == levels(0.1, "0.00 0.02 0.04 0.06 0.08 0.10")
    assert "circle dot s0 280.0 240.0 4" in low  # one setting stands in the middle: one to either side
    assert axis("280.0", "256.0", "1") in low


def test_the_frontier_joins_what_none_beats_in_both() -> None:
    # up to 0.6 * 1.15 = 0.69; 100, 200, 300 stand at 65.7, 280 and 494.3
    points = [("a", 100.0, 0.5), ("b", 200.0, 0.4), ("c", 300.0, 0.6), ("d", 100.0, 0.3), ("e", 300.0, 0.6)]
    assert drawn(charts.frontier(points, title="T", unit="U")) == [
        "svg chart 760 0 0 760 274 img T",
        "title: T",
        *levels(0.69, "0.0 0.2 0.4 0.6"),
        axis("65.7", "256.0", "100"),
        axis("172.9", "256.0", "150"),
        axis("280.0", "256.0", "200"),
        axis("387.1", "256.0", "250"),
        axis("494.3", "256.0", "300"),
        axis("280.0", "272.0", "U"),
        "polyline series 65.7,71.9 494.3,38.3",
        "circle dot 65.7 71.9 5",
        "circle dot 280.0 105.5 5",
        "circle dot 494.3 38.3 5",
        "circle dot 65.7 139.1 5",
        "circle dot 494.3 38.3 5",
        "line leader 500.3 38.3 534.0 38.3",
        axis("538.0", "42.3", "c (300)", "start", "label"),
        "line leader 500.3 38.3 534.0 53.3",
        axis("538.0", "57.3", "e (300)", "start", "label"),
        "line leader 71.7 71.9 534.0 71.9",
        axis("538.0", "75.9", "a (100)", "start", "label"),
        "line leader 286.0 105.5 534.0 105.5",
        axis("538.0", "109.5", "b (200)", "start", "label"),
        "line leader 71.7 139.1 534.0 139.1",
        axis("538.0", "143.1", "d (100)", "start", "label"),
    ]


def test_differences_are_shaded_by_the_largest_of_them() -> None:
    # the longest name has 10 letters: cells of 78; the largest is 0.5, which is as opaque as a cell may be
    gains = {"r": {"x": 0.5, "yyyyyyyyyy": -0.3}, "s": {"x": 0.0, "yyyyyyyyyy": 0.301}, "t": {}}
    assert drawn(charts.differences(gains, ["x", "yyyyyyyyyy"], title="T")) == [
        "svg chart 390 0 0 390 104 img T",
        "title: T",
        axis("269.0", "14.0", "x", css="label"),
        axis("347.0", "14.0", "yyyyyyyyyy", css="label"),
        axis("220.0", "39.0", "r", "end", "label"),
        "rect gain 231 23 76 24 0.500",
        axis("269.0", "39.0", "+50.0", css="label"),
        "rect loss 309 23 76 24 0.300",
        axis("347.0", "39.0", "-30.0", css="label"),
        axis("220.0", "65.0", "s", "end", "label"),
        "rect gain 231 49 76 24 0.000",
        axis("269.0", "65.0", "+0.0", css="label"),
        "rect gain 309 49 76 24 0.301",
        axis("347.0", "65.0", "+30.1", css="label"),
        axis("220.0", "91.0", "t", "end", "label"),
    ]


def test_cells_of_differences_are_58_to_190_wide_and_none_at_all_is_no_error() -> None:
    assert "rect loss 231 23 56 24 0.500" in drawn(charts.differences({"r": {"x": -0.1}}, ["x"], title="T"))
    assert "rect gain 231 23 188 24 0.500" in drawn(charts.differences({"r": {"x" * 40: 0.1}}, ["x" * 40], title="T"))
    assert "rect gain 231 23 56 24 0.000" in drawn(charts.differences({"r": {"x": 0.0}}, ["x"], title="T"))
    assert len(drawn(charts.differences({"r": {}}, ["x"], title="T"))) == 4


def test_an_axis_may_name_fewer_values_than_there_are() -> None:
    found = drawn(charts.lines({"a": [(0.0, 0.5), (25.0, 0.5), (50.0, 0.5)]}, title="T", axis="A", ticks=[25.0]))
    assert [line.rpartition(": ")[2] for line in found if " 256.0 " in line] == ["25"]


LONG = "retrosum · openai/qwen3-30b-a3b-instruct (few patients)"
POINT = CurvePoint(k=1, mean=0.4, low=0.3, high=0.5, replicates=3)
CURVE = Curve(predictor=LONG, task="guo_los", view="all", points=(POINT, replace(POINT, k=None)))


@pytest.mark.parametrize(
    "chart",
    [
        charts.intervals([(LONG, 0.5, 0.25, 0.75)], title="T"),
        charts.bars([(LONG, 0.5, "half")], title="T"),
        charts.heat({LONG: {"x": 0.5}}, ["x"], title="T"),
        charts.differences({LONG: {"x": 0.5}}, ["x"], title="T"),
        charts.lines({LONG: [(1, 0.5), (2, 0.7)]}, title="T", axis="A"),
        charts.frontier([(LONG, 1.0, 0.5)], title="T", unit="U"),
        few_shot([CURVE], {LONG: 0.6}, title="T", axis="A"),
    ],
)
def test_a_long_name_is_whole(chart: Markup) -> None:
    """In Chromium DejaVu Sans, the widest of the usual fonts, has 6.5 pixels to a letter of these words, bold 7.35."""
    root = ElementTree.fromstring(str(chart))
    width = float(root.get("viewBox", "").split()[2])
    names = [text for text in root.iter("text") if LONG in (text.text or "")]
    assert names
    for text in names:
        begins, long = float(text.get("x", "")), 7.4 * len(text.text or "")
        left = begins - long if text.get("text-anchor") == "end" else begins
        assert 0 <= left <= left + long <= width
