"""Filling a peer's memory out of a training run: the same cases, attempts and model that construction draws from.

Cases are drawn from at once and settled one after the other, each note once: what a killed building has done, stands in
the bank under a mark, and its recorded calls are replayed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from wardround.core import FormatError, Progress, ProviderError, Reporter, run_to_end, silent
from wardround.learning.cases import check_teaches
from wardround.learning.constructing import (
    Constructing,
    Construction,
    ConstructionSettings,
    draw_concurrently,
    open_constructing,
)
from wardround.log import EpisodeEntry
from wardround.memory import Bank, Experience
from wardround.memory.construction import Case
from wardround.memory.peer import PEERS, USED, NoteChanges, Peer, PeerAsking, PeerMemory
from wardround.runs.folder import RunFolder
from wardround.runs.settings import EpisodeKey

T = TypeVar("T")


def build_peer(
    folder: RunFolder,
    bank: Bank,
    peer: str,
    settings: ConstructionSettings,
    *,
    concurrency: int = 8,
    report: Reporter = silent,
) -> Construction:
    """Fill a bank with what a peer stores of a training run. Raises UserError for a run on another split."""
    check_teaches(folder)
    return run_to_end(_build(folder, bank, PEERS.get(peer), settings, concurrency, report))


async def _build(
    folder: RunFolder, bank: Bank, peer: Peer, settings: ConstructionSettings, concurrency: int, report: Reporter
) -> Construction:
    async with open_constructing(folder, bank, settings, concurrency) as opened:
        peer_settings = folder.settings.memory.peers
        memory = PeerMemory(
            peer=peer.name, bank=bank, encoder=opened.encoder, settings=peer_settings, keyed_by=peer.keyed_by
        )
        groups, opened.result.unfinished = opened.cases.groups()
        await _PeerBuilding(opened=opened, peer=peer, memory=memory).process(groups, concurrency, report)
        opened.result.added = memory.counts["added"]
        opened.result.notes = memory.counts
        return opened.result


@dataclass(slots=True, kw_only=True)
class _PeerBuilding:
    """The open resources of one build, and the peer's own memory."""

    opened: Constructing
    peer: Peer
    memory: PeerMemory
    _undrawn: set[str] = field(default_factory=set)
    """The marks of cases that could not be drawn from: the next building tries again."""

    async def process(self, groups: Sequence[Sequence[EpisodeEntry]], concurrency: int, report: Reporter) -> None:
        """Draw from all cases, process every note, close."""
        drawn = await draw_concurrently(groups, self._draw, concurrency=concurrency, report=report)
        for done, (group, notes) in enumerate(zip(groups, drawn, strict=True), start=1):
            await self._take(group, notes)
            report(Progress(label="settling", done=done, total=len(groups), unit="samples"))
        models = sorted({EpisodeKey.parse(group[0].key).model for group in groups})
        if models:
            name = f"peer|{self.peer.name}|close|{self.memory.bank.revision}"
            changes = await self._asked(name, models[0], lambda asking: self.peer.close(self.memory, asking))
            self.memory.apply(changes or NoteChanges())

    async def _draw(self, group: Sequence[EpisodeEntry]) -> Sequence[Experience]:
        """Return the notes of a case; empty where the bank has the case already."""
        if self.memory.bank.learnt_at(self._mark(group)) is not None:
            return ()
        case, result = self.opened.cases.case(group), self.opened.result
        result.cases += 1
        result.attempts += len(case.attempts)
        result.successes += len(case.successes)
        self._keep_uses(case)
        name = f"peer|draw|{self._mark(group)}"
        model = EpisodeKey.parse(group[0].key).model
        found = await self._asked(name, model, lambda asking: self.peer.draw(case, asking, self.memory.settings))
        if found is None:
            self._undrawn.add(self._mark(group))
            return ()
        result.drawn["note"] += len(found)
        result.naming_answers += sum(bool(one.facts["names_answer"]) for one in found)
        return found

    async def _take(self, group: Sequence[EpisodeEntry], notes: Sequence[Experience]) -> None:
        """Settle a case's notes in order, each once, then mark the case; one that an endpoint failed waits."""
        key, mark = EpisodeKey.parse(group[0].key), self._mark(group)
        for place, note in enumerate(notes):
            own = f"{mark}|{place}"
            if self.memory.bank.learnt_at(own) is None:
                changes = await self._settled(f"peer|settle|{own}", key.model, note)
                if changes is None:
                    return
                self.memory.apply(changes, mark=own, sample=key.sample)
        if mark not in self._undrawn:
            self.memory.apply(NoteChanges(), mark=mark)

    async def _settled(self, name: str, model: str, note: Experience) -> NoteChanges | None:
        """Return the operation for a note; by rules where the reply is unusable, None where the call failed."""

        async def settle(asking: PeerAsking | None) -> NoteChanges:
            try:
                return await self.peer.settle(note, self.memory, asking)
            except FormatError as error:
                self.opened.failed(error)
                return await self.peer.settle(note, self.memory, None)

        return await self._asked(name, model, settle)

    async def _asked(self, name: str, model: str, do: Callable[[PeerAsking | None], Awaitable[T]]) -> T | None:
        """Run a task with a model under a name in the log; None, and counted, where it failed."""
        recorder = self.opened.asking.log.begin(name, {"peer": self.peer.name})
        asking = None
        if not self.opened.by_rules(model):
            asking = PeerAsking(asker=self.opened.asking.asker(name, model, recorder), model=model)
        try:
            found = await do(asking)
        except (FormatError, ProviderError) as error:
            self.opened.failed(error)
            recorder.finish({"error": str(error)})
            return None
        recorder.finish({})
        self.opened.asking.log.flush()
        return found

    def _mark(self, group: Sequence[EpisodeEntry]) -> str:
        key = EpisodeKey.parse(group[0].key)
        return "|".join((self.peer.name, self.opened.folder.provenance, key.agent, key.model, key.task, key.sample))

    def _keep_uses(self, case: Case) -> None:
        """Record for every shown note whether the attempt succeeded, once each."""
        for attempt in case.attempts:
            notes = self.opened.cases.episodes.trajectory(attempt.episode).notes
            shown = [
                one for note in notes if note.detail.get("peer") == self.peer.name for one in note.detail["served"]
            ]
            episode = f"{self.opened.folder.provenance}|{attempt.episode}"
            for one in shown:
                if self.memory.bank.holds(one["id"]):
                    self.memory.bank.add_feedback(one["id"], USED, value=float(attempt.success), episode=episode)
