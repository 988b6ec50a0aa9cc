"""What was counted of training stays, kept stay by stay as a model's calls are: an induction that was killed goes on.

A count is kept under a name that says what it hangs on, so that another store, benchmark or base counts anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wardround.core import private_folder
from wardround.log import EpisodeLog, LogReader
from wardround.runs.folder import new_log_file
from wardround.runs.induction.stay_steps import Action
from wardround.runs.induction.step_table import RUNNING, TrainingStep

Counted = Mapping[str, Any]
Count = Callable[[], Counted]
Keep = Callable[[str, Count], Counted]
"""Gives what was counted under a name: what is kept of it, else what is counted now, which is kept from then on."""


def anew(name: str, count: Count) -> Counted:
    """Count, and keep nothing."""
    return count()


@contextmanager
def kept_in(folder: Path | None) -> Iterator[Keep]:
    """Keep counts in logs of a folder, which is made for its owner; without one nothing is kept."""
    if folder is None:
        yield anew
        return
    private_folder(folder)
    with LogReader(folder, may_be_empty=True) as earlier, EpisodeLog(new_log_file(folder)) as log:
        finished = earlier.finished()

        def keep(name: str, count: Count) -> Counted:
            if name in finished:
                return earlier.trajectory(name).notes[0].detail
            counted = count()
            recorder = log.begin(name, {})
            recorder.note("counted", counted)
            recorder.finish({})
            return counted

        yield keep


def packed(steps: Sequence[TrainingStep]) -> Counted:
    """Return the steps of one stay as JSON holds them: names once, then by their places."""
    triggers = sorted({trigger for step in steps for trigger in step.triggers})
    actions = sorted({action for step in steps for action in (*step.done, *step.decided, *step.foretold)})
    trigger_at = {trigger: place for place, trigger in enumerate(triggers)}
    action_at = {action: place for place, action in enumerate(actions)}
    rows = [
        [
            step.hour,
            sorted(trigger_at[trigger] for trigger in step.triggers),
            [[action_at[action], None if hours == RUNNING else hours] for action, hours in step.done.items()],
            [action_at[action] for action in step.decided],
            [action_at[action] for action in step.foretold],
        ]
        for step in steps
    ]
    return {"triggers": triggers, "actions": [list(action) for action in actions], "steps": rows}


def unpacked(counted: Counted, stay: int) -> Iterator[TrainingStep]:
    """Yield the steps of one stay, which has this number now."""
    triggers = counted["triggers"]
    actions: list[Action] = [(kind, name) for kind, name in counted["actions"]]
    for hour, held, done, decided, foretold in counted["steps"]:
        yield TrainingStep(
            stay=stay,
            hour=hour,
            triggers=frozenset(triggers[place] for place in held),
            done={actions[place]: RUNNING if hours is None else hours for place, hours in done},
            decided=tuple(actions[place] for place in decided),
            foretold=tuple(actions[place] for place in foretold),
        )
