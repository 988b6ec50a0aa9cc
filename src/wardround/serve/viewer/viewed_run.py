"""A run as the viewer holds it: scored when it is opened; its summary, benchmark and store when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from wardround.benchmarks import Benchmark, Sample
from wardround.codes import LabelSet
from wardround.core import UserError
from wardround.log import LogReader, Trajectory
from wardround.records import Store
from wardround.runs import RunFolder, RunSummary, open_benchmark, open_store, score_run, summarise_run
from wardround.runs.pages import episode_page
from wardround.scoring import EpisodeScore


class NotThere(UserError):
    """What an address names does not exist."""


class ViewedRun:
    """The finished episodes of one run, by the names of their pages."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder.open(path)
        self.scores = tuple(score_run(self.folder))
        self.pages = {episode_page(score): score for score in self.scores}

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.folder.path.resolve().name

    @cached_property
    def summary(self) -> RunSummary:
        """Its figures, with intervals and paired tests."""
        settings = self.folder.settings
        return summarise_run(self.scores, seed=settings.run.seed, baseline=settings.scoring.baseline)

    @cached_property
    def benchmark(self) -> Benchmark:
        """What it was played on. UserError: it is another one by now."""
        return open_benchmark(self.folder)

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

    def trajectory(self, score: EpisodeScore) -> Trajectory:
        """Read what an episode did."""
        with LogReader(self.folder.logs) as reader:
            return reader.trajectory(score.episode)
