"""What of a reply is judged as a point: findings and inferences, not the headings over them."""

from __future__ import annotations

import pytest

from wardround.tasks.scoring.judging import points_of

POINTS = ["Hb 7.1 g/dL, so the anaemia is severe.", "Step 2: ferritin is low"]


@pytest.mark.parametrize(
    "heading",
    [
        "### Key findings",
        "**Differential diagnosis**",
        "**Key findings:**",
        "**Assessment**:",
        "Against the nearest alternative:",
        "1. **Laboratory results**",
        "Reasoning:",
    ],
)
def test_headings_are_no_points(heading: str) -> None:
    text = f"{heading}\n- {POINTS[0]}\n{heading}\n- Ferritin is low\nAnswer: iron deficiency"
    assert points_of(text) == (POINTS[0], "Ferritin is low")


@pytest.mark.parametrize(
    "point",
    [
        "# Anaemia: Hb 7.1, transfuse",
        "**Severe anaemia:** Hb 7.1 g/dL",
        "Haemolysis is unlikely",
        "The ferritin of 5 ng/mL and the low saturation leave one explanation for the anaemia:",
        "**Hb is 7.1 g/dL.**",
    ],
)
def test_what_says_something_is_a_point(point: str) -> None:
    assert len(points_of(f"{point}\nAnswer: x")) == 1
