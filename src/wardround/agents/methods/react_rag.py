"""ReAct RAG: the model reasons about what it needs, writes the query, reads what came, and so on; then it answers.

Its thoughts stay before it, in order. A reply without a query stands for the task's own query in the first step and
ends the search in a later one.
"""

from __future__ import annotations

import re

from wardround.agents.evidence.chart_search import NEAREST_FEW, ChartSearch
from wardround.agents.evidence.evidence import Evidence
from wardround.agents.loop.agent import Hooks
from wardround.agents.loop.episode import Episode
from wardround.agents.loop.reductions import cut_notice, cut_text
from wardround.agents.loop.side_reader import prompt_text
from wardround.agents.methods.air import ENOUGH, MOST_WORDS, NO_QUERY, Refined, read_query

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
        text = prompt_text("searched", thoughts=thoughts) if thoughts else ""
        search.pin(found, then=cut_text(text, episode.counter, 2 * search.argument_tokens(), notice=cut_notice))

    async def _next(
        self, search: ChartSearch, found: Evidence, thoughts: list[str], number: int
    ) -> tuple[Refined, str]:
        instruction = prompt_text(
            "search",
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
    asked = _QUERY.search(text)
    before = text[: asked.start()] if asked else text
    behind = [line for line in text.splitlines() if _THOUGHT.match(line)]
    lines = before.splitlines() if before.strip() else behind[:1]
    enough = [line for line in text.splitlines() if line.strip(" *`.\"'").upper() == ENOUGH]
    wants = [asked[1]] if asked else enough
    thought = " ".join(line.strip() for line in lines if line.strip())
    thought = _THOUGHT.sub("", thought.replace(ENOUGH, "")).strip()
    refined = read_query(wants[0], found.queries) if wants else Refined(stop=NO_QUERY)
    return refined, thought
