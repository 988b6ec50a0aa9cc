"""Forecast tokens, cost and hours of a run, from its first prompts or an earlier run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from wardround.agents import AgentSpec, EstimatedTokens, run_episode
from wardround.agents.loop import count_message, count_schemas
from wardround.core import LimitReached, Price, Usage, UserError, derive_seed, run_to_end
from wardround.log import ToolRecord
from wardround.models import ModelSettings, Reply, Request
from wardround.runs.banks import open_run_encoder
from wardround.runs.execute import PreparedRun, prepare
from wardround.runs.experiment import with_own_corpora
from wardround.runs.folder import RunFolder
from wardround.runs.results import finished_entries
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.runs.worker import limits_of, open_run_images, open_surroundings, prompt_of
from wardround.tasks.benchmarks import Sample
from wardround.tools.retrieval import Encoder

# The first prompts of a run as its episodes would send them, without a call to a model.
#
# The real loop plays each episode up to its first call, and ends there: whatever hooks, memory or evidence put into the
# prompt is in it.


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


def first_prompts(plan: PreparedRun, samples: int) -> dict[str, FirstPrompts]:
    """Render the first prompts of every agent, by its name, over at most so many of the run's samples."""
    _refuse_served_encoder(plan)
    drawn = _drawn(plan, samples)
    searching = any(agent.searches for agent in plan.agents)
    encoder = open_run_encoder(plan.settings, plan.store) if searching else None
    return {
        name: _measured(name, [run_to_end(_first_call(plan, agent, one, encoder)) for one in drawn])
        for name, agent in zip(plan.settings.run.agents, plan.agents, strict=True)
    }


def _refuse_served_encoder(plan: PreparedRun) -> None:
    reads = plan.settings.memory.bank is not None or plan.settings.memory.banks
    used = reads or any(agent.searches for agent in plan.agents)
    if used and plan.settings.retrieval.encoder_url is not None:
        raise UserError(
            f"a dry run calls no model, and the encoder at {plan.settings.retrieval.encoder_url} is one: leave the "
            "agents out that search with it or read a bank"
        )


def _drawn(plan: PreparedRun, count: int) -> list[Sample]:
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


async def _first_call(plan: PreparedRun, agent: AgentSpec, sample: Sample, encoder: Encoder | None) -> Request:
    settings, model = plan.settings, _FirstCall()
    images = open_run_images(settings, plan.store)
    environment = open_surroundings(settings, plan.store, plan.benchmark, sample, agent, encoder=encoder, images=images)
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


# What a run would take: tokens, cost and hours, as a range from its budgets or as the means of an earlier run.


_SAMPLES = 8
"""Samples whose first prompts are rendered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRange:
    """From the least to the most; both are one figure where means of an earlier run give it."""

    least: float
    most: float

    def __add__(self, other: EstimateRange) -> EstimateRange:
        return EstimateRange(least=self.least + other.least, most=self.most + other.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the episodes of one agent with one model would take. ``cost`` in US dollars, None without a price;
    ``hours`` one call after another, None where no earlier run says how long a call takes."""

    agent: str
    model: str
    episodes: int
    first_prompt: FirstPrompts
    basis: Literal["budgets", "earlier run"]
    calls: EstimateRange
    input_tokens: EstimateRange
    output_tokens: EstimateRange
    cost: EstimateRange | None
    hours: EstimateRange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """Means of an earlier run's episodes: calls, tokens and seconds of one."""

    calls: float
    usage: Usage
    seconds: float

    @classmethod
    def of(cls, outcomes: Sequence[Mapping[str, Any]]) -> EarlierRun:
        """Take the means."""
        tokens = {
            name: round(fmean(one["usage"][name] for one in outcomes))
            for name in ("input_tokens", "output_tokens", "cached_tokens")
        }
        return cls(
            calls=fmean(one["model_calls"] for one in outcomes),
            usage=Usage(**tokens),
            seconds=fmean(one["seconds"] for one in outcomes),
        )


def forecast(plan: PreparedRun, like: RunFolder | None = None, *, samples: int = _SAMPLES) -> list[Forecast]:
    """Return what every agent with every model would take.

    ``like``: a run of the same agents, whose means are taken.
    """
    prompts = first_prompts(plan, samples)
    outcomes = {} if like is None else _outcomes(like)
    everything = [one for some in outcomes.values() for one in some]
    if like is not None and not everything:
        raise UserError(f"the run {str(like.path)!r} has no episode with counted tokens that ended without an error")
    pace = EarlierRun.of(everything) if everything else None
    episodes = Counter((key.agent, key.model) for key in map(EpisodeKey.parse, plan.keys))
    return [
        _of_mean(agent, model, count, prompts[agent], EarlierRun.of(found), plan.settings)
        if (found := _like(outcomes, agent, model))
        else _of_budgets(agent, model, count, prompts[agent], pace, plan.settings)
        for (agent, model), count in episodes.items()
    ]


def _outcomes(folder: RunFolder) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The outcomes of a run's episodes by agent and model, but those that an endpoint's error ended or whose tokens it
    did not count."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for text, entry in finished_entries(folder).items():
        key, outcome = EpisodeKey.parse(text), entry.outcome or {}
        if outcome.get("model_calls") and outcome["finish"] != "error" and outcome["usage"]["input_tokens"]:
            found.setdefault((key.agent, key.model), []).append(outcome)
    return found


def _like(
    outcomes: Mapping[tuple[str, str], list[Mapping[str, Any]]], agent: str, model: str
) -> list[Mapping[str, Any]]:
    """Episodes of the same agent and model, else of the same agent with whatever models it had."""
    same = outcomes.get((agent, model))
    return same or [one for (name, _), some in outcomes.items() if name == agent for one in some]


def _of_mean(
    agent: str, model: str, episodes: int, prompts: FirstPrompts, earlier: EarlierRun, settings: RunSettings
) -> Forecast:
    price = settings.model_named(model).known_price
    return Forecast(
        agent=agent,
        model=model,
        episodes=episodes,
        first_prompt=prompts,
        basis="earlier run",
        calls=_both(episodes * earlier.calls),
        input_tokens=_both(episodes * earlier.usage.input_tokens),
        output_tokens=_both(episodes * earlier.usage.output_tokens),
        cost=None if price is None else _both(episodes * price.cost(earlier.usage)),
        hours=_both(episodes * earlier.seconds / 3600),
    )


def _of_budgets(
    agent: str, model: str, episodes: int, prompts: FirstPrompts, pace: EarlierRun | None, settings: RunSettings
) -> Forecast:
    """At least one call with an empty reply; at most the turn limit and one forced call, each with a full window."""
    budget, most_calls = settings.budget, settings.budget.turns + 1
    window = settings.budget_tokens - budget.reply_tokens
    calls = EstimateRange(least=episodes, most=episodes * most_calls)
    read = EstimateRange(least=episodes * prompts.tokens, most=episodes * most_calls * max(window, prompts.largest))
    written = EstimateRange(least=0, most=episodes * most_calls * budget.reply_tokens)
    per_call = None if pace is None else pace.seconds / pace.calls / 3600
    return Forecast(
        agent=agent,
        model=model,
        episodes=episodes,
        first_prompt=prompts,
        basis="budgets",
        calls=calls,
        input_tokens=read,
        output_tokens=written,
        cost=_priced(settings.model_named(model).known_price, read, written),
        hours=None if per_call is None else EstimateRange(least=calls.least * per_call, most=calls.most * per_call),
    )


def _priced(price: Price | None, read: EstimateRange, written: EstimateRange) -> EstimateRange | None:
    """The least is of prompts that a cache serves where cached tokens have a price of their own; the most of none."""
    if price is None:
        return None
    least, most = (
        Usage(input_tokens=round(a), output_tokens=round(b))
        for a, b in ((read.least, written.least), (read.most, written.most))
    )
    cheapest = min(price.input, price.input if price.cached is None else price.cached)
    return EstimateRange(least=Price(input=cheapest, output=price.output).cost(least), most=price.cost(most))


def _both(value: float) -> EstimateRange:
    return EstimateRange(least=value, most=value)


def forecast_run(asked: Mapping[str, Any], *, like: RunFolder | Path | str | None = None) -> list[Forecast]:
    """Return what the run of some settings would take, by agent and model; no model is called and nothing is written.

    ``like``: an earlier run, whose means are taken instead of a range from the budgets. UserError: what :func:`prepare`
    refuses.
    """
    settings = RunSettings.read(with_own_corpora(asked))
    if not settings.run.benchmark:
        raise UserError("a dry run needs --benchmark, and --store where its questions are about charts")
    earlier = like if like is None or isinstance(like, RunFolder) else RunFolder.open(like)
    return forecast(prepare(settings), earlier)
