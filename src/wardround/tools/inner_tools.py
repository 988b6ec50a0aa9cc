"""Tools that touch no record: think, finish, next page, clinical scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from wardround.clinical.codes import normalise_label
from wardround.clinical.definitions import DEFINITIONS, score_at
from wardround.core import ToolFailure, UserError, format_time
from wardround.tools.definition import Range, clean_text, tool
from wardround.tools.session import Session, ToolResult

_NAMED = 20


class CitedAnswer(TypedDict):
    """What a model cites for one answer."""

    answer: str
    row_ids: list[str]


CitedRows = Annotated[
    list[CitedAnswer] | None,
    "The row ids (first column of results) that support each answer.",
]
Response = Annotated[list[str], "The answer, spelled as the question asks."]


@tool("inner")
def think(*, response: str) -> str:
    """Write down a thought. Reads nothing."""
    return "Thought noted."


@tool("table")
def load_ehr(
    session: Session,
    *,
    timestamp: Annotated[str | None, "Optional; the record is always as of the time of the question."] = None,
) -> str:
    """Open the patient's record as of the time of the question. It is open already: calling this only says so."""
    return (
        f"The record of subject {session.chart.subject_id} is open as of {format_time(session.chart.as_of)}; neither "
        f"can be changed. Tables: {', '.join(session.chart.table_names)}. get_table_description tells what one holds."
    )


@tool("inner", reads_only=False)
def finish(session: Session, *, response: Response, evidence: CitedRows = None) -> ToolResult:
    """Give the final answer. It ends the episode."""
    answer = tuple(dict.fromkeys(item.strip() for item in response if item.strip()))
    if session.checks_answers:
        _check_answer(session, answer)
    cited, problems = read_evidence(evidence or ())
    rows = sum(map(len, cited.values()))
    parts = [_counted(len(answer), "item"), *([_counted(rows, "cited row")] if cited else [])]
    text = f"Answer recorded: {', '.join(parts)}."
    return ToolResult(text="\n".join((text, *problems)), answer=answer, evidence=cited)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check_answer(session: Session, answer: Sequence[str]) -> None:
    """Refuse, once, an answer with names that are no candidates, and say the nearest ones."""
    space = session.answer_space
    listed = session.listed
    unlisted = [name for name in answer if normalise_label(name) not in listed]
    strange = [name for name in unlisted if space is not None and space.labels.resolve(name) is None]
    if space is None or not strange:
        return
    session.accept_any_answer()
    lines = []
    for name in strange[:_NAMED]:
        found = [repr(match.label) for match in space.by_meaning(name, 3, in_use=True)]
        lines.append(f"{name!r}: {', '.join(found) or 'nothing like it'}")
    if len(strange) > _NAMED:
        lines.append(f"and {len(strange) - _NAMED} more")
    raise ToolFailure(
        f"not recorded: {len(strange)} of {len(answer)} names are not in {space.name!r}. Nearest names there:\n"
        + "\n".join(lines)
        + "\nCall finish again with the names you mean, spelt as there. This is said once: the next answer is taken."
    )


def read_evidence(entries: Sequence[Mapping[str, Any]]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the row ids cited for each answer, and a note for each entry that cannot be read and is left out."""
    cited: dict[str, tuple[str, ...]] = {}
    problems = []
    for index, entry in enumerate(entries):
        rows = entry.get("row_ids") if isinstance(entry, Mapping) else None
        rows = [rows] if isinstance(rows, str) else rows
        if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows) or "answer" not in entry:
            problems.append(
                f"Note: evidence item {index} was left out: it must be "
                f'{{"answer": "...", "row_ids": ["labevents:12345", ...]}}, got {entry!r:.80}.'
            )
            continue
        answer = clean_text(str(entry["answer"])).strip()
        found = (clean_text(row).strip() for row in rows)
        cited[answer] = tuple(dict.fromkeys((*cited.get(answer, ()), *found)))
    return cited, tuple(problems)


@tool("inner")
def get_next_page(session: Session, *, cursor: str) -> ToolResult:
    """Continue an earlier result (rows, or a long text) from the cursor it gave."""
    return session.cursors.resume(cursor)


# ``get_clinical_score``: a published score of the patient as of the session's moment, with what it does not know.


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
    definition = DEFINITIONS[found.name]
    value = "unknown" if found.value is None else f"{found.value}"
    if found.bounds is not None and not found.bounds.is_exact:
        value = f"at least {found.bounds.low:g}, at most {found.bounds.high:g}"
    lines = [f"{definition.title} as of {format_time(found.as_of)}, last {found.hours} h: {value} ({definition.unit})"]
    lines += [f"{part}: {'unknown' if points is None else points}" for part, points in found.parts.items()]
    if found.unknown:
        lines.append(f"not charted: {', '.join(found.unknown)}")
    lines.append(f"published: doi {definition.doi}{f'; {definition.variant}' if definition.variant else ''}")
    return "\n".join(lines)
