"""The questions with pictures that could be asked by some moments: what must be the same in another future."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from wardround.benchmarks.clinseek.other_futures import stays_over
from wardround.benchmarks.clinseek.timeline import Timeline
from wardround.benchmarks.clinseek_mm.definitions import PUBLISHED_COUNTS, mm_name
from wardround.benchmarks.clinseek_mm.films import image_role
from wardround.benchmarks.clinseek_mm.stand_in import StandIn
from wardround.core import UserError, content_hash, parse_time, to_microseconds
from wardround.records import Store


def possible_film_questions(
    store: Store, moments: Mapping[int, datetime]
) -> tuple[dict[tuple[str, int, str], bool], dict[str, str]]:
    """Return every question about films that a subject is asked by its moment, with whether what made it be asked was
    known by then; and the tasks that the store cannot ask, with the reasons."""
    tasks = {what: mm_name(what, shown=True) for what in PUBLISHED_COUNTS}
    try:
        maker = StandIn(role=image_role(store), reports=False)
    except UserError as error:
        return {}, dict.fromkeys(tasks.values(), str(error))
    settled: dict[tuple[str, int, str], bool] = {}
    for subject in sorted(moments.keys() & set(store.subjects.tolist())):
        now, over = to_microseconds(moments[subject]), stays_over(store.chart(subject, moments[subject]))
        for one in maker.examples(Timeline(store, subject, "known_at")):
            example = one.example
            if parse_time(example.cutoff) <= moments[subject]:
                told = content_hash([example.asked, list(example.images)])[:8]
                known = one.settled <= now and (one.stay in over or not one.told_late)
                settled[tasks[example.task], subject, f"{example.cutoff}-{told}"] = known
    return settled, {}
