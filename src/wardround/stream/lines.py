"""The lines of a stream, and a growing folder of them: read in order of file name, only whole lines, from an offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from wardround.core import UserError


class StreamLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One row as it became known: the ``row`` has the columns that a chart hands out.

    ``known``: when it became known, ``time``: when it happened; without them the clocks of the source say, as far as
    the row alone tells. ``revision`` above 0: the row was told before, and reads so from now on. ``withdrawn``: from
    now on there is no such row. ``pending``: it is an order of which nothing else is known.
    """

    table: str
    row: dict[str, Any]
    known: str | None = None
    time: str | None = None
    revision: int = 0
    withdrawn: bool = False
    pending: bool = False


DECODER = msgspec.json.Decoder(StreamLine)
ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line as it stands in a file, and where the one after it begins."""

    file: str
    end: int
    text: bytes


@dataclass(frozen=True, slots=True)
class LineFolder:
    """A folder of files ``*.jsonl`` that grow: a file is done when one of a later name is there."""

    path: Path
    block_bytes: int = 1 << 20

    def read(self, offsets: Mapping[str, int], limit: int) -> Iterator[SourceLine]:
        """Yield up to ``limit`` whole lines that lie after the offsets. UserError: there is no such folder."""
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no folder to follow")
        left = limit
        for file in sorted(self.path.glob("*.jsonl")):
            start = offsets.get(file.name, 0)
            if file.stat().st_size <= start:
                continue
            for line in self._whole_lines(file, start):
                if not left:
                    return
                left -= 1
                yield line

    def _whole_lines(self, file: Path, start: int) -> Iterator[SourceLine]:
        with file.open("rb") as source:
            source.seek(start)
            rest, end = b"", start
            while block := source.read(self.block_bytes):
                *lines, rest = (rest + block).split(b"\n")
                for text in lines:
                    end += len(text) + 1
                    yield SourceLine(file=file.name, end=end, text=text)
