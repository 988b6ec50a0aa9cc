"""The first prompts of a run as its episodes would send them, without a call to a model.

The real loop plays each episode up to its first call, and ends there: whatever hooks, memory or evidence put into the
prompt is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from wardround.agents import AgentSpec, EstimatedTokens, run_episode
from wardround.agents.loop.tokens import count_message, count_schemas
from wardround.benchmarks import Sample
from wardround.core import LimitReached, UserError, derive_seed
from wardround.log import ToolRecord
from wardround.models import ModelSettings, Reply, Request
from wardround.retrieval import Encoder
from wardround.runs.banks import open_run_encoder
from wardround.runs.episode import open_run_images, open_surroundings
from wardround.runs.preparing import Prepared
from wardround.runs.settings import EpisodeKey
from wardround.runs.worker import limits_of, prompt_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstPrompts:
    """Mean tokens of an agent's first calls over ``samples`` samples, as the loop counts them: messages, tool schemas;
    ``largest`` is that of both together."""

    agent: str
    samples: int
    message_tokens: float
    schema_tokens: float
    largest: int

    @property
    def tokens(self) -> float:
        """Mean tokens of messages and schemas together."""
        return self.message_tokens + self.schema_tokens


def first_prompts(plan: Prepared, samples: int) -> dict[str, FirstPrompts]:
    """Render the first prompts of every agent, by its name, over at most so many of the run's samples."""
    _refuse_served_encoder(plan)
    drawn = _drawn(plan, samples)
    searching = any(agent.searches for agent in plan.agents)
    encoder = open_run_encoder(plan.settings, plan.store) if searching else None
    return {
        name: _measured(name, [asyncio.run(_first_call(plan, agent, one, encoder)) for one in drawn])
        for name, agent in zip(plan.settings.run.agents, plan.agents, strict=True)
    }


def _refuse_served_encoder(plan: Prepared) -> None:
    reads = plan.settings.memory.bank is not None or plan.settings.memory.banks
    used = reads or any(agent.searches for agent in plan.agents)
    if used and plan.settings.retrieval.encoder_url is not None:
        raise UserError(
            f"a dry run calls no model, and the encoder at {plan.settings.retrieval.encoder_url} is one: leave the "
            "agents out that search with it or read a bank"
        )


def _drawn(plan: Prepared, count: int) -> list[Sample]:
    """Draw from all samples by the run's seed: the first ones would be of one task."""
    wanted = dict.fromkeys(EpisodeKey.parse(key).sample for key in plan.keys)
    seed = plan.settings.run.seed
    drawn = sorted(wanted, key=lambda sample: derive_seed(seed, "first prompts", sample))[:count]
    return [plan.benchmark.sample(name) for name in drawn]


class _FirstCall:
    """Takes the first request in place of a model, and ends the episode."""

    name = identity = "dry-run"

    def __init__(self) -> None:
        self.request: Request | None = None

    async def check(self) -> None:
        """There is nothing to check."""

    async def complete(self, request: Request) -> Reply:
        """Keep the request."""
        self.request = self.request or request
        raise LimitReached("a dry run asks no model")

    async def close(self) -> None:
        """There is nothing to close."""


class _Unrecorded:
    """Writes nothing down."""

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        """Drop it."""

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        """Drop it."""


async def _first_call(plan: Prepared, agent: AgentSpec, sample: Sample, encoder: Encoder | None) -> Request:
    settings, model = plan.settings, _FirstCall()
    environment = open_surroundings(
        plan.store,
        plan.benchmark,
        sample,
        result_tokens=settings.budget.result_tokens,
        encoder=encoder,
        retrieval=settings.retrieval,
        toolset=settings.run.toolset,
        more_tools=(*settings.run.tools, *agent.more_tools),
        aids=settings.aids,
        images=open_run_images(settings, plan.store),
    )
    try:
        await run_episode(
            agent,
            model=model,
            environment=environment,
            prompt=prompt_of(settings, plan.benchmark, sample),
            limits=limits_of(settings),
            settings=ModelSettings(),
            recorder=_Unrecorded(),
            episode=f"dry-run|{agent.name}|{sample.id}",
        )
    finally:
        environment.close()
    if model.request is None:
        raise UserError(f"{agent.name} ends an episode without asking a model, so there is no first prompt of it")
    return model.request


def _measured(agent: str, requests: Sequence[Request]) -> FirstPrompts:
    counter = EstimatedTokens()
    messages = [sum(count_message(counter, message) for message in request.messages) for request in requests]
    schemas = [count_schemas(counter, request.tools) for request in requests]
    return FirstPrompts(
        agent=agent,
        samples=len(requests),
        message_tokens=fmean(messages),
        schema_tokens=fmean(schemas),
        largest=max(map(sum, zip(messages, schemas, strict=True))),
    )
