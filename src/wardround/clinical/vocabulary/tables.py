"""The tables of this room: tab-separated files in ``data``, comments and blank lines left out."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def table_rows(name: str, columns: int) -> tuple[tuple[str, ...], ...]:
    """Return the rows of ``data/NAME.tsv``, each filled up with empty cells to so many columns."""
    text = (files("wardround.clinical.vocabulary") / "data" / f"{name}.tsv").read_text(encoding="utf-8")
    return tuple(
        tuple((line.split("\t") + [""] * columns)[:columns])
        for line in text.splitlines()
        if line.strip() and not line.startswith("#")
    )


def cell_parts(cell: str) -> tuple[str, ...]:
    """Return the parts of a cell that are split by ``;``."""
    return tuple(part.strip() for part in cell.split(";") if part.strip())


@cache
def named_words(name: str) -> frozenset[str]:
    """Return one of the sets of words of ``data/text_words.tsv``."""
    return frozenset(next(cell_parts(cell) for one, cell in table_rows("text_words", 2) if one == name))
