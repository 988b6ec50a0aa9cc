"""Which episodes a page of samples lists: filters, order and where it goes on, read from an address.

Rows are chosen among scores in memory: nothing of an address reaches a database. A page goes on after the last row of
the one before (keyset), so it neither skips nor repeats rows, whatever its number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wardround.runs.pages import episode_page
from wardround.runs.summary import contender
from wardround.scoring import EpisodeScore
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun

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
    """``filters``: the value that each named field must have; ``order``: one of ``ORDERS``, a minus for falling;
    ``after``: the page of the episode after which the list goes on."""

    filters: Mapping[str, str]
    order: str = "sample"
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSamples:
    """One page of the list: its rows, of how many that fit, and after which episode the next page begins, if any."""

    rows: Sequence[EpisodeScore]
    fitting: int
    after: str | None


@lru_cache(maxsize=8)
def choices(run: ViewedRun) -> Mapping[str, tuple[str, ...]]:
    """Return the values that each field has among a run's episodes, which do not change while it is viewed."""
    return {name: tuple(sorted({one for score in run.scores for one in of(score)})) for name, of in _FIELDS.items()}


def read_query(run: ViewedRun, asked: Mapping[str, str]) -> SampleQuery:
    """Read an address's parameters; empty ones ask for nothing. NotThere: one names what the run does not have."""
    given = {name: value for name, value in asked.items() if value}
    order, after = given.pop("sort", "sample"), given.pop("after", None)
    there = choices(run)
    for name, value in given.items():
        if name not in there:
            raise NotThere(f"samples cannot be chosen by {name!r}, only by {', '.join(there)}")
        if value not in there[name]:
            raise NotThere(f"no episode of the run {run.name!r} has the {name} {value!r}")
    if order not in ORDERS:
        raise NotThere(f"samples cannot be sorted by {order!r}, only by {', '.join(_ORDERS)}")
    if after is not None:
        run.score(after)
    return SampleQuery(filters=given, order=order, after=after)


def listed(run: ViewedRun, query: SampleQuery, *, rows: int = ROWS) -> ListedSamples:
    """Return the page that a query asks for; rows of equal rank stand in the order of their keys."""
    falling = query.order.startswith("-")
    rank = _ORDERS[query.order.removeprefix("-")]

    def place(score: EpisodeScore) -> tuple[Any, str]:
        return rank(score), score.episode

    fitting = [score for score in run.scores if _fits(score, query.filters)]
    ahead = sorted(fitting, key=place, reverse=falling)
    if query.after is not None:
        last = place(run.score(query.after))
        ahead = [score for score in ahead if (place(score) < last if falling else place(score) > last)]
    shown = ahead[:rows]
    return ListedSamples(rows=shown, fitting=len(fitting), after=episode_page(shown[-1]) if len(ahead) > rows else None)


def _fits(score: EpisodeScore, filters: Mapping[str, str]) -> bool:
    return all(value in _FIELDS[name](score) for name, value in filters.items())
