"""The probability of each label, from replies that are bound to the label by a schema.

Each label is requested in turn. An endpoint that binds replies by a grammar and reports log-probabilities from before
the grammar gives the probability of each token of a forced label. Their sum is the label's log-probability (the text
before the label is the same in all replies), so the probabilities over all labels follow exactly, up to the
tokenization of a label. It costs one call per label; all share one prompt, which servers cache.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from wardround.models.protocol import Model, Reply, Request
from wardround.models.schema import read_value

_ROOM = 0.01
"""Tolerance: probabilities of different replies may sum to more than one through rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelScores:
    """The probability of each label, summing to one; None with the reason where unavailable.

    ``exchanges``: the calls made, to be recorded.
    """

    probabilities: Mapping[str, float] | None
    unavailable: str = ""
    exchanges: tuple[tuple[Request, Reply], ...] = ()


async def score_labels(model: Model, request: Request, labels: Sequence[str]) -> LabelScores:
    """Score every label as the answer to a request; its ordinal is the first of ``len(labels)`` used ones.

    Raises ProviderError when an endpoint gives no reply.
    """
    requests = [_bound(request, label, index) for index, label in enumerate(labels)]
    first = await model.complete(requests[0])
    problem = _problem(first, labels[0])
    if problem:  # the other labels would fail in the same way
        return LabelScores(probabilities=None, unavailable=problem, exchanges=((requests[0], first),))
    replies = [first, *await asyncio.gather(*map(model.complete, requests[1:]))]
    exchanges = tuple(zip(requests, replies, strict=True))
    problems = [_problem(reply, label) for reply, label in zip(replies, labels, strict=True)]
    problem = next(filter(None, problems), "")
    if problem:
        return LabelScores(probabilities=None, unavailable=problem, exchanges=exchanges)
    return _normalised(labels, [math.fsum(reply.token_logprobs or ()) for reply in replies], exchanges)


def _bound(request: Request, label: str, index: int) -> Request:
    """Return the request whose only possible reply is ``label``.

    Sampling is greedy, so the text before the label is the same in all replies.
    """
    settings = replace(request.settings, temperature=0.0, top_p=None, token_logprobs=True)
    schema = {"type": "string", "enum": [label]}
    return replace(request, settings=settings, response_schema=schema, ordinal=request.ordinal + index, tools=())


def _problem(reply: Reply, label: str) -> str:
    """Return why a reply does not give the probability of its label; empty if it does."""
    value, _ = read_value(reply.message.content or "", {"type": "string"})
    if value != label:
        return "the endpoint does not bind a reply to a schema"
    return "" if reply.token_logprobs else "the endpoint reports no log-probabilities of tokens"


def _normalised(
    labels: Sequence[str], logarithms: Sequence[float], exchanges: tuple[tuple[Request, Reply], ...]
) -> LabelScores:
    """Turn the log-probabilities of whole replies into probabilities over the labels."""
    highest = max(logarithms)
    weights = [math.exp(value - highest) for value in logarithms]
    total = math.fsum(weights)
    if len(labels) > 1 and math.exp(highest) * total > 1 + _ROOM:
        # Different replies exclude each other, so these are the probabilities that the grammar left them: all one.
        reason = "the endpoint reports log-probabilities from after the schema was applied"
        return LabelScores(probabilities=None, unavailable=reason, exchanges=exchanges)
    shares = {label: weight / total for label, weight in zip(labels, weights, strict=True)}
    return LabelScores(probabilities=shares, exchanges=exchanges)
