"""The masking trials of a bank in its file: what was scored while an experience was shown, and while it was masked.

By experience, task and revision; nothing is overwritten. The quality that follows from them is computed where it is
asked for, so that what is withdrawn from a trial is out of every quality too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from wardround.memory.effect import (
    PRIOR_QUALITY,
    MaskedArm,
    MaskingTrial,
    cautious_quality,
    effect_of,
)

TrialName = tuple[str, str]
"""An experience and the task of the episodes."""

_SUMS = "shown, shown_total, shown_squares, masked, masked_total, masked_squares"
_LAST = f"SELECT {_SUMS} FROM trial WHERE experience = ? AND task = ? AND number <= ? ORDER BY number DESC LIMIT 1"
_OF = f"SELECT task, {_SUMS}, max(number) FROM trial WHERE experience = ? AND number <= ? GROUP BY task ORDER BY task"
_ALL = f"SELECT experience, task, {_SUMS}, max(number) FROM trial WHERE number <= ? GROUP BY 1, 2 ORDER BY 1, 2"
_HISTORY = f"SELECT number, task, {_SUMS} FROM trial WHERE experience = ? ORDER BY number"


def last_trial(connection: sqlite3.Connection, name: TrialName, revision: int) -> MaskingTrial:
    """The trial of an experience in one task, as of a revision; an empty one where there was none."""
    row = connection.execute(_LAST, (*name, revision)).fetchone()
    return MaskingTrial() if row is None else trial_of(row)


def trials_by_task(connection: sqlite3.Connection, experience: str, revision: int) -> dict[str, MaskingTrial]:
    """The trials of an experience, as of a revision."""
    rows = connection.execute(_OF, (experience, revision))
    found = {task: trial_of(sums) for task, *sums, _ in rows}
    return {task: trial for task, trial in found.items() if trial.episodes}


def all_trials(connection: sqlite3.Connection, revision: int) -> Iterator[tuple[str, str, MaskingTrial]]:
    """Every trial, as of a revision, by experience and task."""
    for experience, task, *sums, _ in connection.execute(_ALL, (revision,)):
        yield experience, task, trial_of(sums)


def trial_history(connection: sqlite3.Connection, experience: str) -> Iterator[tuple[int, str, MaskingTrial]]:
    """Every state of an experience's trials: revision, task, trial; oldest first."""
    for number, task, *sums in connection.execute(_HISTORY, (experience,)):
        yield number, task, trial_of(sums)


def write_trials(connection: sqlite3.Connection, number: int, trials: Mapping[TrialName, MaskingTrial]) -> None:
    """Write trials as of a revision."""
    rows = [(experience, task, number, *sums_of(trial)) for (experience, task), trial in trials.items()]
    connection.executemany("INSERT INTO trial VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def quality_of(trials: Mapping[str, MaskingTrial], task: str, *, prior: float = PRIOR_QUALITY) -> float:
    """Q for a task: by its own trial, else by all together, each counting as much as it has episodes."""
    if task in trials:
        return cautious_quality(effect_of(trials[task]), prior=prior)
    episodes = sum(trial.episodes for trial in trials.values())
    moved = sum(trial.episodes * (cautious_quality(effect_of(trial), prior=prior) - prior) for trial in trials.values())
    return prior + moved / episodes if episodes else prior


def trial_of(sums: Sequence[float]) -> MaskingTrial:
    """A trial of its six sums, in the order of the table."""
    shown, masked = sums[:3], sums[3:]
    return MaskingTrial(
        shown=MaskedArm(episodes=int(shown[0]), total=shown[1], squares=shown[2]),
        masked=MaskedArm(episodes=int(masked[0]), total=masked[1], squares=masked[2]),
    )


def sums_of(trial: MaskingTrial) -> tuple[float, ...]:
    """The six sums of a trial, in the order of the table."""
    return tuple(value for arm in (trial.shown, trial.masked) for value in (arm.episodes, arm.total, arm.squares))
