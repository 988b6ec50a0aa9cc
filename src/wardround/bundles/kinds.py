"""What an event of a bundle is, what of it a clinician decides, and how a value lies to what is usual."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum


class EventKind(IntEnum):
    """What happened. The numbers stand in columns and files: they never change."""

    ADMISSION = 1
    TRANSFER = 2
    DISCHARGE = 3
    DIAGNOSIS = 4
    ALLERGY = 5
    MEDICATION_START = 6
    MEDICATION_STOP = 7
    ADMINISTRATION = 8
    LAB = 9
    CULTURE_TAKEN = 10
    """A specimen of which nothing is known yet."""
    CULTURE = 11
    VITAL = 12
    INTAKE = 13
    """An amount, or a rate at a moment: nothing says when it ended."""
    INFUSION_START = 14
    INFUSION_STOP = 15
    OUTPUT = 16
    PROCEDURE = 17
    PROCEDURE_STOP = 18
    RETRACTION = 19
    """A row was entered in error or cancelled: from here on it is as if it had never been."""


class ActionType(StrEnum):
    """What of the next hours is to be foretold (the paper's three kinds of bundle, appendix A.3)."""

    MEDICATIONS = "MEDICATIONS"
    LABS = "LABS"
    PROCEDURES = "PROCEDURES"


class ValueLevel(IntEnum):
    """How a value lies to the limits of its row, else to usual limits, else to the person's own first value."""

    UNKNOWN = 0
    LOW = 1
    NORMAL = 2
    HIGH = 3
    BELOW_BASELINE = 4
    AT_BASELINE = 5
    ABOVE_BASELINE = 6


STOPS: Mapping[EventKind, EventKind] = {
    EventKind.ADMISSION: EventKind.DISCHARGE,
    EventKind.MEDICATION_START: EventKind.MEDICATION_STOP,
    EventKind.INFUSION_START: EventKind.INFUSION_STOP,
    EventKind.PROCEDURE: EventKind.PROCEDURE_STOP,
}
"""What ends what begins."""
ENDS = tuple(STOPS.values())
MEASURED = (EventKind.LAB, EventKind.VITAL)
"""Kinds whose values have a level."""
