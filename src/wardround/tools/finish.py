"""The answer of an episode: the tool that gives it, the rows it cites, and whether these support it.

A row supports an answer if one of its cells is the answer, if its code belongs to the answer's category, or if most of
the answer's specific words are close together in its text (abbreviations are read in their long form). This is a
lexical check: a creatinine of 4 does not support renal failure; the word "renal failure" in a note does, negated or
not. An image has no words: it supports the answer that cites it if an image tool has shown it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypedDict

from wardround.clinical.codes import load_abbreviations, load_ccs, normalise_label
from wardround.core import ToolFailure
from wardround.tools.definition import clean_text, tool
from wardround.tools.session import Session, ToolResult
from wardround.tools.table_view import TableView

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


# Whether a cited row exists, was read and supports its answer.


_WORD = re.compile(r"[^\W_]+")
_GENERIC = frozenset(
    """
    a an and any as at by due for from in into nec no nos not of on or other others than the to unspecified with without
    acute chronic essential primary secondary disease diseases disorder disorders condition conditions complication
    complications symptom symptoms syndrome finding findings care unit test procedure procedures therapeutic diagnostic
    elsewhere classified related type left right mg ml
    """.split()  # noqa: SIM905
)
_SHARE = 0.6
_WINDOW_WORDS = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """One cited row: it ``exists`` on the chart, the episode has ``read`` it, it ``supports`` its answer."""

    answer: str
    row_id: str
    exists: bool
    read: bool
    supports: bool

    @property
    def passes(self) -> bool:
        """Return whether the citation counts as grounded."""
        return self.exists and self.read and self.supports


class Grounding:
    """Checks citations against a session's chart; keeps the position of every row of the tables it met."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._positions: dict[str, dict[str, int]] = {}

    def check(
        self,
        answers: Sequence[str],
        evidence: Mapping[str, Iterable[str]],
        *,
        read: Collection[str],
        seen: Collection[str] = (),
    ) -> tuple[Citation, ...]:
        """Return one citation per cited row, for evidence given to an answer that was really given. ``read``: the
        rows that the episode has been shown; ``seen``: those whose image it has looked at."""
        spelled = {normalise_label(answer): answer for answer in answers}
        citations = []
        for cited, row_ids in evidence.items():
            answer = spelled.get(normalise_label(cited))
            for row_id in row_ids:
                place = self._find(row_id)
                supports = (
                    answer is not None and place is not None and (row_id in seen or supports_answer(*place, answer))
                )
                citations.append(
                    Citation(
                        answer=answer if answer is not None else cited,
                        row_id=row_id,
                        exists=place is not None,
                        read=row_id in read,
                        supports=supports,
                    )
                )
        return tuple(citations)

    def _find(self, row_id: str) -> tuple[TableView, int] | None:
        table = row_id.partition(":")[0]
        if table not in self._session.chart.table_names:
            return None
        view = self._session.view(table)
        if table not in self._positions:
            self._positions[table] = {name: row for row, name in enumerate(view.row_ids)}
        row = self._positions[table].get(row_id)
        return None if row is None else (view, row)


def supports_answer(view: TableView, row: int, answer: str) -> bool:
    """Return whether a row mentions or codes for an answer."""
    wanted = normalise_label(answer)
    texts = [
        column.texts[code] for column in view.shown if column.kind == "text" and (code := int(column.codes[row])) >= 0
    ]
    if any(normalise_label(text) == wanted for text in texts if len(text) <= 4 * len(answer) + 40):
        return True
    return _coded(view, row, wanted) or any(mentions(text, answer) for text in texts)


def _coded(view: TableView, row: int, wanted: str) -> bool:
    """Return whether the row's ICD code falls into the CCS category that the answer names."""
    version: str | None = "9"
    if "icd9_code" in view.columns:
        code = _cell(view, row, "icd9_code")
    elif {"icd_code", "icd_version"} <= set(view.columns):
        code, version = (_cell(view, row, name) for name in ("icd_code", "icd_version"))
    else:
        return False
    if code is None or version not in ("9", "10"):
        return False
    grouper = load_ccs("procedures" if "procedure" in view.name else "diagnoses")
    category = grouper.category(code, int(version))
    return category is not None and wanted in {normalise_label(name) for name in (category.label, *category.aliases)}


def _cell(view: TableView, row: int, name: str) -> str | None:
    column = view.column(name)
    code = int(column.codes[row])
    return None if code < 0 else column.texts[code]


def mentions(text: str, answer: str) -> bool:
    """Return whether most specific words of ``answer`` are within a few words of each other in ``text``.

    >>> mentions("Pt with known COPD, on 2 L", "Chronic obstructive pulmonary disease")
    True
    >>> mentions("acute respiratory failure", "Acute renal failure")
    False
    """
    wanted = set(_stems(answer))
    wanted = (wanted - _GENERIC) or wanted
    if not wanted:
        return False
    needed = len(wanted) if len(wanted) < 2 else max(1, -(-len(wanted) * _SHARE // 1))
    meanings = _meanings()
    places: list[tuple[int, str]] = []
    for place, word in enumerate(_words(text)):
        found = {_stem(word), *meanings.get(word, ())} & wanted
        places.extend((place, stem) for stem in sorted(found))
    return any(
        len({stem for place, stem in places[index : index + 40] if place - start < _WINDOW_WORDS}) >= needed
        for index, (start, _) in enumerate(places)
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(normalise_label(text))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith("ss") else word


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in _words(text)]


@cache
def _meanings() -> dict[str, frozenset[str]]:
    """Return the one-word abbreviations with the stems of their long forms."""
    return {
        key: frozenset(stem for meaning in meanings for stem in _stems(meaning))
        for key, meanings in load_abbreviations().items()
        if _WORD.fullmatch(key)
    }
