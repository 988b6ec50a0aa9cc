"""Adaptive iterative retrieval (EHR-RAG, eq. 4-5): the model says what is missing, until it is enough.

A round is one retrieval. After each but the last, the model is shown what was found and answers ENOUGH or one refined
query of at most 15 words that was not asked before. A longer one is cut to its first 15 words, a repeated one ends the
path (it could find nothing new), and so does a failed call: what was found so far stands. Each is noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wardround.agents.beside import prompt_text
from wardround.agents.desk import Desk, Way
from wardround.agents.evidence import Evidence

MOST_WORDS = 15
ENOUGH = "ENOUGH"
_LABEL = re.compile(
    r"^(?:[^\w\n]|\d)*(?:(?:the\s+)?(?:refined\s+|new\s+|next\s+)?(?:search\s+)?query)[\s*_`]*[:\-–]\s*", re.IGNORECASE
)
_ENOUGH = re.compile(r"^\W*enough\b|(?-i:(?<!not )(?<!NOT )\bENOUGH\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """What a reply asks for: a ``query``, or why there is none (``stop``). ``words`` as it was written."""

    query: str = ""
    stop: str | None = None
    words: int = 0


async def iterate(desk: Desk, query: str, *, way: Way, rounds: int, path: str, beside: Evidence) -> Evidence:
    """Retrieve for a query and for what the model misses then. ``beside`` is evidence it is shown too; ``path`` names
    what is being looked for, in prompts and notes."""
    found = await desk.search(way, query, path=path, round=1)
    for number in range(2, rounds + 1):
        refined = await _refine(desk, found, path=path, beside=beside)
        desk.note("query", path=path, round=number, **_facts(refined))
        if refined.stop is not None:
            break
        more = await desk.search(way, refined.query, path=path, round=number)
        found = found.joined(more)
    return found


async def _refine(desk: Desk, found: Evidence, *, path: str, beside: Evidence) -> Refined:
    instruction = prompt_text("refine", path=path, queries=found.queries, most=MOST_WORDS, enough=ENOUGH)
    written = await desk.ask(instruction, purpose="refine", evidence=found.joined(beside), path=path)
    if written.problem is not None:
        return Refined(stop=f"failed: {written.problem}")
    return read_query(written.text, found.queries)


def read_query(text: str, asked: Sequence[str]) -> Refined:
    """Read a refined query, or ENOUGH, out of a reply."""
    lines = [line for line in text.splitlines() if line.strip(" \t*`'\"#-")]
    if any(_ENOUGH.search(line) for line in lines):
        return Refined(stop="enough")
    words = _LABEL.sub("", _query_line(lines)).strip(" \t*_`'\"“”.").split()
    if not words:
        return Refined(stop="failed: it held no query")
    query = " ".join(words[:MOST_WORDS])
    known = {_plain(one) for one in asked}
    if _plain(query) in known or _plain(" ".join(words)) in known:
        return Refined(query=query, stop="repeated", words=len(words))
    return Refined(query=query, words=len(words))


def _query_line(lines: Sequence[str]) -> str:
    """Return the line that is called a query, else the first that does not only announce one."""
    labelled = [line for line in lines if _LABEL.sub("", line).strip() not in ("", line.strip())]
    return next(iter((*labelled, *(line for line in lines if not line.rstrip(" *").endswith(":")), *lines)), "")


def _plain(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.casefold()))


def _facts(refined: Refined) -> dict[str, object]:
    facts: dict[str, object] = {"query": refined.query} if refined.query else {}
    if refined.words > MOST_WORDS:
        facts["cut_from_words"] = refined.words
    if refined.stop is not None:
        facts["stop"] = refined.stop
    return facts
