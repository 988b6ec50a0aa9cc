"""Which events say something in words: retrieval by likeness of words finds nothing in the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from wardround.records import EventColumns


def described(columns: EventColumns) -> npt.NDArray[np.bool_]:
    """Return, by concept, whether it has words of its own: not its code again, nor the name of its table."""
    tables = set(columns.table_names)
    return np.array(
        [
            text.strip() not in ("", code) and text not in tables
            for code, text in zip(columns.codes, columns.descriptions, strict=True)
        ],
        dtype=bool,
    )


def described_codes(charts: Iterable[EventColumns]) -> tuple[int, int]:
    """Return how many of the distinct codes of some charts have words, and how many codes there are."""
    words: dict[str, bool] = {}
    for columns in charts:
        for code, has_words in zip(columns.codes, described(columns).tolist(), strict=True):
            words[code] = words.get(code, False) or has_words
    return sum(words.values()), len(words)


def tells(columns: EventColumns) -> npt.NDArray[np.bool_]:
    """Return, by event, whether it has a line that says anything: a value, a text, or words beyond the class of a row
    (which its source's spec names) or the name of a table. Rows shown in another row's line have none of their own."""
    empty = np.array(
        [
            text in columns.table_names or class_only
            for text, class_only in zip(columns.descriptions, columns.class_only, strict=True)
        ],
        dtype=bool,
    )
    own = ~columns.notes.shown_elsewhere & ~columns.notes.unnamed
    if not empty.any():
        return own
    with_text = np.asarray(pc.is_valid(columns.text_array).to_numpy(zero_copy_only=False), dtype=bool)
    telling: npt.NDArray[np.bool_] = with_text | ~np.isnan(columns.numeric_value) | ~empty[columns.concept]
    for place in np.flatnonzero(own & ~telling).tolist():
        telling[place] = bool(columns.notes.notes(place))
    return telling & own
