"""``get_clinical_score``: a published score of the patient as of the session's moment, with what it does not know."""

from __future__ import annotations

from typing import Annotated

from wardround.core import ToolFailure, UserError, format_time
from wardround.definitions import DEFINITIONS, score_at
from wardround.tools.session import Session
from wardround.tools.signature import Range, tool

_LONGEST_HOURS = 168


@tool("record")
def get_clinical_score(
    session: Session,
    *,
    name: Annotated[
        str,
        "Which: gcs, sofa, qsofa, sirs, kdigo, meld, urine_output, vasopressors, ventilation, "
        "suspicion_of_infection or sepsis3.",
    ],
    hours: Annotated[int, Range(0, _LONGEST_HOURS), "Look back so many hours; 0 for the published window."] = 0,
) -> str:
    """Compute a clinical score from the chart as it stands now: the worst values of the window that ends now. What was
    not charted is unknown: a score of which parts are missing is given as the least and the most that it can be."""
    try:
        found = score_at(session.chart, name.strip().lower(), hours=hours or None)
    except UserError as error:
        raise ToolFailure(str(error)) from None
    told = DEFINITIONS[found.name]
    value = "unknown" if found.value is None else f"{found.value}"
    if found.bounds is not None and not found.bounds.is_exact:
        value = f"at least {found.bounds.low:g}, at most {found.bounds.high:g}"
    lines = [f"{told.title} as of {format_time(found.as_of)}, last {found.hours} h: {value} ({told.unit})"]
    lines += [f"{part}: {'unknown' if points is None else points}" for part, points in found.parts.items()]
    if found.unknown:
        lines.append(f"not charted: {', '.join(found.unknown)}")
    lines.append(f"published: doi {told.doi}{f'; {told.variant}' if told.variant else ''}")
    return "\n".join(lines)
