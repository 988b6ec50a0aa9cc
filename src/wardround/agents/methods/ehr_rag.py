"""The methods of the EHR-RAG paper (tables 1, 2 and 4) as recipes of one hook, and evidence in front of any agent.

``<agent>+rag`` and ``<agent>+ether`` are an agent with evidence pinned before its first turn: one retrieval for the
question's factual query, vanilla or ETHER. ``<agent>+tool`` may search for evidence itself, whenever it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from wardround.agents.evidence.chart_search import FREQUENT, NEAREST, NEAREST_FEW, RECENT, TEXT_EVIDENCE, UNIFORM
from wardround.agents.loop.agent import EVIDENCE_TOOL, AgentSpec, Hooks, LoopSettings, Needs
from wardround.agents.method import Addition, Method
from wardround.agents.methods.gathering import BESIDE_TOOLS, Gathering, Recipe
from wardround.agents.methods.react_rag import ReasonedSearch
from wardround.agents.settings import NoSettings

_SHOWN = ("evidence",)
_RERANKED = ("searcher_system", "ask_again", "rerank")
_REFINED = ("searcher_system", "ask_again", "refine", "no_evidence")
_ARGUED = ("searcher_system", "ask_again", "argue", "weigh", "no_evidence")
_SEARCHED = ("searcher_system", "ask_again", "search", "searched")

ETHER = Recipe(way=TEXT_EVIDENCE, numeric=True)
"""Event- and time-aware hybrid retrieval alone: one round, one side."""
RECIPES: Mapping[str, Recipe] = {
    "direct": Recipe(way=RECENT),
    "rag": Recipe(way=NEAREST),
    "uniform-rag": Recipe(way=UNIFORM),
    "rule-rag": Recipe(way=FREQUENT),
    "ehr-rag": Recipe(way=TEXT_EVIDENCE, numeric=True, rounds=None, two_sides=True),
    "ehr-rag-no-ether": Recipe(way=NEAREST_FEW, rounds=None, two_sides=True),
    "ehr-rag-no-air": Recipe(way=TEXT_EVIDENCE, numeric=True, two_sides=True),
    "ehr-rag-no-der": Recipe(way=TEXT_EVIDENCE, numeric=True, rounds=None),
}


def answering(
    hook: Callable[[], Hooks], prompts: tuple[str, ...], *, needs: Needs = "question", charted: bool = True
) -> AgentSpec:
    """Return an agent that answers in one turn, without tools, from what a hook pinned."""
    return AgentSpec(
        name="",
        title="",
        system="evidence_system",
        hooks=(hook,),
        tools="none",
        loop=LoopSettings(reminders=0),
        needs=needs,
        charted=charted,
        prompts=prompts,
    )


def retrieving(name: str) -> Callable[[NoSettings], AgentSpec]:
    """Return the maker of one of the recipes. The last events are no search: of a case told in words there are none,
    and the question stands for itself."""
    recipe = RECIPES[name]
    needs: Needs = "labels" if recipe.two_sides else "question"
    charted = recipe.way is not RECENT
    return lambda settings: answering(lambda: Gathering(recipe), prompts_of(recipe), needs=needs, charted=charted)


def reasoning(settings: NoSettings) -> AgentSpec:
    """Return ReAct RAG."""
    return answering(ReasonedSearch, (*_SHOWN, *_SEARCHED))


def prompts_of(recipe: Recipe) -> tuple[str, ...]:
    """Return the templates a recipe may use, so that a manifest can hash them."""
    used = list(_SHOWN)
    if recipe.numeric:
        used += _RERANKED
    if recipe.rounds != 1:
        used += _REFINED
    if recipe.two_sides:
        used += _ARGUED
    return tuple(dict.fromkeys(used))


def in_front(recipe: Recipe) -> Callable[[AgentSpec], AgentSpec]:
    """Return what puts a recipe's evidence before an agent's first turn."""

    def give(agent: AgentSpec) -> AgentSpec:
        return replace(
            agent,
            hooks=(*agent.hooks, lambda: Gathering(recipe, share=BESIDE_TOOLS)),
            prompts=(*agent.prompts, *prompts_of(recipe)),
            needs="question" if agent.needs == "nothing" else agent.needs,
            charted=True,
        )

    return give


def with_evidence_tool(agent: AgentSpec) -> AgentSpec:
    """Return the agent with ``retrieve_evidence`` among its tools."""
    return replace(agent, more_tools=(*agent.more_tools, EVIDENCE_TOOL), charted=True)


EVIDENCE_ADDITIONS: Mapping[str, Addition] = {
    "rag": Addition(title="with the nearest chunks in front", give=in_front(RECIPES["rag"])),
    "ether": Addition(title="with evidence of ETHER in front", give=in_front(ETHER)),
    "tool": Addition(title="with retrieve_evidence as a tool", give=with_evidence_tool),
}


def _row(
    name: str, title: str, tables: tuple[int, ...], make: Callable[[NoSettings], AgentSpec] | None = None
) -> Method:
    """A method of the paper; where nothing else makes it, the recipe of its name does."""
    made = make or retrieving(name)
    return Method(name=name, title=title, make=made, tables=tables, paper="ehr-rag", evidence=True)


EVIDENCE_METHODS = (
    _row("direct", "Direct generation: answer from the last 1,000 events", (1, 2)),
    _row("rag", "RAG: answer from the 10 chunks nearest to the task's query", (1, 2, 4)),
    _row("uniform-rag", "Uniform RAG: answer from as many chunks drawn at random", (1, 2)),
    _row(
        "rule-rag",
        "Rule-based RAG: answer from the 1,000 events of the most frequent codes",
        (1, 2),
        retrieving("rule-rag"),
    ),
    _row("react-rag", "ReAct RAG: reason, search, read, three times; then answer", (1, 2), reasoning),
    _row(
        "ehr-rag",
        "EHR-RAG: hybrid retrieval, refined queries, the case for and the case against",
        (1, 2, 4),
        retrieving("ehr-rag"),
    ),
    _row(
        "ehr-rag-no-ether", "Ablation: EHR-RAG with vanilla retrieval of chunks", (4,), retrieving("ehr-rag-no-ether")
    ),
    _row("ehr-rag-no-air", "Ablation: EHR-RAG with one round of retrieval", (4,)),
    _row("ehr-rag-no-der", "Ablation: EHR-RAG with one path and one decision", (4,)),
)
