"""Adaptive iterative retrieval (EHR-RAG, eq. 4-5): the model says what is missing, until it is enough.

A round is one retrieval. After each but the last, the model is shown what was found and answers ENOUGH or one refined
query of at most 15 words that was not asked before. A longer one is cut to its first 15 words. A repeated one ends the
path (it could find nothing new), and so do a search that found nothing new and a failed call: what was found so far
stands. Each is noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wardround.agents.evidence.chart_search import ChartSearch, Way
from wardround.agents.evidence.evidence import Evidence
from wardround.agents.loop.side_reader import prompt_text

MOST_WORDS = 15
ENOUGH = "ENOUGH"
NO_QUERY = "failed: it held no query"
_LABEL = re.compile(
    r"^(?:[^\w\n]|\d)*(?:(?:the\s+)?(?:refined\s+|new\s+|next\s+)?(?:search\s+)?query)[\s*_`]*[:\-–]\s*", re.IGNORECASE
)
_TALK = re.compile(
    r"^\W*(?:here(?:'s|\s+is)|sure|okay|ok|certainly|of course|i|i'd|i'll|i'm|we|let(?:'s|\s+me)|this|that|these|those"
    r"|it|because|since|so|as|based|given|looking|not|no|yes|although|however|but|therefore|the\s+(?:excerpts?|evidence"
    r"|records?|next|new|refined|missing|most)|what(?:'s|\s+is)\s+(?:missing|needed|not))\b",
    re.IGNORECASE,
)
"""How a line begins that talks about a query instead of being one."""
_BULLET = re.compile(r"^\s*(?:[-•>]|\d+[.)])\s+")
_QUOTED = re.compile(r"[\"“”]([^\"“”]{3,})[\"“”]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """What a reply asks for: a ``query``, or why there is none (``stop``). ``words`` as it was written."""

    query: str = ""
    stop: str | None = None
    words: int = 0

    @property
    def flaw(self) -> str:
        """Why it is no search; empty where it is one, or says that no more is needed."""
        return "it held no query" if self.stop == NO_QUERY else ""


async def iterate(search: ChartSearch, query: str, *, way: Way, rounds: int, path: str, beside: Evidence) -> Evidence:
    """Retrieve for a query and for what the model misses then. ``beside`` is evidence it is shown too; ``path`` names
    what is being looked for, in prompts and notes."""
    found = await search.retrieve(way, query, path=path, round=1)
    for number in range(2, rounds + 1):
        refined = await _refine(search, found, path=path, beside=beside)
        search.note("query", path=path, round=number, **_facts(refined))
        if refined.stop is not None:
            break
        known, more = found, await search.retrieve(way, refined.query, path=path, round=number)
        found = known.joined(more)
        if found.events == known.events:
            search.note("query", path=path, round=number, stop="nothing new")
            break
    return found


async def _refine(search: ChartSearch, found: Evidence, *, path: str, beside: Evidence) -> Refined:
    instruction = prompt_text("refine", path=path, queries=found.queries, most=MOST_WORDS, enough=ENOUGH)
    written = await search.ask(
        instruction,
        purpose="refine",
        evidence=found.joined(beside),
        flaw=lambda text: read_query(text, found.queries).flaw,
        path=path,
    )
    if written.problem is not None:
        return Refined(stop=f"failed: {written.problem}")
    return read_query(written.text, found.queries)


def read_query(text: str, asked: Sequence[str]) -> Refined:
    """Read a refined query, or ENOUGH, out of a reply. ENOUGH is a line of its own: in a sentence it may be denied."""
    lines = [line for line in text.splitlines() if line.strip(" \t*`'\"#-")]
    if any(_is_enough(line) for line in lines):
        return Refined(stop="enough")
    words = _BULLET.sub("", _query_of(lines)).strip(" \t*_`'\"“”.").split()
    if not words:
        return Refined(stop=NO_QUERY)
    query = " ".join(words[:MOST_WORDS])
    known = {_plain(one) for one in asked}
    if _plain(query) in known or _plain(" ".join(words)) in known:
        return Refined(query=query, stop="repeated", words=len(words))
    return Refined(query=query, words=len(words))


def _is_enough(line: str) -> bool:
    return _plain(_LABEL.sub("", line)) == ENOUGH.casefold()


def _query_of(lines: Sequence[str]) -> str:
    """Return what a reply asks for: what is called a query, else the last line that is no talk, as reasons come first.

    A line that talks holds a query only after its colon or between its quotation marks. A reply of a single plain
    sentence is taken at its word.
    """
    for place, line in enumerate(lines):
        if _LABEL.match(line):
            return _LABEL.sub("", line).strip(" *_`") or "".join(lines[place + 1 : place + 2])
    plain = [line for line in lines if not _talks(line)]
    terse = [line for line in plain if line.rstrip(" *_`\"'”")[-1:] not in ".!?"]
    if terse or plain:
        return (terse or plain)[-1]
    inside = [found for found in map(_inside, lines) if found]
    if inside:
        return inside[-1]
    alone = len(lines) == 1 and not lines[0].rstrip(" *").endswith(":") and ENOUGH not in lines[0]
    return lines[0] if alone else ""


def _talks(line: str) -> bool:
    return bool(_TALK.match(line)) or line.rstrip(" *_`").endswith(":") or ENOUGH in line


def _inside(line: str) -> str:
    """Return the query that a line of talk holds, if it holds one."""
    quoted = _QUOTED.findall(line)
    behind = line.rpartition(":")[2].strip(" *_`")
    return (quoted[-1] if quoted else behind if ":" in line else "") if ENOUGH not in line else ""


def _plain(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.casefold()))


def _facts(refined: Refined) -> dict[str, object]:
    facts: dict[str, object] = {"query": refined.query} if refined.query else {}
    if refined.words > MOST_WORDS:
        facts["cut_from_words"] = refined.words
    if refined.stop is not None:
        facts["stop"] = refined.stop
    return facts
