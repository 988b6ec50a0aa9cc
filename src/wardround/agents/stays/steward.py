"""The Steward, in code: the state after every bundle, exactly, and the raw bundles that prompts still show."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from wardround.bundles import Bundle, PatientState, fold


@dataclass(slots=True, kw_only=True)
class Steward:
    """Keeps a subject's state. ``keeps_all``: without it (the ablation) there is no memory beyond the window: the state
    is that of the bundles of the last ``window_hours`` alone."""

    keeps_all: bool = True
    window_hours: float = 6.0
    state: PatientState | None = None
    past: list[Bundle] = field(default_factory=list)

    def take_in(self, bundle: Bundle) -> None:
        """Fold a bundle into the state."""
        if self.keeps_all:
            before = PatientState(subject_id=bundle.subject_id) if self.state is None else self.state
            self.state = fold(before, bundle, self.past)
        self.past.append(bundle)

    def state_at(self, bundle: Bundle) -> PatientState:
        """Return the state after a bundle that was taken in."""
        if self.keeps_all and self.state is not None:
            return self.state
        oldest = bundle.hour - timedelta(hours=self.window_hours)
        state = PatientState(subject_id=bundle.subject_id)
        recent = [one for one in self.past if one.hour >= oldest]
        for place, one in enumerate(recent):
            state = fold(state, one, recent[:place])
        return state
