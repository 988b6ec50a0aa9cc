"""The text of a PDF, read by a process of its own (`core/confined.py`)."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from wardround.core import ConfinedReader, UnreadableBytes, UserError, missing_extra

MOST_PAGES = 500
"""The limit of a file; later pages are left out, with a note."""
_READER = ConfinedReader(
    "wardround.tools.knowledge.pdf_text:read_confined", cpu_seconds=60, wall_seconds=120.0, memory_bytes=2 * 2**30
)


def read_pdf(body: bytes, name: str) -> str:
    """Return the text of a PDF, pages one after the other. Raises UserError if it is unreadable or takes too long.

    ``name`` names it in errors.
    """
    if find_spec("pypdf") is None:
        raise missing_extra("knowledge", what="reading PDF", why="no pypdf here")
    try:
        read, _ = _READER.read(body, pages=MOST_PAGES)
    except UnreadableBytes:
        raise UserError(f"{name} is no PDF that can be read (damaged, encrypted, or made to take too much)") from None
    left_out = read["count"] - len(read["texts"])
    more = [f"[{left_out:,} more pages are not shown]"] if left_out > 0 else []
    return "\n\n".join([*(text.strip() for text in read["texts"]), *more])


def read_confined(body: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Read the pages: what the process of its own runs."""
    import pypdf

    logging.disable(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(body))
    shown = range(min(len(reader.pages), arguments["pages"]))
    return {"count": len(reader.pages), "texts": [reader.pages[n].extract_text() or "" for n in shown]}, []
