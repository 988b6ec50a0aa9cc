"""The days of a record, and whether a text holds one of them however it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Self

from wardround.knowledge.egress.searched import joined
from wardround.knowledge.egress.written_days import days_in, days_of_months_in, digits_of

_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDays:
    """``days`` with a year, ``of_months`` as (month, day) without one, ``digits`` as the digits of numbers side
    by side, whatever stands between these."""

    days: frozenset[date]
    of_months: frozenset[tuple[int, int]]
    digits: frozenset[str]

    @classmethod
    def of(cls, days: Iterable[date]) -> Self:
        """Prepare days to be looked for."""
        days = frozenset(days)
        return cls(
            days=days,
            of_months=frozenset((day.month, day.day) for day in days),
            digits=frozenset(row for day in days for row in digits_of(day)),
        )

    def are_in(self, text: str) -> bool:
        """Whether a text can mean one of them."""
        return (
            not self.days.isdisjoint(days_in(text))
            or not self.of_months.isdisjoint(days_of_months_in(text))
            or self.are_in_rows(text)
        )

    def are_in_rows(self, text: str) -> bool:
        """Whether numbers side by side on a line are one of them."""
        return not all(self.digits.isdisjoint(joined(_DIGITS.findall(line))) for line in text.split("\n"))
