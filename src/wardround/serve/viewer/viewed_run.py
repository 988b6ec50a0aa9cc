"""A run as the viewer holds it: scored when it is opened; its summary, benchmark and store when first asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path

from wardround.benchmarks import Benchmark, Sample
from wardround.codes import LabelSet
from wardround.core import UserError, content_hash
from wardround.log import LogReader, Trajectory
from wardround.records import Store
from wardround.runs import RunFolder, RunSettings, RunSummary, open_benchmark, open_store, score_run, summarise_run
from wardround.runs.pages import episode_page
from wardround.scoring import EpisodeScore
from wardround.serve.viewer.experiences import ServedExperience, served_by
from wardround.serve.viewer.paging import TranscriptPage, paged
from wardround.serve.viewer.transcript import transcript
from wardround.serve.viewer.viewed_bank import ViewedBank

_HELD = 4
"""Trajectories that are kept: the pages of one episode are asked for after each other."""


class NotThere(UserError):
    """What an address names does not exist."""


def sample_page(sample: str) -> str:
    """File name of a sample's page, on which its episodes stand side by side."""
    return f"{content_hash(sample)[:16]}.html"


class ViewedRun:
    """The finished episodes of one run, by the names of their pages.

    ``trajectory`` reads what an episode did, ``turns`` cuts it into pages; both by its key.
    """

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.open(path)
        self.scores = tuple(score_run(self.folder))
        self.pages = {episode_page(score): score for score in self.scores}
        self.trajectory = lru_cache(maxsize=_HELD)(self._read)
        self.turns = lru_cache(maxsize=_HELD)(self._paged)

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.folder.path.resolve().name

    @cached_property
    def settings(self) -> RunSettings:
        """What it was run with, read once."""
        return self.folder.settings

    @cached_property
    def summary(self) -> RunSummary:
        """Its figures, with intervals and paired tests."""
        held = self.settings
        return summarise_run(self.scores, seed=held.run.seed, baseline=held.scoring.baseline, sizes=held.model_sizes())

    @cached_property
    def benchmark(self) -> Benchmark:
        """What it was played on. UserError: it is another one by now."""
        return open_benchmark(self.folder)

    @cached_property
    def bank(self) -> ViewedBank | None:
        """The bank that it read, None where it had none. UserError: it is not there any more."""
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
        """The records it was played on. UserError: they are others by now."""
        return open_store(self.folder)

    @cached_property
    def samples(self) -> Mapping[str, Sample]:
        """The benchmark's samples by id."""
        return {sample.id: sample for sample in self.benchmark.all_samples}

    @cached_property
    def labels(self) -> Mapping[str, LabelSet | None]:
        """The labels that answers to each task may have."""
        return {task.name: self.benchmark.labels(task) for task in self.benchmark.tasks}

    def score(self, page: str) -> EpisodeScore:
        """Return the episode of a page. NotThere: there is none."""
        if page not in self.pages:
            raise NotThere(f"no finished episode {page!r} in the run {self.name!r}")
        return self.pages[page]

    def _read(self, episode: str) -> Trajectory:
        with LogReader(self.folder.logs) as reader:
            return reader.trajectory(episode)

    def _paged(self, episode: str) -> tuple[TranscriptPage, ...]:
        return paged(transcript(self.trajectory(episode)))
