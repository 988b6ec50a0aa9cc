"""Adaptive iterative retrieval (EHR-RAG, eq. 4-5), and ReAct RAG."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wardround.agents.evidence import NEAREST_FEW, ChartSearch, Evidence, RetrievalMethod
from wardround.agents.loop.context import cut_notice, cut_text
from wardround.agents.loop.episode import Episode, prompt_text
from wardround.agents.loop.loop import Hooks

# A round is one retrieval. After each but the last, the model is shown what was found and answers ENOUGH or one refined
# query of at most 15 words that was not asked before. A longer one is cut to its first 15 words. A repeated one ends
# the path (it could find nothing new), and so do a search that found nothing new and a failed call: what was found so
# far stands. Each is noted.


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
    """The request of a reply: a ``query``, or the reason to ``stop``. ``words``: the query as written."""

    query: str = ""
    stop: str | None = None
    words: int = 0

    @property
    def flaw(self) -> str:
        """Why it is no search; empty if it is one, or says that no more is needed."""
        return "it held no query" if self.stop == NO_QUERY else ""


async def iterate(
    search: ChartSearch, query: str, *, way: RetrievalMethod, rounds: int, path: str, beside: Evidence
) -> Evidence:
    """Retrieve for a query, and for what the model then finds missing.

    ``beside`` is further evidence shown to the model. ``path`` names the subject of the search in prompts and notes.
    """
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
    instruction = prompt_text("ehr_rag.refine", path=path, queries=found.queries, most=MOST_WORDS, enough=ENOUGH)
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


def read_query(text: str, earlier_queries: Sequence[str]) -> Refined:
    """Read a refined query, or ENOUGH, out of a reply. ENOUGH is a line of its own: in a sentence it may be denied."""
    lines = [line for line in text.splitlines() if line.strip(" \t*`'\"#-")]
    if any(_is_enough(line) for line in lines):
        return Refined(stop="enough")
    words = _BULLET.sub("", _query_of(lines)).strip(" \t*_`'\"“”.").split()
    if not words:
        return Refined(stop=NO_QUERY)
    query = " ".join(words[:MOST_WORDS])
    known = {_plain(earlier_query) for earlier_query in earlier_queries}
    if _plain(query) in known or _plain(" ".join(words)) in known:
        return Refined(query=query, stop="repeated", words=len(words))
    return Refined(query=query, words=len(words))


def _is_enough(line: str) -> bool:
    return _plain(_LABEL.sub("", line)) == ENOUGH.casefold()


def _query_of(lines: Sequence[str]) -> str:
    """Return the query of a reply: the one labelled as a query, else the last line that is not talk.

    A line of talk contains a query only after its colon or between its quotation marks. A reply of a single plain
    sentence is the query itself.
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


# ReAct RAG: the model reasons about what it needs, writes the query, reads what came, and so on; then it answers.
#
# Its thoughts stay before it, in order. A reply without a query stands for the task's own query in the first step and
# ends the search in a later one.


_QUERY = re.compile(
    r"^(?:[^\w\n]|\d)*(?:(?:search\s+)?query|action|search)[\s*_`]*[:\-–]\s*(.+)$", re.IGNORECASE | re.MULTILINE
)
_THOUGHT = re.compile(r"^(?:[^\w\n]|\d)*thoughts?[\s*_`]*[:\-–][\s*]*", re.IGNORECASE)


class ReasonedSearch(Hooks):
    """Reasons and retrieves, as many times as the settings have rounds, before the first turn."""

    async def before_episode(self, episode: Episode) -> None:
        """Search, then pin the evidence and the thoughts that led to it."""
        search = await ChartSearch.open(episode)
        found = Evidence()
        thoughts: list[str] = []
        for number in range(1, search.settings.rounds + 1):
            refined, thought = await self._next(search, found, thoughts, number)
            thoughts += [thought] if thought else []
            search.note("query", round=number, query=refined.query, **({"stop": refined.stop} if refined.stop else {}))
            if refined.stop is not None:
                break
            found = found.joined(await search.retrieve(NEAREST_FEW, refined.query, round=number))
        text = prompt_text("ehr_rag.searched", thoughts=thoughts) if thoughts else ""
        search.pin(found, then=cut_text(text, episode.counter, 2 * search.argument_tokens(), notice=cut_notice))

    async def _next(
        self, search: ChartSearch, found: Evidence, thoughts: list[str], number: int
    ) -> tuple[Refined, str]:
        instruction = prompt_text(
            "ehr_rag.search",
            step=number,
            steps=search.settings.rounds,
            thoughts=thoughts,
            queries=found.queries,
            most=MOST_WORDS,
            enough=ENOUGH,
        )
        shown = found if found.passages else None
        written = await search.ask(
            instruction, purpose="search", evidence=shown, flaw=lambda text: read_step(text, found)[0].flaw
        )
        if written.problem is not None:
            refined, thought = Refined(stop=f"failed: {written.problem}"), ""
        else:
            refined, thought = read_step(written.text, found)
        if refined.stop is not None and not found.passages:
            search.note("query", round=number, fallback=refined.stop)
            refined = Refined(query=search.question.factual_query)
        return refined, thought


def read_step(text: str, found: Evidence) -> tuple[Refined, str]:
    """Read one step: its query (or ENOUGH), and the thought before it.

    The first query counts: what follows it, where anything does, was made up in place of what the search finds.
    """
    match = _QUERY.search(text)
    before = text[: match.start()] if match else text
    behind = [line for line in text.splitlines() if _THOUGHT.match(line)]
    lines = before.splitlines() if before.strip() else behind[:1]
    enough = [line for line in text.splitlines() if line.strip(" *`.\"'").upper() == ENOUGH]
    wants = [match[1]] if match else enough
    thought = " ".join(line.strip() for line in lines if line.strip())
    thought = _THOUGHT.sub("", thought.replace(ENOUGH, "")).strip()
    refined = read_query(wants[0], found.queries) if wants else Refined(stop=NO_QUERY)
    return refined, thought
