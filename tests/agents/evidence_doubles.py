"""A chart of invented findings that are found by the word they are named after, and a script for what is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from doubles import ListRecorder, PaperChart, play
from questions import READMISSION

from tools.retrieval.histories import Row, day, history
from wardround.agents import Limits, Outcome, Prompt, get_agent
from wardround.models import ModelSettings, Request, ScriptedModel, say
from wardround.models.replay import Line
from wardround.tasks.answers import Question
from wardround.tools.retrieval import EvidenceIndex, RetrievalSettings, Vectors

WORDS = ("fever", "cough", "rash", "fall", "stroke", "gout", "burn", "Hemoglobin", "Sodium")
ASKED = replace(READMISSION, factual_query="fever", counterfactual_query="cough")
NOW = day(400)


class WordEncoder:
    """A text is the chosen words that are in it."""

    name = identity = "words"
    dimensions = len(WORDS)
    max_tokens = None

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = np.array([[word.lower() in text.lower() for word in WORDS] for text in texts], np.float32)
        rows = rows.reshape(len(texts), len(WORDS))
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def findings(*, indicators: int = 0, repeated: int = 1, text: str | None = None) -> list[Row]:
    """One finding a day of each of the first seven words, and values of some indicators."""
    rows = [
        Row(name=f"{word} {n}", time=day(10 * place + n), kind="diagnosis", text=text)
        for place, word in enumerate(WORDS[:7])
        for n in range(repeated)
    ]
    values = [
        Row(name=f"indicator {n}", time=day(300 + step), value=float(n + step), unit="u")
        for n in range(indicators)
        for step in range(7)
    ]
    return rows + values


def searched(rows: Sequence[Row], **settings: Any) -> PaperChart:
    """An environment whose chart holds these events; one event a chunk unless said otherwise."""
    chosen = {"chunk_rows": 1, "overlap": 0, "final": 1, "top_passages": 2, "alpha": 1.0, **settings}
    environment = PaperChart()
    environment.evidence = EvidenceIndex(  # type: ignore[attr-defined]
        history(rows), as_of=NOW, encoder=WordEncoder(), settings=RetrievalSettings(**chosen)
    )
    return environment


def job(request: Request) -> str:
    """What a request asks for: the task its last message names (before it, where it asks again), or ``act``."""
    asks_again = "could not be used" in last(request)
    asked = request.messages[-2].content or "" if asks_again else last(request)
    found = re.match(r"Your task now: (\w+)", asked)
    return found.group(1) if found else "act"


def last(request: Request) -> str:
    return request.messages[-1].content or ""


def shown(request: Request) -> str:
    """All that a request says, instructions of the roles left out."""
    return "\n".join(message.content or "" for message in request.messages[1:])


def events(request: Request) -> list[str]:
    """The findings that a request shows, in order."""
    return re.findall(r"^\[[\d :-]+\] diagnosis - (\w+ \d+)", shown(request), re.MULTILINE)


class Script:
    """Replies by job: a list to take from in order, or one reply for all."""

    def __init__(self, **replies: Line | list[Line]) -> None:
        self.replies = {
            "act": say("Reasoning: so.\nAnswer: 1"),
            "rerank": say('["indicator 0"]'),
            "argue": say("The case rests on the fever of the first day and on nothing else."),
            **replies,
        }

    def __call__(self, request: Request) -> Line:
        held = self.replies.get(job(request), "ENOUGH")
        return held.pop(0) if isinstance(held, list) else held


class Played:
    """An episode that was played: outcome, requests, notes."""

    def __init__(
        self,
        name: str,
        rows: Sequence[Row],
        script: Callable[[Request], Line] | None = None,
        *,
        question: Question | None = ASKED,
        limits: Limits | None = None,
        seed: int = 1,
        **settings: Any,
    ) -> None:
        self.model = ScriptedModel(script or Script())
        self.recorder = ListRecorder()
        self.limits = limits or Limits()
        self.outcome: Outcome = play(
            self.model,
            agent=get_agent(name),
            environment=searched(rows, **settings),
            recorder=self.recorder,
            limits=self.limits,
            prompt=Prompt(user="Will the patient come back?", task="guo_readmission", question=question),
            settings=ModelSettings(seed=seed),
        )

    @property
    def requests(self) -> list[Request]:
        return self.model.requests

    @property
    def purposes(self) -> list[str]:
        return [purpose for *_, purpose in self.recorder.turns]

    def notes(self, kind: str, *fields: str) -> list[tuple[Any, ...]]:
        """Some fields of every note of a kind."""
        return [tuple(note.get(name) for name in fields) for note in self.recorder.of(kind)]
