"""How an optional part of wardround is installed: said in one place, because it changes with the first release."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return the command for an extra. There is no release yet, so it names the folder of the sources.

    >>> how_to_install("mcp")
    "pip install '.[mcp]' in wardround's source folder"
    """
    return f"pip install '.[{extra}]' in wardround's source folder"
