"""Breathing on a chart: how a person breathes, and the oxygen pressures of arterial blood against the FiO2 then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from wardround.definitions.charted import Charted, Reading, newest_before
from wardround.definitions.support import Ventilation, inspired_oxygen, is_arterial, is_spontaneous, ventilation_status

STATUS_HOURS = timedelta(hours=14)
"""A status charted longer ago is unknown, as in the MIMIC Code Repository."""
OXYGEN_HOURS = timedelta(hours=4)
"""An FiO2 charted longer before a blood gas is not that gas's, as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gas:
    """An arterial blood gas: PaCO2 in mmHg, and PaO2/FiO2 in mmHg, None where no FiO2 was in force."""

    carbon_dioxide: float | None
    ratio: float | None


@dataclass(frozen=True)
class Lungs:
    """How a person breathes over the newest stay, and the arterial gases."""

    charted: Charted

    def status(self, at: datetime, age: timedelta = STATUS_HOURS) -> Ventilation | None:
        """Return the newest status charted up to a moment: it outranks an older one, whichever row charted that."""
        return newest_before(self._statuses, at, age)

    def ventilated(self, at: datetime) -> bool | None:
        """Whether a machine breathes: through a tube, or a tracheostomy while a mode of the machine is charted."""
        status = self.status(at)
        if status == "tracheostomy":
            return newest_before(self._modes, at, STATUS_HOURS) is not None
        return None if status is None else status == "invasive"

    @cached_property
    def gases(self) -> list[tuple[datetime, Gas]]:
        """The arterial gases and when each was taken, oldest first."""
        return sorted(self._read_gases(), key=lambda each: each[0])

    @cached_property
    def _modes(self) -> list[tuple[datetime, str]]:
        return [(time, mode) for time, mode in self.charted.texts("mode") if ventilation_status((), (mode,))]

    @cached_property
    def _statuses(self) -> list[tuple[datetime, Ventilation | None]]:
        """A device that is not known outranks an older one too: then nobody knows. A mode charted alone that leaves the
        breath to the person goes with the mask that was worn last."""
        rows: dict[datetime, tuple[list[str], list[str]]] = {}
        for place, name in enumerate(("device", "mode")):
            for time, text in self.charted.texts(name):
                rows.setdefault(time, ([], []))[place].append(text)
        found: list[tuple[datetime, Ventilation | None]] = []
        worn: list[tuple[datetime, list[str]]] = []
        for time in sorted(rows):
            devices, modes = rows[time]
            if devices:
                worn.append((time, devices))
            elif all(map(is_spontaneous, modes)):
                devices = _masks(newest_before(worn, time, STATUS_HOURS))
            found.append((time, ventilation_status(devices, modes)))
        return found

    @cached_property
    def _charted_oxygen(self) -> list[Reading]:
        found = ((time, inspired_oxygen(value)) for time, value in self.charted.readings("inspired_oxygen"))
        return sorted((time, percent) for time, percent in found if percent is not None)

    def _read_gases(self) -> Iterator[tuple[datetime, Gas]]:
        """A gas's numbers are rows of one specimen, whose kind a row of its own tells."""
        parts = ("oxygen_pressure", "carbon_dioxide", "oxygen_of_gas")
        specimens = self.charted.specimens("specimen", parts)
        for time, kind, numbers in specimens:
            pressure = numbers.get("oxygen_pressure")
            if pressure is None or not is_arterial(kind):
                continue
            own = inspired_oxygen(numbers.get("oxygen_of_gas"))
            percent = own or newest_before(self._charted_oxygen, time, OXYGEN_HOURS)
            ratio = 100 * pressure / percent if percent else None
            yield time, Gas(carbon_dioxide=numbers.get("carbon_dioxide"), ratio=ratio)


def _masks(devices: list[str] | None) -> list[str]:
    return [one for one in devices or () if ventilation_status([one]) == "non-invasive"]
