"""A live stream as the viewer holds it: where each patient's bundles are told, and what the last of them said."""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from wardround.bundles.events import HOUR
from wardround.core import from_microseconds
from wardround.records import SourceSpec, load_source_spec
from wardround.serve.viewer.viewed_run import NotThere
from wardround.stream import ToldBundle, ToldReading, watched_ledger
from wardround.stream.ledger_reading import LedgerReading, PaceMinute
from wardround.stream.watching import TOLD


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientLine:
    """A patient after the last bundle that was told. ``findings``: what the audit held against actions; ``raised``:
    rules that hold and did not after the bundle before; ``alerts``: how many both are; ``proposed``: names of actions.
    """

    subject: int
    hour: str
    bundles: int
    amended: bool
    abnormal: int
    running: int
    findings: tuple[str, ...]
    raised: tuple[str, ...]
    held: tuple[str, ...]
    proposed: tuple[str, ...]
    alerts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMoment:
    """A stream as one commit left it. ``clock``: the hour that is open, nothing of it or later is shown; ``open``:
    patients with a bundle that is not closed; ``parked``: lines that lie further ahead than is allowed; ``waiting``:
    bytes of the source's files that are not taken, None where these are not there; ``looked``: when, in seconds of the
    epoch."""

    clock: str | None
    patients: Sequence[PatientLine]
    open: int
    told: int
    lines: int
    refused: int
    parked: int
    finished: bool
    waiting: int | None
    pace: Sequence[PaceMinute]
    looked: float


class ViewedStream:
    """The folder of one stream. UserError: it is none, or of another version. Many threads may ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._held: LedgerReading | None = None
        self._begin()
        with watched_ledger(folder) as ledger:
            self.facts = ledger.facts()
        self.look()

    def _begin(self) -> None:
        self._told = ToldReading(self.folder / TOLD)
        self._places: dict[int, array[int]] = {}
        self._patients: dict[int, PatientLine] = {}

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.folder.resolve().name

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """Its rules in words, by their ids; nothing where it goes by none, or does not say."""
        rules: Mapping[str, str] = json.loads(self.facts.get("rules", "{}"))
        return rules

    @property
    def spec(self) -> SourceSpec:
        """What its rows are. UserError: the source is not known here."""
        return load_source_spec(self.facts["source"])

    @contextmanager
    def ledger(self) -> Iterator[LedgerReading]:
        """The ledger as of now, or of the moment that is held."""
        if self._held is not None:
            yield self._held
            return
        with watched_ledger(self.folder) as ledger:
            yield ledger

    @contextmanager
    def held(self) -> Iterator[None]:
        """Show one moment only, however the stream goes on: for pages that are written one after another."""
        with watched_ledger(self.folder) as ledger:
            self._held = ledger
            try:
                yield
            finally:
                self._held = None

    def look(self) -> StreamMoment:
        """Read on, and return the stream as it is now."""
        with self._lock, self.ledger() as ledger:
            if ledger.length < self._told.place:  # another stream lies here now
                self._begin()
            for place, bundle in self._told.next(ledger.length):
                self._take(place, bundle)
            return self._moment(ledger)

    def patient(self, subject: int) -> tuple[PatientLine, Sequence[int]]:
        """Return a patient and where the bundles are told, oldest first. NotThere: none was told."""
        self.look()
        with self._lock:
            if subject not in self._patients:
                raise NotThere(f"nothing is told of a patient {subject} in the stream {self.name!r}")
            return self._patients[subject], tuple(self._places[subject])

    def bundles(self, places: Sequence[int]) -> list[ToldBundle]:
        """Return what is told at some places."""
        return self._told.at(places)

    def _take(self, place: int, bundle: ToldBundle) -> None:
        before = self._patients.get(bundle.subject)
        self._places.setdefault(bundle.subject, array("q")).append(place)
        self._patients[bundle.subject] = line_of(bundle, before)

    def _moment(self, ledger: LedgerReading) -> StreamMoment:
        return StreamMoment(
            clock=_hour_text(ledger.last_hour()),
            patients=tuple(self._patients.values()),
            open=ledger.open_subjects(),
            told=sum(map(len, self._places.values())),
            lines=ledger.lines,
            refused=ledger.refused,
            parked=ledger.parked(),
            finished=ledger.facts()["finished"] == "yes",
            waiting=_waiting(ledger),
            pace=ledger.pace(),
            looked=time.time(),
        )


def line_of(bundle: ToldBundle, before: PatientLine | None) -> PatientLine:
    """Return a patient after a bundle; what is raised by it hangs on the one before."""
    was_held = () if before is None else before.held
    findings, raised = findings_of(bundle), tuple(rule for rule in bundle.held if rule not in was_held)
    return PatientLine(
        subject=bundle.subject,
        hour=bundle.hour,
        bundles=1 if before is None else before.bundles + 1,
        amended=bundle.amended,
        abnormal=len(bundle.abnormal),
        running=bundle.running,
        findings=findings,
        raised=raised,
        alerts=len(findings) + len(raised),
        held=was_held if list(was_held) == bundle.held else tuple(bundle.held),  # one for all that say the same
        proposed=tuple(str(one.get("name")) for one in bundle.predicted),
    )


def findings_of(bundle: ToldBundle) -> tuple[str, ...]:
    """Return what the audit held against actions, in words."""
    objections = bundle.audit.get("objections", ())
    return tuple(f"{one.get('action')}: {one.get('flaw')}" for one in objections)


def _hour_text(hour: int | None) -> str | None:
    return None if hour is None else f"{from_microseconds(hour * HOUR):%Y-%m-%d %H:00}"


def _waiting(ledger: LedgerReading) -> int | None:
    """How many bytes of the source's files are not taken yet."""
    folder = Path(ledger.facts().get("lines", ""))
    files = sorted(folder.glob("*.jsonl")) if folder.is_absolute() else []
    if not files:
        return None
    return sum(max(0, file.stat().st_size - ledger.offsets.get(file.name, 0)) for file in files)
