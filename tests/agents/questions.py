"""Questions that the tests share: two labels, four, several at once, none."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from wardround.core import Question


def question(values: tuple[str, ...], names: tuple[str, ...], **more: Any) -> Question:
    return Question(
        name="t",
        title="Readmission",
        category="Operational outcomes",
        description="Will the patient come back?",
        factual_query="events before a readmission",
        counterfactual_query="events of an easy recovery",
        prediction_time=datetime(2150, 1, 1),
        label_values=values,
        label_names=names,
        **more,
    )


READMISSION = question(("0", "1"), ("no readmission", "readmission"))
STAY = question(("0", "1"), ("<7 days", ">=7 days"))
ANEMIA = question(("0", "1", "2", "3"), ("normal", "mild", "moderate", "severe"))
FINDINGS = question(("0", "1", "2"), ("no finding", "edema", "pneumonia"), several=True)
OPEN = question((), ())
