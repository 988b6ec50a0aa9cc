"""The sources: a folder each, with its spec, the reasons for its clocks, and its code if it has any.

A source whose files are tables needs no code. Other raw files are made flat first (``flatten.py``).
"""

from wardround.records.sources.flatten import flattened

__all__ = [
    "flattened",
]
