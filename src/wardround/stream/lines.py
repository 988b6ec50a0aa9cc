"""The lines of a stream, and a growing folder of them: read in order of file name, only whole lines, from an offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from wardround.core import UserError
from wardround.core.time import format_time


class StreamLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row of a table of the source, or the source's ``clock``: what was before it is complete.

    With ``known`` the row reads so from then on, with the columns that a chart hands out; ``time``: when it happened;
    ``revision`` above 0: the row was known before; ``withdrawn``: from then on there is no such row; ``pending``: it is
    an order of which nothing else is known. Without ``known`` the row is one of the source's files, and the clocks of
    the source say what of it is known when.
    """

    table: str = ""
    row: dict[str, Any] = {}
    clock: str | None = None
    known: str | None = None
    time: str | None = None
    revision: int = 0
    withdrawn: bool = False
    pending: bool = False


DECODER = msgspec.json.Decoder(StreamLine)
ENCODER = msgspec.json.Encoder()


def written_cell(cell: Any) -> Any:
    """Return a cell as a line has it: times as the records write them."""
    if isinstance(cell, datetime):
        return format_time(cell)
    return cell.isoformat() if isinstance(cell, date) else cell


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLines:
    """Whole lines of one file, one after another. ``start``: the byte at which the first begins."""

    file: str
    start: int
    texts: Sequence[bytes]

    def end(self, count: int | None = None) -> int:
        """Return the byte after the first ``count`` lines, of all by default."""
        return self.start + sum(len(text) + 1 for text in self.texts[:count])


@dataclass(frozen=True, slots=True)
class LineFolder:
    """A folder of files ``*.jsonl`` that grow: a file is done when one of a later name is there."""

    path: Path
    block_bytes: int = 1 << 18

    def read(self, offsets: Mapping[str, int], limit: int) -> Iterator[SourceLines]:
        """Yield up to ``limit`` whole lines that lie after the offsets, file by file. UserError: there is no folder."""
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no folder to follow")
        left = limit
        for file in sorted(self.path.glob("*.jsonl")):
            start = offsets.get(file.name, 0)
            if left and file.stat().st_size > start:
                texts = self._whole_lines(file, start, left)
                left -= len(texts)
                if texts:
                    yield SourceLines(file=file.name, start=start, texts=texts)

    def _whole_lines(self, file: Path, start: int, limit: int) -> list[bytes]:
        found: list[bytes] = []
        with file.open("rb") as source:
            source.seek(start)
            rest = b""
            while len(found) < limit and (block := source.read(self.block_bytes)):
                *lines, rest = (rest + block).split(b"\n")
                found += lines
        return found[:limit]
