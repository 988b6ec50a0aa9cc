"""Rows waiting to be written: one list of finished CSV lines per table."""

from __future__ import annotations

from wardround.synth.columns import COLUMNS, DICTIONARIES


class TableLines:
    """The rows of a batch of subjects. ``tables[name].append(line)``; a line ends in a newline."""

    __slots__ = ("tables",)

    def __init__(self) -> None:
        self.tables: dict[str, list[str]] = {name: [] for name in COLUMNS if name not in DICTIONARIES}


def quoted(text: str) -> str:
    """Return a CSV cell: quoted exactly when it must be."""
    if "," in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


_WITH_DIGITS = tuple(f"%.{digits}f" for digits in range(5))


def number_text(value: float, digits: int) -> str:
    """Return a number as laboratories print it: that many decimals, trailing zeros dropped."""
    if digits == 0:
        return str(round(value))
    return (_WITH_DIGITS[digits] % value).rstrip("0").rstrip(".")
