"""What the tests of stays share: bundles by hand, a feed of them, and a stay played to its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from doubles import ListRecorder, PaperChart

from wardround.agents import Episode, EstimatedTokens, Limits, Outcome, Prompt, StepPrediction, get_agent, run_episode
from wardround.agents.stays.charted import StateFacts
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import Bundle, BundleEvent, BundleStream, Carried, EventKind, PatientState
from wardround.clinical.bundles.state import ActiveMedication, Trend, event_of, stream_of
from wardround.core import Usage
from wardround.models.protocol import Model, ModelSettings, Reply
from wardround.models.replay import ScriptedModel, say

ADMITTED = datetime(2150, 1, 1, 8)
LAB, START, DONE = EventKind.LAB, EventKind.MEDICATION_START, EventKind.PROCEDURE


def at(hours: float) -> datetime:
    return ADMITTED + timedelta(hours=hours)


def event(hours: float, kind: EventKind, concept: str, value: float | None = None, **more: Any) -> BundleEvent:
    return event_of(kind, concept, at(hours), value=value, **more)


def stay(*events: BundleEvent) -> BundleStream:
    return stream_of(7, events)


class ListFeed:
    """Hands out bundles of a stream, each after the prediction before it; every step is played."""

    carried = Carried(kinds=frozenset(EventKind))

    def __init__(self, stream: BundleStream, past: int = 0) -> None:
        self.bundles: list[Bundle] = list(stream)
        self.past: Sequence[Bundle] = self.bundles[:past]
        self.place = past
        self.predictions: list[StepPrediction] = []

    def score(self, name: str, hours: float | None, at: datetime) -> None:
        return None

    def first(self) -> Bundle:
        return self.bundles[self.place]

    def after(self, prediction: StepPrediction) -> Bundle | None:
        self.predictions.append(prediction)
        self.place += 1
        return self.bundles[self.place] if self.place < len(self.bundles) else None


class PlayedOut:
    """A stay that was played."""

    def __init__(self, outcome: Outcome, feed: ListFeed, recorder: ListRecorder) -> None:
        self.outcome, self.predictions, self.recorder = outcome, feed.predictions, recorder

    @property
    def names(self) -> list[set[str]]:
        return [{action.name for action in one.actions} for one in self.predictions]


OFFLINE = ScriptedModel([], name="offline")


def play_stay(
    agent: str, stream: BundleStream, model: Model = OFFLINE, *, limits: Limits | None = None, **settings: Any
) -> PlayedOut:
    feed, recorder = ListFeed(stream), ListRecorder()
    outcome = asyncio.run(
        run_episode(
            get_agent(agent, TraceSettings(**settings)),
            feed=feed,
            model=model,
            environment=PaperChart(),
            prompt=Prompt(user="What is done next?"),
            limits=limits or Limits(context_tokens=8_000),
            settings=ModelSettings(),
            recorder=recorder,
            episode="stay",
        )
    )
    return PlayedOut(outcome, feed, recorder)


def episode_of(agent: str, model: Model, **settings: Any) -> Episode:
    return Episode(
        agent=get_agent(agent, TraceSettings(**settings)),
        model=model,
        environment=PaperChart(),
        prompt=Prompt(user="What is done next?"),
        limits=Limits(context_tokens=8_000),
        settings=ModelSettings(),
        recorder=ListRecorder(),
        counter=EstimatedTokens(),
        episode="stay",
    )


def proposal(*actions: tuple[str, str], cited: Sequence[str] = (), logprobs: tuple[float, ...] | None = None) -> Reply:
    """A Reasoner's reply."""
    body = {
        "thought_process": "so",
        "next_bundle_type": "LABS",
        "predicted_actions": [{"type": kind, "name": name, "dose": "none"} for kind, name in actions],
        "citations": list(cited),
    }
    reply = say(json.dumps(body))
    usage = Usage(input_tokens=11, output_tokens=7)
    return Reply(message=reply.message, usage=usage, finish_reason="stop", model="m", token_logprobs=logprobs)


def write(folder: Path, text: str) -> str:
    path = folder / "protocol.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


HOUR = datetime(2150, 3, 10, 9)


def before(hours: float) -> datetime:
    """So long before the bundle's hour begins."""
    return HOUR - timedelta(hours=hours)


def facts(*trends: Trend, suspected: tuple[str, ...] = (), began: datetime | None = None, **parts: Any) -> StateFacts:
    known = {name: parts.pop(name) for name in ("carried", "score", "counts") if name in parts}
    state = PatientState(
        subject_id=1,
        hour=HOUR,
        trends={(one.kind, one.concept, one.unit or ""): one for one in trends},
        **parts,
    )
    return StateFacts(state, HOUR, window_hours=6, suspected=suspected, began=began, **known)


def medication(concept: str) -> ActiveMedication:
    return ActiveMedication(
        concept=concept, dose=None, unit=None, since=HOUR, kind=EventKind.MEDICATION_START, row_id="m"
    )
