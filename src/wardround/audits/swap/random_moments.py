"""Moments of nobody's choosing to swap at: a benchmark asks at few of the hours at which something may leak."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from wardround.core import from_microseconds
from wardround.records.rules import ALWAYS_TIME, NO_TIME
from wardround.records.shards import AVAILABLE, EVENT, NEVER_TIME
from wardround.records.store import Store

_SPANS = ("emergency", "stay", "admission")


def random_moments(store: Store, count: int, seed: int = 0) -> list[tuple[int, datetime]]:
    """Draw subjects and moments: a quarter within an hour of any row, the others inside a stay of each kind that the
    source has, an emergency visit as likely as a stay in hospital. Subjects take turns: a copy of the raw files has one
    moment for each, so few copies serve many moments."""
    dice, subjects = Random(seed), store.subjects.tolist()
    kinds = [kind for kind in _SPANS if (role := getattr(store.spec.roles, kind)) and role.table in store.table_names]
    drawn: dict[tuple[int, datetime], None] = {}
    waiting: list[int] = []
    for turn in range(20 * count):
        if len(drawn) == count:
            break
        if not waiting:
            waiting = dice.sample(subjects, len(subjects))
        subject = waiting.pop()
        kind = ["row", *kinds][turn % (1 + len(kinds))]
        found = _of_rows(store, subject, dice) if kind == "row" else _of_span(store, subject, kind, dice)
        if found is not None:
            drawn[subject, found] = None
    return sorted(drawn)


def _of_rows(store: Store, subject: int, dice: Random) -> datetime | None:
    tables = [name for name in store.table_names if not store.spec.tables[name].is_static]
    batch = store.rows(subject, dice.choice(tables))
    if not batch.num_rows:
        return None
    found = _placed(batch.column(EVENT)[dice.randrange(batch.num_rows)].as_py())
    return None if found is None else found + timedelta(minutes=dice.randrange(60))


def _of_span(store: Store, subject: int, kind: str, dice: Random) -> datetime | None:
    """A moment between the beginning of a stay and its end, or two days after it where none is on record."""
    role = getattr(store.spec.roles, kind)
    batch = store.rows(subject, role.table)
    if not batch.num_rows:
        return None
    row = batch.slice(dice.randrange(batch.num_rows), 1).to_pylist()[0]
    begins = [_placed(row.get(name)) for name in (role.start, EVENT, AVAILABLE) if name]
    start = next((time for time in begins if time is not None), None)
    if start is None:
        return None
    ends = [_placed(row.get(name.partition("|")[0])) for name in role.ends]
    end = max((time for time in ends if time is not None), default=start + timedelta(days=2))
    minutes = int((end - start).total_seconds() // 60)
    return start + timedelta(minutes=dice.randrange(max(1, minutes)))


def _placed(time: object) -> datetime | None:
    """A cell as a time; None where it is none, or stands for always or never."""
    if isinstance(time, int):
        time = None if time in (ALWAYS_TIME, NO_TIME) or time >= NEVER_TIME else from_microseconds(time)
    return time if isinstance(time, datetime) and 1902 < time.year < 2500 else None
