"""A review round when it is over: who marked what, how far reviewers agree with each other and with the scorer."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan

from wardround.runs.summary import contender
from wardround.scoring import EpisodeScore, Interval
from wardround.scoring.agreement import cohen_kappa, fleiss_kappa
from wardround.serve.viewer.review.marks import QUESTIONS, UNDECIDED, MarksFile, ReviewMark
from wardround.serve.viewer.viewed_run import ViewedRun

SCORER = "scorer"
_HEAD = ("episode", "sample", "task", "contender", "score", "scorer", "reviewer", "answer", "evidence", "comment", "at")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedEpisode:
    """An episode with the marks of its reviewers, by name."""

    score: EpisodeScore
    marks: Mapping[str, ReviewMark]

    @property
    def scorer(self) -> str:
        """What the scorer would have marked."""
        if self.score.right:
            return "right"
        return "partly" if self.score.value > 0 else "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """How far some agree on one question: ``kappa`` is None where nothing can be said, and ``missing`` says why."""

    question: str
    who: str
    measure: str
    items: int
    same: int
    kappa: Interval | None
    missing: str = ""


def marked_episodes(run: ViewedRun, file: MarksFile) -> list[MarkedEpisode]:
    """Return the episodes of a run that somebody marked, by key."""
    by_item: dict[str, dict[str, ReviewMark]] = {}
    for (item, reviewer), mark in sorted(file.marks().items()):
        by_item.setdefault(item, {})[reviewer] = mark
    named = [(score, by_item.get(file.item_of(run, score.episode))) for score in run.scores]
    return [MarkedEpisode(score=score, marks=marks) for score, marks in named if marks]


def agreement_rows(episodes: Sequence[MarkedEpisode], *, seed: int) -> list[AgreementRow]:
    """Return Cohen's kappa of every two reviewers, Fleiss' of all of three or more on what all of them marked, and
    Cohen's of every reviewer with the scorer; an answer that could not be told is not held against the scorer."""
    reviewers = sorted({name for one in episodes for name in one.marks})
    rows: list[AgreementRow] = []
    for question in QUESTIONS:
        for pair in combinations(reviewers, 2):
            rows.append(_row(question, pair, _said(episodes, question, pair), seed))
        if len(reviewers) > 2:
            rows.append(_row(question, reviewers, _said(episodes, question, reviewers), seed))
    for reviewer in reviewers:
        own = [one for one in episodes if reviewer in one.marks and one.marks[reviewer].answer != UNDECIDED]
        told = [(one.score.subject_id, (one.marks[reviewer].answer, one.scorer)) for one in own]
        rows.append(_row("answer", (reviewer, SCORER), told, seed))
    return rows


def _said(
    episodes: Sequence[MarkedEpisode], question: str, reviewers: Sequence[str]
) -> list[tuple[int, tuple[str, ...]]]:
    """The marks of some reviewers on what all of them marked, with whose record it is."""
    both = [one for one in episodes if all(name in one.marks for name in reviewers)]
    return [(one.score.subject_id, tuple(getattr(one.marks[name], question) for name in reviewers)) for one in both]


def _row(
    question: str, reviewers: Sequence[str], told: Sequence[tuple[int, tuple[str, ...]]], seed: int
) -> AgreementRow:
    subjects, marks = [subject for subject, _ in told], [said for _, said in told]
    kappa, missing = None, "" if told else "no episode that all of them marked"
    if told:
        pairs = [(said[0], said[1]) for said in marks]
        many = len(reviewers) > 2
        kappa = fleiss_kappa(marks, subjects, seed=seed) if many else cohen_kappa(pairs, subjects, seed=seed)
        if isnan(kappa.estimate):
            kappa, missing = None, "not defined: all marks are alike"
    return AgreementRow(
        question=question,
        who=" and ".join(reviewers),
        measure="Fleiss" if len(reviewers) > 2 else "Cohen",
        items=len(told),
        same=sum(len(set(said)) == 1 for said in marks),
        kappa=kappa,
        missing=missing,
    )


def marks_csv(episodes: Sequence[MarkedEpisode]) -> str:
    """Return every mark as a row of CSV. A text that a spreadsheet would run as a formula begins with an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(_HEAD)
    for one in episodes:
        score = one.score
        about = (score.episode, score.sample, score.task, contender(score), f"{score.value:.6g}", one.scorer)
        for mark in one.marks.values():
            said = (mark.reviewer, mark.answer, mark.evidence, mark.comment, mark.at)
            writer.writerow([_plain(cell) for cell in (*about, *said)])
    return out.getvalue()


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
