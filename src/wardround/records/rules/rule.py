"""A time rule is one class with a name: how its arguments are parsed, which columns it reads, and its times.

A rule of a plug-in is registered like ours: ``RULES.named("weekday")`` before a frozen dataclass that extends
:class:`Rule`. It may consist of our own rules: its ``parts`` are handled wherever rules are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import Field, fields
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from wardround.core import Registry, UserError, to_microseconds
from wardround.core.settings import kinds_of
from wardround.records.rules.other_rows import NO_TIME as NO_TIME
from wardround.records.rules.other_rows import Times as Times

ALWAYS_TIME = to_microseconds(datetime.min)
"""The time of ``always``: the first moment a Python datetime can hold."""


class Rule(ABC):
    """A time for every row of a table. Rules are frozen dataclasses; ``str`` gives the text from which they were
    parsed.

    A rule's fields are its arguments, in the order in which they are written.
    """

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every subclass is a frozen dataclass; the base class is not

    function: ClassVar[str] = ""
    """Its name in the language; empty for rules with a syntax of their own."""
    takes: ClassVar[str] = ""
    """Its arguments in words, for errors."""
    title: ClassVar[str] = ""
    elsewhere: ClassVar[tuple[str, ...]] = ()
    """Its fields that are rules over another table."""
    reads_own_cells: ClassVar[bool] = True
    """Whether neither it nor any part of it reads other rows."""
    needs_subject: ClassVar[bool] = False
    """Whether it needs the subject of each row."""

    def __str__(self) -> str:
        arguments = (str(getattr(self, field.name)) for field in fields(self))
        return f"{self.function}({', '.join(arguments)})"

    @classmethod
    def read(cls, name: str, arguments: Arguments) -> Rule:
        """Parse the rule ``name`` from its arguments: for each field a rule, or a plain name if the field is text.

        UserError: other arguments are given.
        """
        kinds, given = kinds_of(cls), zip(fields(cls), arguments.rules, arguments.words(), strict=False)
        values = [word if kinds[field.name] is str else rule for field, rule, word in given]
        if None in values or not len(values) == len(fields(cls)) == len(arguments.rules):
            raise arguments.wrong(f"{name} takes {cls.takes}")
        return cls(*values)

    @abstractmethod
    def evaluate(self, frame: Frame) -> Times:
        """Return the time of every row of the frame, ``NO_TIME`` where it is null."""

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The rules inside it that read the same row."""
        here = (getattr(self, field.name) for field in fields(self) if field.name not in self.elsewhere)
        return tuple(argument for argument in here if isinstance(argument, Rule))

    @property
    def parts_elsewhere(self) -> tuple[Rule, ...]:
        """The rules inside it that read rows of another table."""
        return tuple(getattr(self, name) for name in self.elsewhere)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the row that it reads itself, without those of its parts."""
        return ()

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The tables whose available times it needs."""
        return ()

    def check(self, place: Checks) -> None:
        """Check its names, and its parts that read other tables. Parts of the same row are checked separately.
        UserError says what is wrong."""
        return


RULES: Registry[type[Rule]] = Registry("rules", one="time rule", of=type, title=lambda rule: rule.title)
"""Every function of the language, by name."""


class Arguments:
    """The arguments of a rule, parsed so far as rules: plain names and quoted values are columns."""

    def __init__(self, rules: Sequence[Rule], text: str) -> None:
        self.rules = tuple(rules)
        self._text = text

    def wrong(self, expected: str) -> UserError:
        """Return the error that says which arguments the rule takes."""
        return UserError(f"time rule {self._text!r}: {expected}")

    def words(self) -> tuple[str | None, ...]:
        """Return each argument's text if it is a plain name, a number or a quoted value, else None."""
        return tuple(str(rule) if rule.columns == (str(rule),) else None for rule in self.rules)

    def after_first(self) -> tuple[str | None, list[str]]:
        """Read a column and quoted values after the first argument; the column is None if they are something else."""
        words = self.words()[1:]
        names = [word for word in words if word is not None]
        quoted = [name[1:-1] for name in names[1:] if name.startswith("'")]
        fine = len(self.rules) > 2 and len(names) == len(words) and len(quoted) == len(names) - 1
        return (names[0] if fine and not names[0].startswith("'") else None), quoted


@cache
def walk(rule: Rule) -> tuple[Rule, ...]:
    """Return a rule and every rule inside it that reads the same row."""
    return (rule, *(inside for part in rule.parts for inside in walk(part)))


@cache
def walk_everywhere(rule: Rule) -> tuple[Rule, ...]:
    """Return a rule and every rule inside it, also those that read rows of other tables."""
    found: list[Rule] = []
    for part in walk(rule):
        found += [part, *(inside for other in part.parts_elsewhere for inside in walk_everywhere(other))]
    return tuple(found)


def evaluate(rule: Rule, frame: Frame) -> Times:
    """Return the rule's time for every row of the frame, ``NO_TIME`` where it is null.

    A part of several rules is evaluated once (``frame.shared``): nobody writes into the result.
    """
    if rule not in frame.shared:
        return rule.evaluate(frame)
    found = frame.shared[rule]
    if found is None:
        found = frame.shared[rule] = rule.evaluate(frame)
    return found


def shared_parts(rules: Iterable[Rule]) -> frozenset[Rule]:
    """Return the parts that occur more than once in some rules over the same rows; columns and constants are not
    counted."""
    parts = Counter(part for rule in rules for part in walk(rule))
    return frozenset(part for part, count in parts.items() if count > 1 and (part.parts or not part.reads_own_cells))


class Checks(Protocol):
    """The table of a rule, as the check of a spec passes it on. Every method may raise UserError."""

    def time(self, column: str) -> None:
        """Check that the column exists and has times or dates."""

    def value(self, column: str, values: Sequence[str]) -> None:
        """Check that the column exists and can have such values."""

    def text(self, column: str) -> None:
        """Check that the column exists and has text."""

    def setting(self, name: str) -> None:
        """Check that such a lag setting exists."""

    def parent(self, key: str, table: str) -> Checks:
        """Check that the table exists and the column refers to its rows. Return it."""

    def child(self, table: str, key: str) -> Checks:
        """Check that the table exists and its column refers to rows of this one. Return it."""

    def table(self, name: str) -> Checks:
        """Check that the table exists. Return it."""

    def late(self, column: str) -> None:
        """Check that the column is late."""

    def rule(self, rule: Rule) -> None:
        """Check that a rule and its parts fit this table."""

    def wrong(self, what: str) -> UserError:
        """Return an error with this place."""


class Frame(Protocol):
    """The rows over which a rule is evaluated, and the tables that it may read."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    @property
    def shared(self) -> dict[Rule, Times | None]:
        """The times of rules that are parts of several; None until one was evaluated."""
        ...

    def times(self, column: str) -> Times:
        """Return a time or date column of the rows."""
        ...

    def known(self, key: str, table: str) -> Times:
        """Return the available times of the rows of ``table`` that ``key`` refers to."""
        ...

    def reference(self, key: str, table: str, column: str) -> Times:
        """Return time cells of the rows of ``table`` that ``key`` refers to."""
        ...

    def late_cell(self, key: str, table: str, column: str) -> Times:
        """Return when late cells of the rows of ``table`` that ``key`` refers to became known; null for empty cells."""
        ...

    def there(self, key: str, table: str, rule: Rule) -> Times:
        """Evaluate a rule over the rows of ``table`` that ``key`` refers to, not before those rows are available."""
        ...

    def among(self, which: str, table: str, key: str, rule: Rule) -> Times:
        """Return the ``earliest`` or ``latest`` time of the rows of another table that refer to these rows."""
        ...

    def holds(self, column: str, values: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Return which rows have one of ``values`` in a text or int column; ``''`` is an empty cell, ``A*`` begins with
        A."""
        ...

    def subjects(self) -> npt.NDArray[np.int64]:
        """Return the subject of each row."""
        ...

    def spans(self, table: str, start: Rule, end: Rule) -> tuple[npt.NDArray[np.int64], Times, Times]:
        """Return subject, start and end of the rows of another table."""
        ...

    def names_after(self, column: str, starts: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which of ``starts`` a text begins with (-1: none), and a number for the rest of the text."""
        ...

    def lag(self, setting: str) -> int:
        """Return a setting in microseconds."""
        ...

    def median_delay(self, start: str, end: str) -> Times:
        """Return per row the table's median of ``end - start``, in microseconds; null if none is declared or
        measured."""
        ...
