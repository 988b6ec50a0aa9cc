"""Tools that search a task's possible answers: one that tries all ways, and the papers' three, each of one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any

from wardround.core import ToolFailure
from wardround.tools.candidates import CandidateSpace, LabelMatch
from wardround.tools.definition import tool
from wardround.tools.render import table_page
from wardround.tools.session import Page, Session, ToolResult
from wardround.tools.table_view import as_cell

_KEYWORD_LIMIT = 1_000
_LADDER_LIMIT = 5
_CONTAINING_LIMIT = 5
_CLEAR = 0.9
_NEAR, _NEAR_A_CLEAR_HIT = 0.25, 0.8
"""The shares of the best similarity below which a candidate is left out."""
_OTHER_NAMES = ("keyword", "keywords", "text", "texts", "queries", "name", "names")
"""What the papers' tools, and models that remember them, call the words to look for."""
_READ_AS = re.compile(r"^(the name|spelling|code descriptions) of .*")
"""A reason with the words that a query was read as: they are long, and say what the candidate says."""
Query = Annotated[list[str], "The texts to look up."]
"""As both papers' tools take them."""
CandidateTable = Annotated[str, "Name of a candidate table."]
candidate_tool = partial(tool, "candidate", other_names=dict.fromkeys(_OTHER_NAMES, "query"), needs="candidates")


@candidate_tool()
def get_candidates(session: Session, page: Page, *, table_name: str, query: list[str]) -> ToolResult:
    """Search a candidate table for the official names of texts, best first: by meaning (synonyms, abbreviations; CBC
    gives its tests), spelling, and what contains the text."""
    space, in_use = session.space(table_name), session.aids.candidate_order

    def both(text: str) -> list[LabelMatch]:
        near = worth_a_look(space.by_meaning(text, _LADDER_LIMIT, in_use=in_use))
        known = {match.label for match in near}
        containing = [match for match in space.by_keyword(text, _KEYWORD_LIMIT) if match.label not in known]
        if len(containing) > _CONTAINING_LIMIT:
            left_out.append(f"{len(containing) - _CONTAINING_LIMIT:,} more contain {text!r}")
        return [*near, *containing[:_CONTAINING_LIMIT]]

    left_out: list[str] = []
    found = _search(session, space, both, query, clear_hits=False)
    return _show(page.of(table_name=space.name), space, found, notes=left_out)


@candidate_tool()
def get_candidates_by_keyword(session: Session, page: Page, *, table_name: CandidateTable, query: Query) -> ToolResult:
    """Possible answers that contain a text (literal, case ignored)."""
    space = session.space(table_name)
    found = _search(session, space, lambda word: space.by_keyword(word, _KEYWORD_LIMIT), query, clear_hits=False)
    return _show(page.of(table_name=space.name), space, found, names_only=page.short)


@candidate_tool()
def get_candidates_by_fuzzy_matching(
    session: Session, page: Page, *, table_name: CandidateTable, query: Query
) -> ToolResult:
    """The possible answers spelled most like a text, five for each; only the hit where it is clear."""
    space, in_use = session.space(table_name), session.aids.candidate_order
    found = _search(session, space, lambda word: space.by_fuzzy(word, _LADDER_LIMIT, in_use=in_use), query)
    return _show(page.of(table_name=space.name), space, found)


@candidate_tool()
def get_candidates_by_semantic_similarity(
    session: Session, page: Page, *, table_name: CandidateTable, query: Query
) -> ToolResult:
    """The possible answers nearest in meaning to a text (synonyms, abbreviations, lay words; an order such as CBC
    gives its tests), five for each; only the hit where it is clear."""
    space, in_use = session.space(table_name), session.aids.candidate_order
    found = _search(session, space, lambda text: space.by_meaning(text, _LADDER_LIMIT, in_use=in_use), query)
    return _show(page.of(table_name=space.name), space, found)


def _search(
    session: Session,
    space: CandidateSpace,
    search: Callable[[str], list[LabelMatch]],
    texts: Sequence[str] | str,
    *,
    clear_hits: bool = True,
) -> list[tuple[str, list[LabelMatch]]]:
    if isinstance(texts, str):
        texts = [texts]
    wanted = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    if not wanted:
        raise ToolFailure("'query' is empty; give the words to look for.")
    if not session.aids.candidate_order:
        return [(text, search(text)) for text in wanted]
    answers = ((text, space.panel(text) or search(text)) for text in wanted)
    return [(text, worth_a_look(matches) if clear_hits else matches) for text, matches in answers]


def worth_a_look(matches: list[LabelMatch]) -> list[LabelMatch]:
    """Return the candidates with a score close to the best; the others are dropped.

    Beside a clear hit little is near; but "with" and "without complication" are, and both are shown.
    """
    best = matches[0].similarity if matches else 0.0
    least = (_NEAR_A_CLEAR_HIT if best >= _CLEAR else _NEAR) * best
    return [match for match in matches if match.similarity >= least]


def _show(
    page: Page,
    space: CandidateSpace,
    found: list[tuple[str, list[LabelMatch]]],
    *,
    names_only: bool = False,
    notes: Sequence[str] = (),
) -> ToolResult:
    """``names_only``: how like a candidate is, and why it was found, is not said. ``notes``: what else is said."""
    several = len(found) > 1
    header: tuple[str, ...] = ("candidate",) if names_only else ("candidate", "similarity", "matched")
    header = ("query", *header) if several else header
    pairs = [(text, match) for text, matches in found for match in matches]
    nothing = [text for text, matches in found if not matches]
    missed = ["no match for " + ", ".join(map(repr, nothing))] if nothing else []
    note = "; ".join((*missed, *notes))
    if not pairs:
        return ToolResult(text=f"{space.name}: 0 rows, {note}; try fewer or other words.", rows_total=0, rows_shown=0)
    rows = _Rows(pairs, several=several, short=page.short)
    text, shown, cursor = table_page(page, space.name, header, rows, note=note)
    return ToolResult(text=text, rows_total=len(rows), rows_shown=shown, cursor=cursor)


class _Rows(Sequence[tuple[str, ...]]):
    """Matches as cells, made only for the rows that are shown."""

    def __init__(self, pairs: list[tuple[str, LabelMatch]], *, several: bool, short: bool) -> None:
        self._pairs, self._several, self._short = pairs, several, short

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: Any) -> Any:
        text, match = self._pairs[index]
        if self._short and match.why.startswith("contains it: "):
            cells: tuple[str, ...] = (as_cell(match.label),)
        else:
            why = _READ_AS.sub(r"\1", match.why) if self._short else match.why
            cells = (as_cell(match.label), f"{match.similarity:.2f}", as_cell(why))
        return (as_cell(text), *cells) if self._several else cells
