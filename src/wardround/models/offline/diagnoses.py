"""The plan for the diagnoses of a stay."""

from __future__ import annotations

from collections.abc import Sequence

from wardround.models.offline import queries
from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.conversation import Result
from wardround.models.offline.notes import Known, Note
from wardround.models.offline.plan import (
    PLACE,
    STAY,
    TABLES,
    Step,
    row_ids,
    rows_of,
    search_step,
    since,
    tally,
    thinking,
)
from wardround.models.offline.rules import names
from wardround.models.offline.steps import (
    Answer,
    Plan,
    abnormal,
    believe_thoughts,
    care,
    drugs,
    reason_to_come,
    settled,
)

TASK = "diagnoses"


def _organisms(known: Known, results: Sequence[Result]) -> list[Note]:
    return [
        Note(kind="organism", value=f"{row.get('spec_type_desc', '')} {row['org_name']}", rows=row_ids(row))
        for row in rows_of(results)
        if row.get("org_name")
    ]


def _lasts(label: str) -> float:
    """Return how likely a category of one earlier stay holds again."""
    if any(word in label for word in names(TASK, "acute")):
        return 0.15
    return 0.75 if any(word in label for word in names(TASK, "chronic")) else 0.35


def _answer(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("past"):
        beliefs.add(note.value, min(_lasts(note.value.lower()) + 0.1 * (note.amount - 1), 0.9), note.rows)
    believe_thoughts(TASK, known, beliefs)
    return settled(beliefs, least=0.28 + shift, most=20, fewest=3)


PLAN = Plan(
    task=TASK,
    steps=(
        TABLES,
        STAY,
        PLACE,
        reason_to_come(TASK),
        Step(
            name="diagnoses of earlier stays",
            ask=lambda known: (
                [queries.past_groups("diagnoses_icd", "COUNT(DISTINCT hadm_id)")]
                if known.table("diagnoses_icd")
                else []
            ),
            read=tally("past", "ccs_label", most=60),
            otherwise=lambda known: [queries.by_time("diagnoses_icd")],
        ),
        abnormal(TASK),
        drugs(TASK),
        Step(
            name="organisms found",
            ask=lambda known: [queries.organisms(since(known))] if known.table("microbiologyevents") else [],
            read=thinking(_organisms, TASK),
        ),
        care(TASK),
        search_step(TASK),
    ),
    answer=_answer,
)
