"""EHR-RAG: ETHER, DER and the retrieval baselines as recipes of one hook (tables 1, 2 and 4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wardround.agents.catalogue import Addition, Method, NoSettings
from wardround.agents.evidence import (
    FREQUENT,
    NEAREST,
    NEAREST_FEW,
    RECENT,
    TEXT_EVIDENCE,
    UNIFORM,
    ChartSearch,
    Evidence,
    RetrievalMethod,
)
from wardround.agents.iterative_retrieval import ReasonedSearch, iterate
from wardround.agents.loop.context import cut_notice, cut_text
from wardround.agents.loop.episode import Ending, Episode, prompt_text
from wardround.agents.loop.loop import EVIDENCE_TOOL, AgentSpec, Hooks, LoopSettings, Needs
from wardround.agents.loop.side_reader import too_short
from wardround.core import Message, ProviderError, load_prompt
from wardround.models import LabelScores, Request, score_labels
from wardround.tasks.answers import Question, parse_answer

# Dual-path evidence and reasoning (EHR-RAG, eq. 6-8): the case for an outcome and the case against it, then both.
#
# Each side retrieves with its own query and argues from its own evidence and the numbers both share; the actor then
# decides on the evidence of both with both arguments before it. The negative label is the question's first one; where
# there are more than two, the positive side argues for any of the others and says for which.


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two arguments. ``label`` is its label in words; ``choice``: it is for one of several labels."""

    purpose: str
    query: str
    label: str
    path: str
    choice: bool = False


def sides(question: Question) -> tuple[Side, Side]:
    """Return the case for the outcome and the case against it."""
    negative, *positive = (
        f"{value} ({name})" for value, name in zip(question.label_values, question.label_names, strict=True)
    )
    return (
        Side(
            purpose="argue_for",
            query=question.factual_query,
            label=positive[0] if len(positive) == 1 else "one of " + ", ".join(positive),
            path="for the outcome",
            choice=len(positive) > 1,
        ),
        Side(
            purpose="argue_against",
            query=question.counterfactual_query,
            label=negative,
            path="against the outcome",
        ),
    )


async def argue(search: ChartSearch, side: Side, evidence: Evidence) -> str:
    """Return one side's argument from its evidence; empty if the call fails, which is noted."""
    instruction = prompt_text(
        "ehr_rag.argue", label=side.label, supports=side.purpose == "argue_for", choice=side.choice
    )
    written = await search.ask(instruction, purpose=side.purpose, evidence=evidence, flaw=_no_case)
    shown = cut_text(written.text, search.episode.counter, search.argument_tokens(), notice=cut_notice)
    failed = {} if written.problem is None else {"failed": written.problem}
    search.note("argument", side=side.purpose, cut=written.cut or shown != written.text, **failed)
    return shown


def _no_case(text: str) -> str:
    """Return the problem of a description: a case is longer than a few words, and a weak one is stated in few."""
    return "" if "weak" in text.casefold() else too_short(text)


def decision_text(question: Question, case_for: str, case_against: str) -> str:
    """Return what puts both cases before the actor and says how to weigh them."""
    first, second = sides(question)
    return prompt_text(
        "ehr_rag.weigh",
        case_for=case_for,
        case_against=case_against,
        positive=first.label,
        negative=second.label,
        default=question.label_values[0],
        instructions=question.instructions,
    )


# The numeric side of ETHER: coarse by likeness of names, fine by the model's choice, then the latest values.
#
# The model answers with a JSON list of exact names. A name it invents is dropped and counted; where no name can be read
# at all, the coarse ones stand in, the nearest first, and that is counted too.


_NO_NAME = "no name of the list was given"


async def numeric_evidence(search: ChartSearch) -> Evidence:
    """Return the trajectories of the indicators that matter for the question's factual query."""
    query, settings = search.question.factual_query, search.settings
    coarse = await asyncio.to_thread(lambda: tuple(search.index.coarse_indicators(query)))
    chosen, facts = await _chosen(search, coarse)
    recent = settings.recent_values
    trajectories = await asyncio.to_thread(lambda: tuple(search.index.trajectories(chosen, recent=recent)))
    search.note("indicators", query=query, coarse=len(coarse), chosen=list(chosen), **facts)
    return Evidence(trajectories=trajectories)


async def _chosen(search: ChartSearch, coarse: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
    most = search.settings.fine
    if len(coarse) <= most:
        return tuple(coarse), {"by": "all there are"}
    instruction = prompt_text("ehr_rag.rerank", names=coarse, most=most)
    written = await search.ask(
        instruction, purpose="rerank", flaw=lambda text: "" if any(_meant(text, coarse)) else _NO_NAME
    )
    if written.problem is not None:
        return tuple(coarse[:most]), {"by": "likeness", "failed": written.problem}
    meant = _meant(written.text, coarse)
    known = tuple(dict.fromkeys(name for name in meant if name is not None))
    return known[:most], {"by": "the model", "invented": meant.count(None), "too_many": max(0, len(known) - most)}


def _meant(text: str, coarse: Sequence[str]) -> list[str | None]:
    """Return which of the names each one given means: as it is spelt, else whatever its case; None for no name."""
    named = parse_answer(text) or ()
    exact = {_spelt(name): name for name in reversed(coarse)}
    folded = {_spelt(name).casefold(): name for name in reversed(coarse)}
    return [exact.get(_spelt(name)) or folded.get(_spelt(name).casefold()) for name in named]


def _spelt(name: str) -> str:
    return " ".join(name.split()).strip("*`")


# The hook that puts evidence before an agent's first turn: what is retrieved, in how many rounds, from which sides.
#
# Every retrieval method is this hook under other settings, and any agent can have it in front of its own hooks.


_ONE_PATH = "for the question"
BESIDE_TOOLS = 0.35
"""The share of the free room that evidence takes from an agent that goes on to read with tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What to gather. ``way``: one retrieval of passages. ``numeric``: trajectories of chosen indicators too.
    ``rounds``: None for as many as the settings say. ``two_sides``: for and against, each argued, then weighed."""

    way: RetrievalMethod
    numeric: bool = False
    rounds: int | None = 1
    two_sides: bool = False


class Gathering(Hooks):
    """Gathers evidence once, before the first turn, and pins it."""

    def __init__(self, recipe: Recipe, *, share: float | None = None) -> None:
        self._recipe = recipe
        self._share = share

    async def before_episode(self, episode: Episode) -> None:
        """Retrieve, argue if there are two sides, pin. A text case has nothing to retrieve."""
        if episode.environment.text_case is not None:
            return
        search = await ChartSearch.open(episode, share=self._share)
        numbers = await numeric_evidence(search) if self._recipe.numeric else Evidence()
        if self._recipe.two_sides:
            await self._both_sides(search, numbers)
        else:
            found = await self._path(search, search.question.factual_query, _ONE_PATH, numbers)
            search.pin(found.joined(numbers))

    async def _both_sides(self, search: ChartSearch, numbers: Evidence) -> None:
        arguments, fused = [], Evidence()
        for side in sides(search.question):
            found = await self._path(search, side.query, side.path, numbers)
            arguments.append(await argue(search, side, found.joined(numbers)))
            fused = fused.joined(found)
        search.pin(fused.joined(numbers), then=decision_text(search.question, *arguments))

    async def _path(self, search: ChartSearch, query: str, path: str, numbers: Evidence) -> Evidence:
        rounds = search.settings.rounds if self._recipe.rounds is None else self._recipe.rounds
        return await iterate(search, query, way=self._recipe.way, rounds=rounds, path=path, beside=numbers)


# The methods of the EHR-RAG paper (tables 1, 2 and 4) as recipes of one hook, and evidence in front of any agent.
#
# ``<agent>+rag`` and ``<agent>+ether`` are an agent with evidence pinned before its first turn: one retrieval for the
# question's factual query, vanilla or ETHER. ``<agent>+tool`` may search for evidence itself, whenever it likes.


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


def answering(hook: Callable[[], Hooks], *, needs: Needs = "question", charted: bool = True) -> AgentSpec:
    """Return an agent that answers in one turn, without tools, from what a hook pinned."""
    return AgentSpec(
        name="",
        title="",
        system="ehr_rag.system",
        hooks=(hook,),
        tools="none",
        loop=LoopSettings(reminders=0),
        needs=needs,
        charted=charted,
    )


def retrieving(name: str) -> Callable[[NoSettings], AgentSpec]:
    """Return the maker of one of the recipes. The recipe of the last events needs no search; a text case has no
    events."""
    recipe = RECIPES[name]
    needs: Needs = "labels" if recipe.two_sides else "question"
    charted = recipe.way is not RECENT
    return lambda settings: answering(lambda: Gathering(recipe), needs=needs, charted=charted)


def reasoning(settings: NoSettings) -> AgentSpec:
    """Return ReAct RAG."""
    return answering(ReasonedSearch)


def in_front(recipe: Recipe) -> Callable[[AgentSpec], AgentSpec]:
    """Return what puts a recipe's evidence before an agent's first turn."""

    def give(agent: AgentSpec) -> AgentSpec:
        return replace(
            agent,
            hooks=(*agent.hooks, lambda: Gathering(recipe, share=BESIDE_TOOLS)),
            prompts=(*agent.prompts, "ehr_rag"),
            needs="question" if agent.needs == "nothing" else agent.needs,
            charted=True,
        )

    return give


def with_evidence_tool(agent: AgentSpec) -> AgentSpec:
    """Return the agent with ``retrieve_evidence`` among its tools."""
    return replace(agent, more_tools=(*agent.more_tools, EVIDENCE_TOOL), charted=True)


def _row(
    name: str, title: str, tables: tuple[int, ...], make: Callable[[NoSettings], AgentSpec] | None = None
) -> Method:
    """Return a method of the paper; without another constructor, the recipe with its name makes it."""
    made = make or retrieving(name)
    return Method(name=name, title=title, make=made, tables=tables, paper="ehr-rag", evidence=True)


METHODS = (
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


# How sure a model is: after the answer, the probability of every label given all that was read.
#
# The labels are put to the model as the answer to the last prompt it acted on, without its own reasoning or answer,
# which would make it sure of what it said. Any agent may be given this; the answer itself is not touched.


PROBABILITIES_NOTE = "probabilities"


class LabelProbabilities(Hooks):
    """Scores the labels of a question of which one holds, once, when the episode has its answer."""

    async def at_answer(self, episode: Episode, ending: Ending) -> bool:
        labels = episode.answers.label_values
        if not labels or episode.answers.several:
            return False
        scores = await self._scores(episode, labels)
        found = dict(scores.probabilities) if scores.probabilities is not None else None
        detail = {"turn": episode.turn, "labels": found, "unavailable": scores.unavailable}
        episode.recorder.note(PROBABILITIES_NOTE, {name: value for name, value in detail.items() if value})
        return False

    async def _scores(self, episode: Episode, labels: tuple[str, ...]) -> LabelScores:
        instruction = load_prompt("wardround.agents", "ehr_rag.label_only").render(names=episode.answers.class_names)
        request = Request(
            messages=(*episode.last_prompt, Message(role="user", content=instruction)),
            settings=replace(episode.settings, max_output_tokens=_ROOM),
            episode=episode.id,
            ordinal=episode.model_calls,
        )
        try:
            scores = await score_labels(episode.model, request, labels)
        except ProviderError as error:
            episode.model_calls += len(labels)
            return LabelScores(probabilities=None, unavailable=str(error))
        for exchange in scores.exchanges:
            episode.charge(*exchange, purpose="label")
        return scores


_ROOM = 64
"""Tokens for a label in quotes."""


def with_probabilities(agent: AgentSpec) -> AgentSpec:
    """Return the agent with the probabilities of labels noted at its answer."""
    return replace(agent, hooks=(*agent.hooks, LabelProbabilities), prompts=(*agent.prompts, "ehr_rag"))


ADDITIONS: Mapping[str, Addition] = {
    "rag": Addition(title="with the nearest chunks in front", give=in_front(RECIPES["rag"])),
    "ether": Addition(title="with evidence of ETHER in front", give=in_front(ETHER)),
    "tool": Addition(title="with retrieve_evidence as a tool", give=with_evidence_tool),
    "probabilities": Addition(
        title="with the probability of every label", give=with_probabilities, for_every_method=True
    ),
}
