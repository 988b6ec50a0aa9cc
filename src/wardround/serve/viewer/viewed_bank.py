"""The bank of a run as the viewer holds it: its experiences and its graph as of the revision that the run read, whole
and in plain data, so that any thread may draw it. A stream's bank is shown as the stream left it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wardround.core import UserError
from wardround.memory import Bank, Edge, Experience, Feedback, RevisionEntry
from wardround.memory.effect import EffectPosterior
from wardround.runs import RunFolder
from wardround.runs.evolving_record import effects_of, read_record


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperiencePast:
    """Revisions, qualities by revision, feedback, and the effect by task of one experience."""

    revisions: tuple[RevisionEntry, ...]
    qualities: tuple[tuple[int, float | None], ...]
    feedback: tuple[Feedback, ...]
    effects: Mapping[str, EffectPosterior]


class ViewedBank:
    """Experiences by id, retired ones among them, their qualities and the edges that lead from and to each."""

    def __init__(self, path: Path, revision: int | None) -> None:
        with Bank.open(path, writable=False) as bank:
            self.path = path
            self.revision = bank.revision if revision is None else revision
            state = bank.at(revision=self.revision)
            self.experiences: Mapping[str, Experience] = {one.id: one for one in state.every_experience}
            self.live = frozenset(one.id for one in state.experiences)
            graph = bank.graph(revision=self.revision)
            self.qualities = {name: graph.quality(name) for name in self.experiences}
            self.edges = tuple(graph.every_edge())

    @classmethod
    def of_run(cls, folder: RunFolder) -> ViewedBank | None:
        """Open the bank of a run; None where it had none. UserError: its file is not there any more."""
        name = folder.settings.memory.bank
        if name is None:
            return None
        if not Path(name).is_file():
            raise UserError(f"the bank {name!r} is not there any more")
        facts = folder.manifest.get("bank") or {}
        return cls(Path(name), None if read_record(folder) is not None else facts.get("revision"))

    @cached_property
    def edges_of(self) -> Mapping[str, Sequence[Edge]]:
        """The edges that lead from an experience or to it, the heaviest first."""
        found: dict[str, list[Edge]] = {name: [] for name in self.experiences}
        for edge in sorted(self.edges, key=lambda edge: -edge.weight):
            for end in (edge.source, edge.target):
                found.setdefault(end, []).append(edge)
        return found

    def title(self, name: str) -> str | None:
        """What an experience is called; None where the bank has none of that id."""
        found = self.experiences.get(name)
        return None if found is None else found.title

    def past(self, name: str) -> ExperiencePast:
        """Read what the file says of an experience, up to the revision."""
        with Bank.open(self.path, writable=False) as bank:
            return ExperiencePast(
                revisions=tuple(one for one in bank.history(name) if one.number <= self.revision),
                qualities=tuple(one for one in bank.quality_history(name) if one[0] <= self.revision),
                feedback=tuple(one for one in bank.feedback(name) if one.number <= self.revision),
                effects=effects_of(bank.graph(revision=self.revision), name),
            )
