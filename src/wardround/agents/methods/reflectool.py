"""ReflecTool (Liao et al., 2025): verify a proposed action before it is executed, with advice per tool.

*Candidate selection*: n actions are sampled from one prompt, and the model chooses one. *Iterative refinement*: the
model reviews its own proposal until it does not change it. Exactly one action is executed per turn. The others are
recorded as ``candidate`` and have no results.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from wardround.agents.catalogue import Method
from wardround.agents.loop.context import count_message, cut_notice, cut_text
from wardround.agents.loop.episode import Episode, Exchange, prompt_text
from wardround.agents.loop.loop import AgentSpec
from wardround.agents.methods.react import REACT
from wardround.agents.recall import served_text
from wardround.core import Message, ProviderError, ToolCall, check_settings, setting, without_thinking
from wardround.models.protocol import ModelSettings

_PROMPTS = ("reflectool", "memory/served_tool")
_ADVICE_SHARE = 0.08
_LISTING_SHARE = 0.15
_FRAME_TOKENS = 200
_VERIFIER_TOKENS = 1024
"""The token limit of a choice: the reply is a number and a reason."""
_CHOICE = re.compile(r"choice[\s*_`]*[:：]?[\s*_`]*(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSettings:
    """How many actions are compared."""

    candidates: int = setting(2, "actions sampled before one is chosen", least=1)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinementSettings:
    """How often an action is reviewed."""

    refinements: int = setting(2, "reviews of a proposed action, at most", least=1)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSelection:
    """Samples ``candidates`` actions and returns the one the model chooses. Equal actions need no choice."""

    candidates: int

    async def __call__(self, episode: Episode) -> Exchange:
        """Decide the next action."""
        prompt = episode.render(reserve=_reserve(episode))
        tokens = episode.rendered_tokens
        sampled = await self._sample(episode, prompt)
        distinct = list({_identity(exchange): exchange for exchange in reversed(sampled)}.values())[::-1]
        chosen = distinct[0] if len(distinct) == 1 else await self._chosen(episode, prompt, tokens, distinct)
        for exchange in sampled:
            if exchange is not chosen:
                episode.record(exchange, "candidate")
        return chosen

    async def _sample(self, episode: Episode, prompt: tuple[Message, ...]) -> list[Exchange]:
        """Sample n replies at once, each with its own seed. Some may fail, not all."""
        asking = (
            episode.ask(prompt, settings=_seeded(episode.settings, number), counted=episode.rendered_tokens)
            for number in range(self.candidates)
        )
        came = await asyncio.gather(*asking, return_exceptions=True)
        failed = [error for error in came if isinstance(error, BaseException)]
        wrong = [error for error in failed if not isinstance(error, ProviderError)]
        sampled = [exchange for exchange in came if isinstance(exchange, Exchange)]
        if wrong or not sampled:
            raise (wrong or failed)[0]
        if failed:
            episode.recorder.note("choice", {"turn": episode.turn, "sampled": len(sampled), "failed": str(failed[0])})
        return sampled

    async def _chosen(
        self, episode: Episode, prompt: tuple[Message, ...], tokens: int, distinct: Sequence[Exchange]
    ) -> Exchange:
        texts = [_action_text(exchange.reply.message) for exchange in distinct]
        tools = frozenset(call.name for exchange in distinct for call in exchange.reply.message.tool_calls)
        question = Message(
            role="user",
            content=prompt_text(
                "reflectool.choose",
                actions=_fitted(episode, texts),
                advice=served_text(episode, "tool", share=_ADVICE_SHARE, tools=tools),
            ),
        )
        counted = tokens + count_message(episode.counter, question)
        detail: dict[str, Any] = {"turn": episode.turn, "distinct": len(distinct)}
        try:
            exchange = await episode.ask(
                (*prompt, question), settings=_brief(episode.settings), counted=counted, text_only=True
            )
        except ProviderError as error:
            episode.recorder.note("choice", {**detail, "chosen": 1, "failed": str(error)})
            return distinct[0]
        episode.record(exchange, "choose")
        number = _called(exchange, distinct) or _choice(
            without_thinking(exchange.reply.message.content or ""), len(distinct)
        )
        unread = {} if number else {"unreadable": (exchange.reply.message.content or "")[:200]}
        episode.recorder.note("choice", {**detail, "chosen": number or 1, **unread})
        return distinct[(number or 1) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class IterativeRefinement:
    """Proposes an action and has it reviewed, at most ``refinements`` times, until the review repeats it."""

    refinements: int

    async def __call__(self, episode: Episode) -> Exchange:
        """Decide the next action."""
        prompt = episode.render(reserve=_reserve(episode))
        tokens = episode.rendered_tokens
        proposal = await episode.ask(prompt, counted=tokens)
        for number in range(1, self.refinements + 1):
            if not proposal.reply.message.tool_calls:
                return proposal
            reviewed = await self._reviewed(episode, prompt, tokens, proposal, number)
            if reviewed is None:
                return proposal
            episode.record(proposal, "candidate")
            proposal = reviewed
        return proposal

    async def _reviewed(
        self, episode: Episode, prompt: tuple[Message, ...], tokens: int, proposal: Exchange, number: int
    ) -> Exchange | None:
        """Return a changed proposal, or None if the review keeps the current one."""
        message = proposal.reply.message
        tools = frozenset(call.name for call in message.tool_calls)
        advice = served_text(episode, "tool", share=_ADVICE_SHARE, tools=tools)
        [action] = _fitted(episode, [_action_text(message)])
        question = Message(role="user", content=prompt_text("reflectool.review", action=action, advice=advice))
        detail: dict[str, Any] = {"turn": episode.turn, "review": number}
        try:
            counted = tokens + count_message(episode.counter, question)
            exchange = await episode.ask((*prompt, question), counted=counted)
        except ProviderError as error:
            episode.recorder.note("refinement", {**detail, "changed": False, "failed": str(error)})
            return None
        changed = bool(exchange.reply.message.tool_calls) and _identity(exchange) != _identity(proposal)
        episode.recorder.note("refinement", {**detail, "changed": changed})
        if not changed:
            episode.record(exchange, "reflect")
            return None
        return exchange


def _reserve(episode: Episode) -> int:
    """Return the tokens that the verifier's question may add to the actor's prompt."""
    return int(episode.room() * (_ADVICE_SHARE + _LISTING_SHARE)) + _FRAME_TOKENS


@lru_cache(maxsize=1024)
def _seeded(settings: ModelSettings, number: int) -> ModelSettings:
    """Return an episode's settings under another seed for every sample after the first."""
    if number == 0 or settings.seed is None:
        return settings
    return replace(settings, seed=(settings.seed + number) % 2**31)


@lru_cache(maxsize=1024)
def _brief(settings: ModelSettings) -> ModelSettings:
    """Return an episode's settings for a choice."""
    return replace(settings, max_output_tokens=min(_VERIFIER_TOKENS, settings.max_output_tokens))


def _identity(exchange: Exchange) -> object:
    """Return the identity of an action: the calls in order, or the text if there is no call."""
    message = exchange.reply.message
    return tuple(map(_call_identity, message.tool_calls)) or (message.content or "").strip()


def _call_identity(call: ToolCall) -> tuple[str, str]:
    try:
        return call.name, json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return call.name, call.arguments


def _action_text(message: Message) -> str:
    text = (message.content or "").strip()
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join([*([text] if text else []), *(calls or ["(no tool call: this would be the final text)"])])


def _fitted(episode: Episode, texts: Sequence[str]) -> list[str]:
    """Cut actions so that all of them fit their share."""
    share = int(episode.room() * _LISTING_SHARE) // len(texts)
    return [cut_text(text, episode.counter, share, notice=cut_notice) for text in texts]


def _called(exchange: Exchange, distinct: Sequence[Exchange]) -> int | None:
    """Return the number of the action that a reply makes instead of naming it; None if it makes none of them."""
    if not exchange.reply.message.tool_calls:
        return None
    return next(
        (
            place
            for place, other_exchange in enumerate(distinct, start=1)
            if _identity(other_exchange) == _identity(exchange)
        ),
        None,
    )


def _choice(text: str, most: int) -> int | None:
    """Return the number that a reply chooses, the last one it names; None without a valid number."""
    found = _CHOICE.findall(text) or re.findall(r"\A\W*(\d+)\W*\Z", text)
    number = int(found[-1]) if found else 0
    return number if 1 <= number <= most else None


def _selection(settings: SelectionSettings) -> AgentSpec:
    return replace(REACT, choose=CandidateSelection(candidates=settings.candidates), prompts=_PROMPTS)


def _refinement(settings: RefinementSettings) -> AgentSpec:
    return replace(REACT, choose=IterativeRefinement(refinements=settings.refinements), prompts=_PROMPTS)


METHODS = (
    Method(
        name="reflectool-cs",
        title="ReflecTool, candidate selection: one of n sampled actions is chosen, then run",
        make=_selection,
        memory=("tool",),
        settings=SelectionSettings,
        tables=(2,),
        paper="retrosum",
    ),
    Method(
        name="reflectool-ir",
        title="ReflecTool, iterative refinement: the proposed action is reviewed before it is run",
        make=_refinement,
        memory=("tool",),
        settings=RefinementSettings,
        tables=(2,),
        paper="retrosum",
    ),
)
