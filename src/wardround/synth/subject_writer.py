"""What every writer of rows shares for one subject: the dice, the numbers, the lines, the orders and the counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wardround.core import derive_seed
from wardround.synth.catalog import Catalog
from wardround.synth.output import TableLines
from wardround.synth.person import Dice, Numbers, SyntheticSubject, provider


@dataclass(slots=True, kw_only=True, eq=False)
class Order:
    """One poe row in the making; ``sequence`` is given when all orders of the subject are known."""

    moment: int
    kind: str
    subtype: str = ""
    transaction: str = "New"
    hadm_id: int | None
    provider: str
    ends: Order | None = None
    ended_by: Order | None = None
    details: list[tuple[str, str]] = field(default_factory=list)
    sequence: int = 0


class SubjectWriter:
    """Writes one subject's rows. Mutable on purpose, and alive only while that subject is written."""

    __slots__ = ("catalog", "counts", "dice", "lab_rows", "lines", "micro_rows", "numbers", "orders", "seed", "subject")

    def __init__(self, lines: TableLines, subject: SyntheticSubject, dice: Dice, catalog: Catalog, seed: int) -> None:
        self.seed = seed
        self.lines, self.subject, self.dice, self.catalog = lines, subject, dice, catalog
        self.numbers = Numbers(subject.index)
        self.counts: dict[str, int] = {}
        self.lab_rows = 0
        self.micro_rows = 0
        self.orders: list[Order] = []

    def with_own_dice(self, name: str) -> SubjectWriter:
        """Return a writer with dice of its own, for a module that may be left out without changing the others."""
        other = SubjectWriter.__new__(SubjectWriter)
        for slot in SubjectWriter.__slots__:
            setattr(other, slot, getattr(self, slot))
        other.dice = Dice(derive_seed("wardround.synth.aside", self.seed, self.subject.index, name))
        return other

    def add(self, table: str) -> Callable[[str], None]:
        """Return the function that appends a finished line to a table."""
        return self.lines.tables[table].append

    def provider(self) -> str:
        """Return a clinician."""
        return provider(int(self.dice.unit() * 4096))
