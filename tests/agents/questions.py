"""Questions that the tests share: two labels, four, several at once, none."""

from __future__ import annotations

from datetime import datetime

from wardround.tasks.answers import AnswerKind, Candidates, OneClass, Question, SeveralClasses


def question(answer: AnswerKind) -> Question:
    return Question(
        name="t",
        title="Readmission",
        category="Operational outcomes",
        description="Will the patient come back?",
        factual_query="events before a readmission",
        counterfactual_query="events of an easy recovery",
        prediction_time=datetime(2150, 1, 1),
        answer=answer,
    )


READMISSION = question(OneClass(classes=(("0", "no readmission"), ("1", "readmission"))))
STAY = question(OneClass(classes=(("0", "<7 days"), ("1", ">=7 days"))))
ANEMIA = question(OneClass(classes=(("0", "normal"), ("1", "mild"), ("2", "moderate"), ("3", "severe"))))
FINDINGS = question(SeveralClasses(classes=(("0", "no finding"), ("1", "edema"), ("2", "pneumonia"))))
OPEN = question(Candidates(tables=("diagnoses_candidates",)))
