"""A run in the viewer: summary, sample queries, its bank."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from wardround.clinical.codes import LabelSet
from wardround.core import UserError, content_hash
from wardround.log import LogReader, Trajectory
from wardround.memory import Bank, Edge, Experience, Feedback, RevisionEntry
from wardround.memory.credit import EffectPosterior
from wardround.records import Store
from wardround.reports import RunSummary, summarise_run
from wardround.reports.report import episode_page
from wardround.reports.summary import contender
from wardround.runs import RunFolder, RunSettings, open_benchmark, open_store, score_run
from wardround.runs.evolution_record import effects_of, read_record
from wardround.serve.viewer.transcript import ServedExperience, TranscriptPage, paged, served_by, transcript
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring import EpisodeScore

# The bank of a run in the viewer: its experiences and its graph as of the revision that the run read, as plain data for
# any thread. A stream's bank is shown as of the end of the stream.


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperiencePast:
    """Revisions, qualities by revision, feedback, and the effect by task of one experience."""

    revisions: tuple[RevisionEntry, ...]
    qualities: tuple[tuple[int, float | None], ...]
    feedback: tuple[Feedback, ...]
    effects: Mapping[str, EffectPosterior]


class ViewedBank:
    """Experiences by id (also retired ones), their qualities, and the edges from and to each."""

    def __init__(self, path: Path, revision: int | None) -> None:
        with Bank.open(path, writable=False) as bank:
            self.path = path
            self.revision = bank.revision if revision is None else revision
            state = bank.at(revision=self.revision)
            self.experiences: Mapping[str, Experience] = {one.id: one for one in state.every_experience}
            self.live = frozenset(experience.id for experience in state.experiences)
            graph = bank.graph(revision=self.revision)
            self.qualities = {name: graph.quality(name) for name in self.experiences}
            self.edges = tuple(graph.every_edge())

    @classmethod
    def of_run(cls, folder: RunFolder) -> ViewedBank | None:
        """Open the bank of a run; None without one. UserError: its file is missing."""
        name = folder.settings.memory.bank
        if name is None:
            return None
        if not Path(name).is_file():
            raise UserError(f"the bank {name!r} is missing")
        facts = folder.manifest.get("bank") or {}
        return cls(Path(name), None if read_record(folder) is not None else facts.get("revision"))

    @cached_property
    def edges_of(self) -> Mapping[str, Sequence[Edge]]:
        """Return the edges from or to an experience, the heaviest first."""
        found: dict[str, list[Edge]] = {name: [] for name in self.experiences}
        for edge in sorted(self.edges, key=lambda edge: -edge.weight):
            for end in (edge.source, edge.target):
                found.setdefault(end, []).append(edge)
        return found

    def title(self, name: str) -> str | None:
        """Return the title of an experience; None if the bank has none with that id."""
        found = self.experiences.get(name)
        return None if found is None else found.title

    def past(self, name: str) -> ExperiencePast:
        """Return the history of an experience in the file, up to the revision."""
        with Bank.open(self.path, writable=False) as bank:
            return ExperiencePast(
                revisions=tuple(one for one in bank.history(name) if one.number <= self.revision),
                qualities=tuple(one for one in bank.quality_history(name) if one[0] <= self.revision),
                feedback=tuple(one for one in bank.feedback(name) if one.number <= self.revision),
                effects=effects_of(bank.graph(revision=self.revision), name),
            )


# A run in the viewer: scored when it is opened; its summary, benchmark and store are read at their first use.


_HELD = 4
"""Trajectories that are kept: the pages of one episode are asked for after each other."""


class NotFound(UserError):
    """There is nothing at an address."""


def sample_page(sample: str) -> str:
    """Return the file name of a sample's page, which compares its episodes."""
    return f"{content_hash(sample)[:16]}.html"


class ViewedRun:
    """The finished episodes of one run, by the names of their pages. ``trajectory`` reads an episode's log, ``turns``
    divides it into pages; both by its key."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.open(path)
        self.scores = tuple(score_run(self.folder))
        self.pages = {episode_page(score): score for score in self.scores}
        self.trajectory = lru_cache(maxsize=_HELD)(self._read)
        self.turns = lru_cache(maxsize=_HELD)(self._paged)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.path.resolve().name

    @cached_property
    def settings(self) -> RunSettings:
        """Its settings, read once."""
        return self.folder.settings

    @cached_property
    def summary(self) -> RunSummary:
        """Its figures, with intervals and paired tests."""
        held = self.settings
        return summarise_run(self.scores, seed=held.run.seed, baseline=held.scoring.baseline, sizes=held.model_sizes())

    @cached_property
    def benchmark(self) -> Benchmark:
        """Its benchmark. UserError: it has changed."""
        return open_benchmark(self.folder)

    @cached_property
    def bank(self) -> ViewedBank | None:
        """Its bank, None without one. UserError: the file is missing."""
        return ViewedBank.of_run(self.folder)

    @cached_property
    def by_episode(self) -> Mapping[str, EpisodeScore]:
        """Its episodes by their keys."""
        return {score.episode: score for score in self.scores}

    @cached_property
    def served_in(self) -> Mapping[str, Sequence[tuple[str, ServedExperience]]]:
        """By experience: the episodes that were served it, and why."""
        found: dict[str, list[tuple[str, ServedExperience]]] = {}
        with LogReader(self.folder.logs, may_be_empty=True) as reader:
            for episode, detail in reader.notes("experiences"):
                for one in served_by(detail):
                    found.setdefault(one.id, []).append((episode, one))
        return found

    @cached_property
    def by_sample(self) -> Mapping[str, tuple[EpisodeScore, ...]]:
        """Its episodes by the page of their sample."""
        found: dict[str, list[EpisodeScore]] = {}
        for score in self.scores:
            found.setdefault(sample_page(score.sample), []).append(score)
        return {page: tuple(scores) for page, scores in found.items()}

    @cached_property
    def store(self) -> Store:
        """Its store. UserError: it has changed."""
        return open_store(self.folder)

    @cached_property
    def samples(self) -> Mapping[str, Sample]:
        """The benchmark's samples by id."""
        return {sample.id: sample for sample in self.benchmark.all_samples}

    @cached_property
    def labels(self) -> Mapping[str, LabelSet | None]:
        """The allowed labels of answers by task."""
        return {task.name: self.benchmark.labels(task) for task in self.benchmark.tasks}

    def score(self, page: str) -> EpisodeScore:
        """Return the episode of a page. NotFound: no such episode."""
        if page not in self.pages:
            raise NotFound(f"no finished episode {page!r} in the run {self.name!r}")
        return self.pages[page]

    def _read(self, episode: str) -> Trajectory:
        with LogReader(self.folder.logs) as reader:
            return reader.trajectory(episode)

    def _paged(self, episode: str) -> tuple[TranscriptPage, ...]:
        return paged(transcript(self.trajectory(episode)))


# Which episodes a page of samples lists: filters, order and start, read from an address.
#
# Rows are chosen among scores in memory: no text of an address reaches a database. A page begins after the last row of
# the one before (keyset), so it neither skips nor repeats rows.


ROWS = 100
"""Rows of one page."""
_ORDERS: Mapping[str, Callable[[EpisodeScore], Any]] = {
    "sample": lambda score: score.sample,
    "task": lambda score: score.task,
    "method": lambda score: contender(score),
    "score": lambda score: score.value,
    "turns": lambda score: score.use.turns,
}
_RESULTS: Mapping[str, Callable[[EpisodeScore], bool]] = {
    "right": lambda score: score.right,
    "partly": lambda score: score.value > 0 and not score.right,
    "nothing": lambda score: score.value <= 0,
}
_FIELDS: Mapping[str, Callable[[EpisodeScore], Iterable[str]]] = {
    "task": lambda score: [score.task],
    "method": lambda score: [contender(score)],
    "error": lambda score: score.errors,
    "end": lambda score: [score.finish],
    "sample": lambda score: [score.sample],
    "score": lambda score: [name for name, holds in _RESULTS.items() if holds(score)],
}
ORDERS = tuple(order for name in _ORDERS for order in (name, f"-{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleQuery:
    """``filters``: the required value of each named field; ``order``: one of ``ORDERS``, with a minus for descending;
    ``after``: the page of the episode after which the list continues."""

    filters: Mapping[str, str]
    order: str = "sample"
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSamples:
    """One page of the list: its rows, the number of all that match, and after which episode the next page begins, if
    any."""

    rows: Sequence[EpisodeScore]
    fitting: int
    after: str | None


@lru_cache(maxsize=8)
def choices(run: ViewedRun) -> Mapping[str, tuple[str, ...]]:
    """Return the values of each field among a run's episodes, which do not change while it is viewed."""
    return {name: tuple(sorted({one for score in run.scores for one in of(score)})) for name, of in _FIELDS.items()}


def read_query(run: ViewedRun, asked: Mapping[str, str]) -> SampleQuery:
    """Read an address's parameters; empty ones are ignored. NotFound: a value that the run does not have."""
    given = {name: value for name, value in asked.items() if value}
    order, after = given.pop("sort", "sample"), given.pop("after", None)
    there = choices(run)
    for name, value in given.items():
        if name not in there:
            raise NotFound(f"samples cannot be chosen by {name!r}, only by {', '.join(there)}")
        if value not in there[name]:
            raise NotFound(f"no episode of the run {run.name!r} has the {name} {value!r}")
    if order not in ORDERS:
        raise NotFound(f"samples cannot be sorted by {order!r}, only by {', '.join(_ORDERS)}")
    if after is not None:
        run.score(after)
    return SampleQuery(filters=given, order=order, after=after)


def listed(run: ViewedRun, query: SampleQuery, *, rows: int = ROWS) -> ListedSamples:
    """Return the page of a query; rows of equal rank are in the order of their keys."""
    falling = query.order.startswith("-")
    rank = _ORDERS[query.order.removeprefix("-")]

    def place(score: EpisodeScore) -> tuple[Any, str]:
        return rank(score), score.episode

    fitting = [
        score for score in run.scores if all(value in _FIELDS[name](score) for name, value in query.filters.items())
    ]
    ahead = sorted(fitting, key=place, reverse=falling)
    if query.after is not None:
        last = place(run.score(query.after))
        ahead = [score for score in ahead if (place(score) < last if falling else place(score) > last)]
    shown = ahead[:rows]
    return ListedSamples(rows=shown, fitting=len(fitting), after=episode_page(shown[-1]) if len(ahead) > rows else None)
