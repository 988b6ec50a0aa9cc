"""The few-shot figure is drawn where hand-computed places say: a plane from x 56 to 382 and y 256 up to 12."""

from __future__ import annotations

from wardround.runs.few_shot_chart import few_shot
from wardround.runs.predictions import Curve, CurvePoint

POINTS = (
    CurvePoint(k=1, mean=0.5, low=0.4, high=0.6, replicates=3),
    CurvePoint(k=4, mean=0.7, low=0.6, high=0.8, replicates=3),
    CurvePoint(k=None, mean=0.8, low=0.8, high=0.8, replicates=1),
)


def drawn(curves: int) -> str:
    made = [Curve(predictor=f"p{n}", task="t", view="v", points=POINTS) for n in range(curves)]
    return str(few_shot(made, {}, title="title", axis="axis"))


def test_band_line_and_way_to_all_stand_where_they_belong() -> None:
    # figures 0.4..0.8 show as 0.3..0.9; 4 shots are 2 of 2.9 doublings: 56 + 2 / 2.9 * 326 = 280.8
    picture = drawn(1)
    assert '<polygon class="band c0" points="56.0,134.0 280.8,52.7 280.8,134.0 56.0,215.3"/>' in picture
    assert '<polyline class="curve c0" points="56.0,174.7 280.8,93.3"/>' in picture
    assert '<line class="curve to-all c0" x1="280.8" y1="93.3" x2="382.0" y2="52.7"/>' in picture


def test_marks_change_from_curve_to_curve_and_begin_again_after_three() -> None:
    picture = drawn(6)
    marks = [picture.count(f'<{form} class="mark') for form in ("circle", "rect", "path")]
    assert marks == [2 * len(POINTS)] * 3
