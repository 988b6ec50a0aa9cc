"""A stay handed out bundle by bundle: the next one only after the prediction before it was written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from wardround.agents import Recorder, StepPrediction
from wardround.agents.loop import STEP_NOTE, ChartScore, SubjectScore
from wardround.clinical.bundles import NOTHING_KNOWN, Bundle, BundleStream, Carried, carried_by, subject_bundles
from wardround.clinical.definitions import score_at
from wardround.clinical.protocols import OLDEST
from wardround.clinical.vocabulary import Bounds
from wardround.core import LeakError, UserError
from wardround.records import Chart, Store
from wardround.tasks.benchmarks import Sample


def stay_feed(store: Store, sample: Sample, recorder: Recorder) -> StayFeed:
    """Open a sample's stay."""
    first, stop = int(sample.facts["first"]), int(sample.facts["stop"])
    stream, carried = subject_bundles(store, sample.subject_id), carried_by(store).for_subject(sample.subject_id)

    def score(name: str, hours: float | None, at: datetime) -> Bounds | None:
        return chart_score(store.chart(sample.subject_id, at), name, hours)

    return StayFeed(stream=stream, start=first, stop=stop, recorder=recorder, carried=carried, scored=score)


def store_score(store: Store) -> SubjectScore:
    """Return what works out the scores of a store's subjects as of any moment. Trusted: for whoever reads all of it."""
    charts = lru_cache(maxsize=1)(store.chart)  # several scores are asked of one

    def score(subject: int, name: str, hours: float | None, at: datetime) -> Bounds | None:
        return chart_score(charts(subject, at), name, hours)

    return score


def chart_score(chart: Chart, name: str, hours: float | None) -> Bounds | None:
    """Return the least and the most that a definition's number, or the age, can be on a chart; None where nothing
    limits it, or the definition is not known for the source."""
    if name == "age":
        return None if chart.age is None else Bounds(chart.age, math.inf if chart.age >= OLDEST else chart.age)
    try:
        return score_at(chart, name, hours=None if hours is None else round(hours)).bounds
    except UserError:  # the definitions of another source
        return None


@dataclass(slots=True, kw_only=True)
class StayFeed:
    """The bundles of one stay. The agent's side sees what it is handed; the rest lies here."""

    stream: BundleStream
    start: int
    stop: int
    recorder: Recorder
    carried: Carried = NOTHING_KNOWN
    scored: ChartScore | None = None
    given: int = 0

    @property
    def past(self) -> Sequence[Bundle]:
        """The subject's bundles before the stay."""
        return [*self.stream.between(0, self.start)]

    def score(self, name: str, hours: float | None, at: datetime) -> Bounds | None:
        """Work out a score on the chart as of a moment of the stay. LeakError: one that the player has not come to."""
        hour = self.stream.hour_at(self.start + self.given)
        if at >= hour + timedelta(hours=1):
            raise LeakError(f"a score as of {at}: the stay is played up to the hour of {hour:%Y-%m-%d %H:00}")
        return None if self.scored is None else self.scored(name, hours, at)

    def first(self) -> Bundle:
        """Hand out the first bundle of the stay."""
        return self.stream[self.start]

    def after(self, prediction: StepPrediction) -> Bundle | None:
        """Write a prediction down, then hand out the next bundle; none follows the last step's."""
        step, self.given = self.given, self.given + 1
        hour = self.stream.hour_at(self.start + step)
        said = {
            "step": step,
            "hour": f"{hour:%Y-%m-%d %H:00}",
            "actions": [one.to_json() for one in prediction.actions],
        }
        self.recorder.note(STEP_NOTE, said | dict(prediction.notes))
        following = self.start + self.given
        return self.stream[following] if following + 1 < self.stop else None


def played_bundles(store: Store, sample: Sample) -> tuple[list[Bundle], list[Bundle]]:
    """Return the bundles before a stay, and those of its steps."""
    stream = subject_bundles(store, sample.subject_id)
    first, stop = int(sample.facts["first"]), int(sample.facts["stop"])
    return [*stream.between(0, first)], [*stream.between(first, stop - 1)]
