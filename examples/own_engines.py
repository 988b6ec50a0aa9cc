"""A plug-in in one file: a model, an encoder, a context policy, a predictor and a source.

    wardround ingest own_ward FOLDER --plugin examples/own_engines.py --store store
    wardround run --plugin examples/own_engines.py --benchmark bench --store store --agent react+rag \\
        --model always/Sepsis --set retrieval.encoder=letters --set run.context_policy=keep-one --out run
    wardround train predictors --plugin examples/own_engines.py --benchmark bench --store store --predictor prior \\
        --out fits
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wardround.agents import CONTEXT_POLICIES, ContextPolicy, FullContext, TokenCounter
from wardround.core import Message, ToolCall, Usage
from wardround.models import MODELS, ModelEntry, Reply, Request
from wardround.predictors import PREDICTORS, Predictor
from wardround.predictors.heads import Fit
from wardround.records import SOURCES
from wardround.tools.retrieval import ENCODERS, EncoderEntry, Vectors
from wardround.tools.retrieval.encoder import unit_rows


class Always:
    """A model that answers the same, whatever it is asked: a floor below every floor."""

    def __init__(self, answer: str) -> None:
        self.name = f"always/{answer}"
        self.identity = self.name
        self._answer = answer

    async def check(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to release."""

    async def complete(self, request: Request) -> Reply:
        """Finish at once."""
        arguments = json.dumps({"response": [self._answer]})
        call = ToolCall(id=f"call_{request.ordinal}", name="finish", arguments=arguments)
        message = Message(role="assistant", content="It is always this.", tool_calls=(call,))
        return Reply(message=message, usage=Usage(), finish_reason="tool_calls", model=self.name)


MODELS.add(
    "always",
    ModelEntry(
        name="always",
        takes="/<answer>",
        description="The same answer to every question.",
        open=lambda opening: Always(opening.rest),
    ),
)


class Letters:
    """Texts are alike that use the same letters."""

    name = "letters"
    identity = "letters-1"
    dimensions = 26
    max_tokens = None

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of letter counts per text."""
        counts = [Counter(text.casefold()) for text in texts]
        return unit_rows([[count[chr(ord("a") + place)] for place in range(26)] for count in counts])


ENCODERS.add(
    "letters",
    EncoderEntry(name="letters", description="Counts of letters: fast, and dumb.", open=lambda opening: Letters()),
)


@CONTEXT_POLICIES.named("keep-one")
def keep_one(counter: TokenCounter) -> ContextPolicy:
    """Everything, until it does not fit; then only the newest turn is left as it was."""
    return FullContext(counter, keep_turns=1)


def prior(train: Any, truth: Any, dev: Any, dev_truth: Any, test: Any, classes: int) -> Fit:
    """How often each class was right in training, for everybody alike."""
    share = np.bincount(truth, minlength=classes) / len(truth)
    return Fit(probabilities=np.tile(share, (test.shape[0], 1)), chosen={}, dev_auroc=None, points=1)


PREDICTORS.add(
    "prior",
    Predictor(
        name="prior", title="Frequencies of the classes in training", reads="counts", head=lambda settings: prior
    ),
)
SOURCES.add("own_ward", Path(__file__).with_name("own_ward.toml"))
