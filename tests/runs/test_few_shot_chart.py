"""The few-shot figure is drawn where hand-computed places say: a plane from x 56 to 382 and y 256 up to 12."""

from __future__ import annotations

import pytest

from runs.pictures import drawn
from wardround.reports.charts import few_shot
from wardround.reports.predictions import Curve, CurvePoint


def point(k: int | None, mean: float, spread: float = 0.1) -> CurvePoint:
    return CurvePoint(k=k, mean=mean, low=mean - spread, high=mean + spread, replicates=3)


def curve(*points: CurvePoint, name: str = "p") -> Curve:
    return Curve(predictor=name, task="t", view="v", points=points)


def picture(*curves: Curve, **levels: float) -> list[str]:
    return drawn(few_shot(curves, levels, title="T<", axis="A"))


def axis(x: str, y: str, text: str, anchor: str = "middle", css: str = "axis") -> str:
    return f"text {css} {x} {y} {anchor}: {text}"


def grid(*lines: tuple[float, str]) -> list[str]:
    found: list[str] = []
    for y, text in lines:
        found += [f"line grid 42.0 392.0 {y:.1f} {y:.1f}", axis("36.0", f"{y + 4:.1f}", text, "end")]
    return found


def test_everything_stands_where_it_belongs() -> None:
    # figures 0.4..0.75 show as 0.3..0.8, 48.8 a tenth; 4 shots are 2 of 2.9 doublings: 56 + 2 / 2.9 * 326 = 280.8,
    # 3 shots 1.585 of them: 234.2
    one = curve(point(1, 0.5), point(3, 0.55), point(4, 0.6), point(None, 0.7, 0))
    assert picture(one, a=0.75, b=0.4) == [
        "svg chart few-shot 560 0 0 560 300 img T<",
        "title: T<",
        *grid((256, "0.3"), (207.2, "0.4"), (158.4, "0.5"), (109.6, "0.6"), (60.8, "0.7"), (12, "0.8")),
        "line tick 56.0 56.0 256.0 260.0",
        "line tick 234.2 234.2 256.0 260.0",
        "line tick 280.8 280.8 256.0 260.0",
        "line tick 382.0 382.0 256.0 260.0",
        axis("56.0", "273.0", "1"),
        axis("234.2", "273.0", "3"),
        axis("280.8", "273.0", "4"),
        axis("382.0", "273.0", "all"),
        axis("217.0", "292.0", "A"),
        "line level l0 42.0 392.0 36.4 36.4",
        "line level l1 42.0 392.0 207.2 207.2",
        "polygon band c0 56.0,109.6 234.2,85.2 280.8,60.8 280.8,158.4 234.2,182.8 56.0,207.2",
        "polyline curve c0 56.0,158.4 234.2,134.0 280.8,109.6",
        "line curve to-all c0 280.8 109.6 382.0 60.8",
        "circle mark c0 56.0 158.4 3.8",
        "circle mark c0 234.2 134.0 3.8",
        "circle mark c0 280.8 109.6 3.8",
        "circle mark c0 382.0 60.8 3.8",
        "line leader 392.0 36.4 404.0 36.4",
        axis("407.0", "40.4", "a 0.75", "start", "label"),
        "line leader 392.0 60.8 404.0 60.8",
        axis("407.0", "64.8", "p 0.70", "start", "label strong"),
        "line leader 392.0 207.2 404.0 207.2",
        axis("407.0", "211.2", "b 0.40", "start", "label"),
    ]


def test_a_wide_scale_names_every_second_tenth_and_stays_in_0_to_1() -> None:
    found = picture(curve(point(None, 0.5, 0)), a=0.99, b=0.01)
    scale = grid((256, "0.0"), (207.2, "0.2"), (158.4, "0.4"), (109.6, "0.6"), (60.8, "0.8"), (12, "1.0"))
    assert found[2:14] == scale
    assert found[14:16] == ["line tick 219.0 219.0 256.0 260.0", axis("219.0", "273.0", "all")]  # alone: in the middle


@pytest.mark.parametrize(("highest", "lines"), [(0.75, 7), (0.85, 4)])
def test_up_to_six_tenths_each_has_a_line(highest: float, lines: int) -> None:
    found = picture(curve(point(8, 0.3, 0)), a=highest)  # 0.2..0.8 are six tenths, 0.2..0.9 seven
    assert sum(line.startswith("line grid") for line in found) == lines


def test_the_scale_leaves_room_of_two_hundredths() -> None:
    near = picture(curve(point(8, 0.515, 0)), a=0.585)  # 0.495 and 0.605 lie beyond the tenths
    assert [line for line in near if line.endswith((": 0.4", ": 0.7"))] == [
        axis("36.0", "260.0", "0.4", "end"),
        axis("36.0", "16.0", "0.7", "end"),
    ]


def test_a_picture_of_nothing_has_the_whole_scale() -> None:
    assert picture()[2:14:2] == [f"line grid 42.0 392.0 {y:.1f} {y:.1f}" for y in (256, 207.2, 158.4, 109.6, 60.8, 12)]


def test_names_give_way_downwards_in_steps_of_15() -> None:
    found = picture(curve(point(8, 0.5, 0)), a=0.5, b=0.5)
    assert found[-6:] == [
        "line leader 392.0 134.0 404.0 134.0",
        axis("407.0", "138.0", "a 0.50", "start", "label"),
        "line leader 392.0 134.0 404.0 149.0",
        axis("407.0", "153.0", "b 0.50", "start", "label"),
        "line leader 392.0 134.0 404.0 164.0",
        axis("407.0", "168.0", "p 0.50", "start", "label strong"),
    ]


def test_names_at_the_bottom_are_pushed_up_to_end_8_below_it() -> None:
    # 0.0..0.5: all three want 256; 264 is the last place, and the first has room for itself
    found = picture(curve(point(8, 0.0, 0)), a=0.0, b=0.0, c=0.48)
    assert [line.split()[5] for line in found if line.startswith("line leader")] == ["21.8", "234.0", "249.0", "264.0"]
    assert found[2:4] == grid((256, "0.0"))


def test_shots_without_room_for_their_name_keep_their_tick() -> None:
    # 7 shots stand 0.193 of 54.3 before 8: no room beside it, though they come first
    found = picture(curve(*(point(k, 0.5, 0) for k in (1, 7, 8, 64))))
    assert sum(line.startswith("line tick") for line in found) == 4
    assert [line.rpartition(": ")[2] for line in found if " 273.0 " in line] == ["1", "8", "64"]


@pytest.mark.parametrize(("doublings", "said"), [(27, ["1", "2"]), (28, ["1"])])
def test_a_name_needs_half_of_its_width_and_of_its_neighbours_and_5(doublings: int, said: list[str]) -> None:
    # a doubling is 326 / 27 = 12.07 or 326 / 28 = 11.6 wide; "1" and "2" need 3.5 * 2 + 5 = 12
    found = picture(curve(*(point(k, 0.5, 0) for k in (1, 2, 2**doublings))))
    assert [line.rpartition(": ")[2] for line in found if " 273.0 " in line] == [*said, str(2**doublings)]


def test_level_lines_begin_again_after_four_and_marks_after_three() -> None:
    found = picture(*(curve(point(8, 0.5)) for _ in range(6)), a=0.1, b=0.2, c=0.3, d=0.4, e=0.5)
    assert [line.split()[2] for line in found if line.startswith("line level")] == ["l0", "l1", "l2", "l3", "l0"]
    assert [line.split()[:3] for line in found if " mark " in line] == [
        ["circle", "mark", "c0"],
        ["rect", "mark", "c1"],
        ["path", "mark", "c2"],
    ] * 2


def test_square_and_triangle_stand_around_their_point() -> None:
    found = picture(*(curve(point(8, 0.5, 0.0)) for _ in range(3)))
    assert [line for line in found if " mark " in line] == [
        "circle mark c0 219.0 134.0 3.8",
        "rect mark c1 215.6 130.6 6.8 6.8",
        "path mark c2 M219.0 129.6 l4.4 7.6 h-8.8 z",
    ]


def test_one_number_is_no_line_and_all_alone_is_joined_to_nothing() -> None:
    assert not [line for line in picture(curve(point(8, 0.5))) if "band" in line or "curve" in line]
    assert not [line for line in picture(curve(point(None, 0.5))) if "band" in line or "curve" in line]
    both = picture(curve(point(8, 0.5, 0), point(None, 0.5, 0)))
    assert [line for line in both if "curve" in line] == ["line curve to-all c0 56.0 134.0 382.0 134.0"]
