"""Plain text tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; columns of numbers align right."""
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [bool(rows) and all(_is_number(cell) for cell in column[1:]) for column in columns]
    for line in (header, *rows):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(cells).rstrip())


def _is_number(text: str) -> bool:
    return text.strip("+-").replace(",", "").replace(".", "").replace("%", "").isdigit() or text in ("", "–")
