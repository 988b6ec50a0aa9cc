"""Tables that are kept for admitted people only: where the admission is asked about, a row itself would tell it.

Which these are is declared by the source (``roles.kept_for_admitted``) and checked: a table that holds a row of an
emergency visit after which somebody went home is kept for everybody, and is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wardround.benchmarks.clinseek.risk import led_to
from wardround.benchmarks.clinseek.timeline import Timelines
from wardround.benchmarks.columns import NO_TIME
from wardround.records import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFor:
    """``admitted``: tables that no one who went home has a row of; ``everybody``: those declared so wrongly, with the
    rows of people who went home; ``visits``: of how many such visits."""

    admitted: tuple[str, ...]
    everybody: dict[str, int]
    visits: int


def kept_for(store: Store, timelines: Timelines, subjects: Iterable[int]) -> KeptFor:
    """Look at the emergency visits of some subjects that led to no stay in hospital."""
    declared = [name for name in store.spec.roles.kept_for_admitted if name in store.table_names]
    rows: Counter[str] = Counter()
    visits = 0
    for subject in subjects if declared else ():
        timeline = timelines.of(subject)
        for visit in timeline.spans("emergency"):
            if visit.end == NO_TIME or visit.encounter is not None or led_to(timeline, visit) is not None:
                continue
            visits += 1
            for name in declared:
                known = timeline.known(name)
                rows[name] += int(np.count_nonzero((known >= visit.start) & (known <= visit.end)))
    return KeptFor(
        admitted=tuple(name for name in declared if not rows[name]),
        everybody={name: rows[name] for name in declared if rows[name]},
        visits=visits,
    )
