"""What every writer of rows shares for one subject: the dice, the numbers, the sheet and the running counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wardround.synth.catalog import Catalog
from wardround.synth.dice import Dice
from wardround.synth.ids import Numbers, provider
from wardround.synth.person import Subject
from wardround.synth.sheet import Sheet

if TYPE_CHECKING:
    from wardround.synth.orders import Order


class Pen:
    """Writes one subject's rows. Mutable on purpose, and alive only while that subject is written."""

    __slots__ = ("catalog", "dice", "lab_rows", "micro_rows", "numbers", "orders", "report_count", "sheet", "subject")

    def __init__(self, sheet: Sheet, subject: Subject, dice: Dice, catalog: Catalog) -> None:
        self.sheet, self.subject, self.dice, self.catalog = sheet, subject, dice, catalog
        self.numbers = Numbers(subject.index)
        self.lab_rows = 0
        self.micro_rows = 0
        self.report_count = 0
        self.orders: list[Order] = []

    def add(self, table: str) -> Callable[[str], None]:
        """Return the function that appends a finished line to a table."""
        return self.sheet.tables[table].append

    def provider(self) -> str:
        """Some clinician."""
        return provider(int(self.dice.unit() * 4096))
