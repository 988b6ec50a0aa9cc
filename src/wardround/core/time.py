"""Clinical time: naive, in the record's own calendar, to the microsecond.

A date without a time means the end of that day (23:59:59): at midnight of its start nothing of the day was known yet.
Midnight written out in a time column is a time. Log and wall-clock times are not dealt with here.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

END_OF_DAY = time(23, 59, 59)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def end_of_day(day: date) -> datetime:
    """Return 23:59:59 of a day."""
    return datetime.combine(day, END_OF_DAY)


def parse_time(text: str) -> datetime:
    """Read ``YYYY-MM-DD[ T]HH:MM[:SS[.ffffff]]``; a bare date is the end of that day.

    Raises ValueError when the text is no time.
    """
    text = text.strip()
    if len(text) <= 10:
        return end_of_day(date.fromisoformat(text))
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError(f"clinical times carry no time zone: {text!r}")
    return moment


def parse_time_bound(text: str, *, start: bool) -> datetime:
    """Read one end of a range; a bare date means the start of its day at the start and 23:59:59 at the end."""
    text = text.strip()
    if start and len(text) <= 10:
        return datetime.combine(date.fromisoformat(text), time.min)
    return parse_time(text)


def format_time(moment: datetime) -> str:
    """Write a time as the records do: ``YYYY-MM-DD HH:MM:SS``, with microseconds only if there are any."""
    return moment.isoformat(sep=" ", timespec="microseconds" if moment.microsecond else "seconds")


def to_microseconds(moment: datetime) -> int:
    """Return microseconds since 1970-01-01, the integer inside Arrow's ``timestamp[us]``."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """Inverse of :func:`to_microseconds`."""
    return _EPOCH + timedelta(microseconds=value)
