"""Examples with pictures: one line of a manifest each, from a user's file or made of a store's own films.

A manifest is JSON lines; ``wardround bench examples`` makes one of EHRXQA's or MedMod's own files (``ehrxqa``,
``medmod``). The stand-in (``stand_in``) has the same shape, made of what a store holds of its films.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from wardround.core import UserError, parse_time, strict, write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalExample:
    """One question. ``task`` is its name without the family's; ``cutoff`` the moment it is asked at; ``images`` are the
    ids of the linked pictures, the latest last; ``asked`` is its text where that is not the task's own, ``vocabulary``
    the names that answers are made of where these are not the task's.

    ``row_ids``: rows that hold the answer and that no chart may show by then. ``event_time``: when it comes about.
    """

    task: str
    subject_id: int
    cutoff: str
    answer: tuple[str, ...]
    images: tuple[str, ...] = ()
    asked: str = ""
    vocabulary: tuple[str, ...] = ()
    event_time: str | None = None
    row_ids: tuple[str, ...] = ()


def read_examples(path: Path) -> list[MultimodalExample]:
    """Read a manifest; UserError names the line that is none."""
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}; docs/clinseek-bench.md says what a manifest of examples holds")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.strip():
            try:
                body = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: no JSON: {error}") from None
            found.append(strict(MultimodalExample, body, f"{path}, line {number}"))
            _must_be_times(found[-1], f"{path}, line {number}")
    return found


def _must_be_times(one: MultimodalExample, where: str) -> None:
    for name, text in (("cutoff", one.cutoff), ("event_time", one.event_time)):
        try:
            parse_time("2000-01-01" if text is None else text)
        except ValueError as error:
            raise UserError(
                f'{where}, {name}: {error}; write the record\'s own time, such as "2150-01-01 10:00:00"'
            ) from None


def write_examples(examples: Sequence[MultimodalExample], path: Path) -> None:
    """Write a manifest."""
    write_atomically(path, "".join(json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in examples))
