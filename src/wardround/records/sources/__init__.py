"""The sources: a folder each, with its spec, the reasons of its clocks, and its code where it has any.

A source of tables needs no code. The raw files of others are made flat first (``flatten.py``).
"""

from wardround.records.sources.flatten import flattened

__all__ = [
    "flattened",
]
