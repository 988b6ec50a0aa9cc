"""A run in Python, as a notebook uses it: start or continue it, its scores, episodes, comparison and report.

    import wardround as wd
    run = wd.run("bench", "store", out="run", agents=("react",), limit=20)
    run.scores()

The command line calls the same functions.
"""

from __future__ import annotations

import importlib.util
import sys
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from markupsafe import escape

from wardround.core import Reporter, TerminalProgress, UserError
from wardround.core.settings import merged
from wardround.core.table import as_html, table_of
from wardround.log import LogReader, Trajectory
from wardround.records import Store
from wardround.reports.comparing import Comparison, Pair, compare_all, must_match
from wardround.reports.report import EpisodePages, Pages, few_pages, report_run
from wardround.reports.run_tables import COMPARISON_FRAME, SCORE_FRAME, as_arrow
from wardround.reports.summary import by_contender
from wardround.runs.banks import gate_notes
from wardround.runs.execute import execute, open_or_start
from wardround.runs.experiment import every_setting, read_experiment
from wardround.runs.folder import RunFolder
from wardround.runs.forecast import Forecast, forecast_run
from wardround.runs.notes import notes_after, notes_on
from wardround.runs.queue import Counts
from wardround.runs.results import finished_keys, score_run
from wardround.runs.settings import RunSettings, short_settings
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tasks.scoring import EpisodeScore, SummaryRow, summarise

_FRAME_HEIGHT = 640
"""Height of a page inside a notebook, in pixels."""


class OpenedRun:
    """A run of agents on a benchmark, finished or not. ``folder``: its files, settings and manifest."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    @classmethod
    def open(cls, path: Path | str) -> OpenedRun:
        """Open the run in a folder. UserError: there is none, or another version of wardround made it."""
        return cls(RunFolder.open(path))

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.folder.path

    @property
    def settings(self) -> RunSettings:
        """The settings that it was started with."""
        return self.folder.settings

    @property
    def done(self) -> int:
        """The number of finished episodes, from the logs; also for a run that cannot be written."""
        return len(finished_keys(self.folder))

    @property
    def total(self) -> int:
        """The number of episodes."""
        return int(self.folder.manifest["episodes"])

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the scores: closed gates, small budgets, cut evidence, a limit of cost."""
        limit, done = self.settings.run.max_cost, self.done
        return (
            *gate_notes(self.folder),
            *notes_on(self.folder),
            *notes_after(self.folder, Counts(open=self.total - done, leased=0, done=done), max_cost=limit),
        )

    def resume(
        self,
        *,
        workers: int = 1,
        concurrency: int = 16,
        retry_errors: bool = False,
        max_cost: float | None = None,
        report: Reporter | None = None,
    ) -> OpenedRun:
        """Run the episodes that are not finished and return this run. Also works inside a running event loop.

        ``workers`` processes run ``concurrency`` episodes each. ``retry_errors``: repeat episodes that ended in an
        error. ``max_cost``: a new limit in US dollars.
        """
        progress = report or TerminalProgress()
        try:
            execute(
                self.folder,
                workers=workers,
                concurrency=concurrency,
                retry_errors=retry_errors,
                max_cost=max_cost,
                report=progress,
            )
        finally:
            if isinstance(progress, TerminalProgress):
                progress.close()
        return self

    def scored(self) -> list[EpisodeScore]:
        """Return the score of every finished episode, sorted by agent, model, task, sample and epoch."""
        return score_run(self.folder)

    def summary(self) -> tuple[SummaryRow, ...]:
        """Return a row per agent, model, task and stratum, with intervals over patients."""
        return summarise(self.scored(), seed=self.settings.run.seed)

    def scores(self) -> Any:
        """Return the scores as a data frame: a row per agent, model, task and stratum ("all": over all of them).

        ``value`` is the mean of ``metric`` over ``n`` samples of ``patients`` patients, ``low`` to ``high`` its 95 %
        interval over patients. Where ``interval`` says why there is none, both are missing. A pandas data frame; a
        pyarrow table where pandas is not installed.
        """
        return as_frame(as_arrow(self.summary(), SCORE_FRAME))

    def compare(self, *others: OpenedRun | Path | str, other_clocks: bool = False, seed: int = 0) -> Any:
        """Compare other runs with this one, the baseline; see :func:`compare`."""
        return compare(self, *others, other_clocks=other_clocks, seed=seed)

    @property
    def episodes(self) -> Episodes:
        """The finished episodes, in the order of :meth:`scored`."""
        return Episodes(self.folder, self.scored())

    def report(self, *, baseline: str | None = None, pages: Pages = few_pages, out: Path | str | None = None) -> Path:
        """Write the HTML report and return its first page; UserError: the folder cannot be written, so name ``out``."""
        _, page = report_run(self.folder, baseline=baseline, pages=pages, out=None if out is None else Path(out))
        if page is None:
            raise UserError(f"{self.path} cannot be written: name another folder with out=")
        return page

    def show(self) -> RunPage:
        """Write the report and show it: in a notebook as a frame, elsewhere in the browser."""
        page = RunPage(html=(path := self.report()).read_text(encoding="utf-8"), path=path)
        if not _in_notebook():
            webbrowser.open(path.resolve().as_uri())
        return page

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}: {self.done:,} of {self.total:,} episodes done)"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        rows = self.summary()
        table = as_html(table_of(rows, SCORE_FRAME)) if rows else ""
        return f"<p>{escape(repr(self))}</p>{table}" + (f"<ul>{notes}</ul>" if notes else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A page of a report. A notebook shows it in a frame, without scripts; its links do not work there."""

    html: str = field(repr=False)
    path: Path | None = None

    def _repr_html_(self) -> str:
        source = escape(self.html)
        return f'<iframe sandbox srcdoc="{source}" width="100%" height="{_FRAME_HEIGHT}" style="border:0"></iframe>'


@dataclass(frozen=True, kw_only=True)
class OpenedEpisode:
    """One finished episode: ``score`` with agent, sample and scores, ``trajectory`` with every recorded turn."""

    score: EpisodeScore
    sample: Sample
    trajectory: Trajectory
    _pages: EpisodePages = field(repr=False)

    @property
    def answer(self) -> tuple[str, ...] | None:
        """The agent's answer; None without one."""
        return self.score.answer

    @property
    def target(self) -> tuple[str, ...]:
        """The right answer."""
        return self.sample.target

    @property
    def prompt(self) -> str:
        """The first prompt: the messages of the first turn."""
        turns = self.trajectory.turns
        return "\n\n".join(f"[{one.role}]\n{one.content}" for one in turns[0].prompt) if turns else ""

    @property
    def transcript(self) -> str:
        """The replies, tool calls and results, in order, as text."""
        lines = []
        for turn in self.trajectory.turns:
            lines.append(f"[{turn.ordinal + 1}] {turn.purpose}")
            lines += [turn.reply.content] if turn.reply.content else []
            lines += [f"call {call.name} {call.arguments}" for call in turn.reply.tool_calls]
            lines += [f"result of {result.call.name}:\n{result.result_text}" for result in turn.results]
        return "\n".join(lines)

    def page(self) -> RunPage:
        """Return the report's page of this episode."""
        return RunPage(html=self._pages.html(self.score, self.trajectory))

    def __repr__(self) -> str:
        one = self.score
        return f"Episode({one.episode}: {one.value:.3f}, {one.finish}, {one.use.turns} turns)"

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()


class Episodes(Sequence[OpenedEpisode]):
    """The finished episodes of a run; each is read from the log when it is accessed."""

    def __init__(self, folder: RunFolder, scored: Sequence[EpisodeScore]) -> None:
        self._folder, self._scored = folder, scored

    @cached_property
    def _pages(self) -> EpisodePages:
        return EpisodePages(self._folder, self._scored)

    def __len__(self) -> int:
        return len(self._scored)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Episodes(self._folder, self._scored[place])
        return self._read([self._scored[place]])[0]

    def __iter__(self) -> Iterator[OpenedEpisode]:
        return iter(self._read(self._scored))

    def where(self, **named: Any) -> Episodes:
        """Return the episodes whose score has these values: ``where(agent="react", task="diagnoses")``."""
        found = [one for one in self._scored if all(getattr(one, name) == value for name, value in named.items())]
        return Episodes(self._folder, found)

    def _read(self, scored: Sequence[EpisodeScore]) -> list[OpenedEpisode]:
        with LogReader(self._folder.logs) as reader:
            return [
                OpenedEpisode(
                    score=one,
                    sample=self._pages.samples[one.sample],
                    trajectory=reader.trajectory(one.episode),
                    _pages=self._pages,
                )
                for one in scored
            ]

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {str(self._folder.path)!r})"


def run(
    benchmark: Benchmark | Path | str | None = None,
    store: Store | Path | str | None = None,
    *,
    out: Path | str,
    experiment: Path | str | None = None,
    workers: int = 1,
    concurrency: int = 16,
    retry_errors: bool = False,
    report: Reporter | None = None,
    **settings: Any,
) -> OpenedRun:
    """Run agents on a benchmark and return the run; the same call again continues it.

    ``benchmark`` and ``store``: folders, or the opened objects; no store for text cases. ``out``: the run's folder.
    ``experiment``: a TOML file of settings. ``settings``: any setting by the last part of its name (:func:`settings`
    lists them), overriding the file: ``agents=("react", "retrosum")``, ``models=("offline",)``,
    ``tasks=("diagnoses",)``, ``limit=20``. Also works inside a running event loop, as in Jupyter. UserError: an unknown
    setting, a store the benchmark was not built from, a folder with a run of other settings.
    """
    asked = asked_of(benchmark, store, experiment, settings)
    made = OpenedRun(open_or_start(Path(out), asked))
    limit = asked.get("run", {}).get("max_cost")
    return made.resume(
        workers=workers, concurrency=concurrency, retry_errors=retry_errors, max_cost=limit, report=report
    )


def forecast(
    benchmark: Benchmark | Path | str | None = None,
    store: Store | Path | str | None = None,
    *,
    experiment: Path | str | None = None,
    like: OpenedRun | Path | str | None = None,
    **settings: Any,
) -> Any:
    """Return the expected cost of a run as a data frame: calls, tokens, US dollars and hours by agent and model.

    Arguments as for :func:`run`. No model is called and nothing is written. ``like``: an earlier run of the same
    agents, whose means are used; without one each figure is a range (``_min``, ``_max``) from the budgets. Missing: not
    known.
    """
    earlier = like.folder if isinstance(like, OpenedRun) else like
    found = forecast_run(asked_of(benchmark, store, experiment, settings), like=earlier)
    return as_frame(pa.Table.from_pylist([_forecast_row(one) for one in found]))


def _forecast_row(one: Forecast) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(one, name) for name in ("agent", "model", "episodes", "basis")}
    for name in ("calls", "input_tokens", "output_tokens", "cost", "hours"):
        bounds = getattr(one, name)
        row[f"{name}_min"] = None if bounds is None else float(bounds.least)
        row[f"{name}_max"] = None if bounds is None else float(bounds.most)
    return row


def asked_of(
    benchmark: Benchmark | Path | str | None,
    store: Store | Path | str | None,
    experiment: Path | str | None,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings of a run as nested tables: those of the file, overridden by named ones. UserError: no
    benchmark, or an unknown setting."""
    asked = {} if experiment is None else read_experiment(Path(experiment))
    given = {"benchmark": benchmark, "store": store}
    places = {name: _place(one, name) for name, one in given.items() if one is not None}
    asked = merged(asked, short_settings({**settings, **places}))
    if not asked.get("run", {}).get("benchmark"):
        raise UserError("name a benchmark: run(benchmark, store, out=...), or an experiment file that names one")
    return asked


def _place(named: Benchmark | Store | Path | str, what: str) -> str:
    """Return the folder of an opened object, or of a path."""
    place = named.folder if isinstance(named, Benchmark) else named.path if isinstance(named, Store) else named
    if place is None:
        raise UserError(f"this {what} has no folder: save it first")
    return str(place)


def compare(
    baseline: OpenedRun | Path | str, *others: OpenedRun | Path | str, other_clocks: bool = False, seed: int = 0
) -> Any:
    """Compare runs of the same benchmark with a baseline run, on samples finished in both; return a data frame.

    A row per agent, task and stratum: the ``difference`` to the baseline with its 95 % interval over patients, ``p`` of
    a paired permutation test, ``p_adjusted`` for all comparisons at once, and the smallest difference that this many
    patients could show (``detectable``). ``other_clocks``: the other runs have the same samples under another clock
    policy. UserError: the runs answer different questions, or have no finished sample in common.
    """
    runs = [other if isinstance(other, OpenedRun) else OpenedRun.open(other) for other in (baseline, *others)]
    if len(runs) < 2:
        raise UserError("name at least two runs to compare")
    return as_frame(
        as_arrow(compare_runs([one.folder for one in runs], other_clocks=other_clocks, seed=seed), COMPARISON_FRAME)
    )


def compare_runs(
    folders: Sequence[RunFolder],
    *,
    names: Sequence[str] = (),
    other_clocks: bool = False,
    seed: int = 0,
    report: Reporter | None = None,
) -> list[Comparison]:
    """Return the comparisons of every contender of later runs with every contender of the first.

    ``names``: names of the runs, by default their folders. With ``other_clocks`` each contender is compared only with
    itself.
    """
    names = names or [str(folder.path) for folder in folders]
    for folder in folders[1:]:
        must_match(folders[0], folder, other_clocks=other_clocks)
    groups = [by_contender(score_run(folder, report=report or TerminalProgress())) for folder in folders]
    pairs = [
        Pair(names=(f"{one} ({names[0]})", f"{other} ({name})"), first=first, second=second)
        for one, first in groups[0].items()
        for name, group in zip(names[1:], groups[1:], strict=True)
        for other, second in group.items()
        if one == other or not other_clocks
    ]
    found = compare_all(pairs, seed=seed)
    if not found:
        raise UserError("the runs have no finished sample in common, so there is nothing to compare")
    return found


def settings() -> Any:
    """Return every setting of a run as a data frame: name, default, unit, what it does, and its source."""
    rows = [
        {
            "name": one.name,
            "default": str(one.default),
            "unit": one.setting.unit,
            "what": one.setting.help,
            "source": one.setting.source,
        }
        for one in every_setting()
    ]
    return as_frame(pa.Table.from_pylist(rows))


def as_frame(table: pa.Table) -> Any:
    """Return a pandas data frame; the table itself if pandas is not installed."""
    return table.to_pandas() if importlib.util.find_spec("pandas") else table


def _in_notebook() -> bool:
    """Return whether a Jupyter kernel runs this, which displays the result of a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
