"""Row ids: ``table:key``, stable across runs and without a late cell, made of 64-bit fingerprints of chosen columns.

A fingerprint depends on values only (not on spelling in the file, library versions or other rows), so that a row keeps
its id when everything later than some moment is deleted; equal rows are numbered by what becomes known of them, and
when. The order of a file never counts: a database that rewrites a changed row puts it last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.records.rules.language import NO_TIME, Times
from wardround.records.shards.layout import NEVER_TIME
from wardround.records.specs.spec import TableSpec, integers, valid

Words = npt.NDArray[np.uint64]
_NULL = np.uint64(0x6E756C6C)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_ID_BITS = 40
_SHORT = 24


def fingerprints(batch: pa.RecordBatch, columns: Sequence[str], salt: str) -> Words:
    """Return one word (uint64) per row: the fingerprint of its cells in ``columns``."""
    words = np.full(batch.num_rows, _text_word(salt), dtype=np.uint64)
    for name in columns:
        words = mix(words * _STEP + _column_words(batch.column(name)))
    return words


def row_numbers(words: Words) -> npt.NDArray[np.int64]:
    """Shorten fingerprints to the positive 40-bit numbers of row ids (unique within a subject's rows)."""
    return (words >> np.uint64(64 - _ID_BITS)).astype(np.int64)


def local_words(batch: pa.RecordBatch, columns: Sequence[str]) -> Words:
    """Return one word per row, equal iff the cells in ``columns`` are; valid within this batch only."""
    words = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in columns:
        array = batch.column(name)
        if pa.types.is_string(array.type):
            array = array.dictionary_encode().indices
        words = mix(words * _STEP + _column_words(array))
    return words


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Cells of rows that become known together: the time for each row, and their columns."""

    times: npt.NDArray[np.int64]
    columns: Sequence[str]


Ties = Callable[[npt.NDArray[np.int64]], Sequence[npt.NDArray[Any]]]
"""Return the sort keys of the rows at some places, the most important first."""


def occurrences(
    words: npt.NDArray[Any], available: npt.NDArray[np.int64], ties: Ties = lambda places: ()
) -> npt.NDArray[np.int64]:
    """Number equal words 0, 1, .. in the order in which their rows become known, then by ``ties``."""
    numbers = np.zeros(len(words), dtype=np.int64)
    ordered = np.sort(words)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return numbers
    places = np.sort(np.argsort(words)[np.r_[again, False] | np.r_[False, again]])
    order = places[np.lexsort((*reversed(ties(places)), available[places], words[places]))]
    ordered = words[order]
    count = np.arange(len(order))
    fresh = np.r_[True, ordered[1:] != ordered[:-1]]
    numbers[order] = count - np.maximum.accumulate(np.where(fresh, count, 0))
    return numbers


def numbered_words(words: Words, available: npt.NDArray[np.int64], ties: Ties = lambda places: ()) -> Words:
    """Number equal words by their occurrence."""
    again = occurrences(words, available, ties).astype(np.uint64)
    return np.where(again > 0, mix(words + again), words)


def as_disclosed(batch: pa.RecordBatch, disclosures: Sequence[Disclosure]) -> Ties:
    """Order rows by what becomes known of them: first the row whose next cell is known first, then by its content.

    At every moment rows with known cells come before equal rows, in an order that later data cannot change. A cell that
    stays empty is never known.
    """

    def ties(places: npt.NDArray[np.int64]) -> Sequence[npt.NDArray[Any]]:
        rows = batch.take(pa.array(places))
        known = [_known_from(rows, each.columns, each.times[places]) for each in disclosures]
        if not known:
            return ()
        times = np.stack(known, axis=1)
        prints = np.stack([fingerprints(rows, each.columns, "") for each in disclosures], axis=1)
        order = np.argsort(times, axis=1, kind="stable")
        times = np.take_along_axis(times, order, axis=1)
        never = times == NEVER_TIME
        steps = (times, np.where(never, -1, order), np.where(never, np.uint64(0), np.take_along_axis(prints, order, 1)))
        return [step[:, place] for place in range(len(known)) for step in steps]

    return ties


def _known_from(rows: pa.RecordBatch, columns: Sequence[str], times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return when cells with one clock are known; never if all are empty."""
    filled = np.logical_or.reduce([valid(rows.column(name)) for name in columns])
    return np.where(filled & (times != NO_TIME), times, NEVER_TIME)


def mix(words: Words) -> Words:
    """Scramble words (the finaliser of splitmix64)."""
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _column_words(array: Any) -> Words:
    words: Words
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        words = np.r_[_text_words(encoded.dictionary), _NULL][integers(encoded.indices, null=-1)]
    elif pa.types.is_float64(array.type):
        floats = np.asarray(array.fill_null(0.0)) if array.null_count else array.to_numpy()
        words = (floats + 0.0).view(np.uint64)
    else:
        words = integers(array, null=0).astype(np.int64).view(np.uint64)
    if array.null_count:
        words = np.where(valid(array), words, _NULL)
    return words


def _text_words(texts: Any) -> Words:
    """Hash distinct texts: short ones eight bytes at a time, all at once, the others by BLAKE2."""
    lengths = pc.binary_length(texts).to_numpy().astype(np.uint64)
    short = lengths <= _SHORT
    words = np.empty(len(texts), dtype=np.uint64)
    for place in np.flatnonzero(~short).tolist():
        words[place] = _text_word(texts[place].as_py())
    some = texts if short.all() else texts.filter(pa.array(short))
    padded = pc.ascii_rpad(some, _SHORT, padding="\0")
    table = np.frombuffer(padded.buffers()[2] or b"", dtype="<u8", count=len(some) * _SHORT // 8).reshape(
        -1, _SHORT // 8
    )
    mixed = lengths[short]
    for column in table.T:
        mixed = mix(mixed * _STEP + column)
    words[short] = mixed
    return words


def _text_word(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


_TEXT = pa.string()


@cache
def _joint(text: str) -> Any:
    """Return the separator of parts as a typed scalar: with an untyped one Arrow looks for pandas each time (40 us).

    Made at first use: the first scalar of a process imports pandas if it is installed (0.25 s).
    """
    return pa.scalar(text, _TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The parts of a table's row ids: the key of one row, or an opaque ``number``.

    ``again``: number among rows whose keys became equal in an hour that the clock shows twice."""

    number: npt.NDArray[np.int64] | None = None
    again: npt.NDArray[np.int64] | None = None

    def of(self, places: npt.NDArray[np.int64]) -> Identity:
        """Return the parts of the rows at some places."""
        number, again = (None if part is None else part[places] for part in (self.number, self.again))
        return Identity(number=number, again=again)

    def ties(self, table: TableSpec, batch: pa.RecordBatch) -> list[Any]:
        """Return the columns that sort rows of one event time."""
        if self.number is not None:
            return [self.number]
        return [*(batch.column(name) for name in table.key), *([] if self.again is None else [self.again])]


def identify(
    table: TableSpec, batch: pa.RecordBatch, available: Times, disclosures: Sequence[Disclosure] = ()
) -> Identity:
    """Return the parts of row ids: the key, else a number hashed from the shown cells that are never late (of rows with
    versions from the cells that name them). ``disclosures``: the other shown cells, and their times."""
    if table.key:
        if table.amended is not None or not any(table.columns.get(name) == "time" for name in table.key):
            return Identity()
        again = occurrences(local_words(batch, table.key), available, as_disclosed(batch, disclosures))
        return Identity(again=again if again.any() else None)
    names = [name for name in table.content_columns if name in batch.schema.names]
    words = numbered_words(fingerprints(batch, names, table.name), available, as_disclosed(batch, disclosures))
    row = table.amended.row if table.amended is not None else None
    if row is not None and row in batch.schema.names:
        words = np.where(valid(batch.column(row)), fingerprints(batch, [row], table.name), words)
    return Identity(number=row_numbers(words))


def make_row_ids(table: TableSpec, batch: pa.RecordBatch, identity: Identity) -> Any:
    """Return ``table:key`` for every row; parts of a key are joined by ``-``."""
    if identity.number is not None:
        return numbered_ids(table.name, identity.number)
    parts = [batch.column(name).cast(_TEXT) for name in table.key]
    keys = parts[0] if len(parts) == 1 else _join(parts, _joint("-"))
    ids = _prefixed(table.name, keys)
    if identity.again is None:
        return ids
    numbers = pa.array(np.where(identity.again > 0, np.char.add("-", identity.again.astype(str)), ""))
    return _join([ids, numbers.cast(_TEXT)], _joint(""))


def numbered_ids(table: str, numbers: Any) -> Any:
    """Return row ids of bare numbers."""
    return _prefixed(table, pa.array(numbers).cast(pa.string()))


def _prefixed(table: str, keys: Any) -> Any:
    return _join([pa.scalar(f"{table}:", _TEXT), keys], _joint(""))


def _join(parts: list[Any], separator: Any) -> Any:
    return pc.binary_join_element_wise(*parts, separator, null_handling="replace", null_replacement="")
