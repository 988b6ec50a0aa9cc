"""What every writer of rows shares for one subject: the dice, the numbers, the sheet and the running counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wardround.core import derive_seed
from wardround.synth.catalog import Catalog
from wardround.synth.dice import Dice
from wardround.synth.ids import Numbers, provider
from wardround.synth.person import Subject
from wardround.synth.sheet import Sheet

if TYPE_CHECKING:
    from wardround.synth.orders import Order


class Pen:
    """Writes one subject's rows. Mutable on purpose, and alive only while that subject is written."""

    __slots__ = ("catalog", "counts", "dice", "lab_rows", "micro_rows", "numbers", "orders", "seed", "sheet", "subject")

    def __init__(self, sheet: Sheet, subject: Subject, dice: Dice, catalog: Catalog, seed: int) -> None:
        self.seed = seed
        self.sheet, self.subject, self.dice, self.catalog = sheet, subject, dice, catalog
        self.numbers = Numbers(subject.index)
        self.counts: dict[str, int] = {}
        self.lab_rows = 0
        self.micro_rows = 0
        self.orders: list[Order] = []

    def aside(self, name: str) -> Pen:
        """Return a pen with dice of its own, for a module that may be left out without changing the others."""
        other = Pen.__new__(Pen)
        for slot in Pen.__slots__:
            setattr(other, slot, getattr(self, slot))
        other.dice = Dice(derive_seed("wardround.synth.aside", self.seed, self.subject.index, name))
        return other

    def add(self, table: str) -> Callable[[str], None]:
        """Return the function that appends a finished line to a table."""
        return self.sheet.tables[table].append

    def provider(self) -> str:
        """Some clinician."""
        return provider(int(self.dice.unit() * 4096))
