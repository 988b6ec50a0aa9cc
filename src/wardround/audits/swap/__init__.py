"""The outcome swap: raw files of the same past with another future, by tables written by hand and not by our specs.

``tables/*.toml`` say of every file of a source, from clinical sense, when its rows and cells could be known. Nothing in
this package reads a spec of :mod:`wardround.records.sources`: what a spec gets wrong, it cannot get wrong with it.
"""

from wardround.audits.swap.knowledge import SwapTable, load_swap_table, parse_swap_table, swap_sources
from wardround.audits.swap.write import Clocks, SwapCounts, write_swapped

__all__ = [
    "Clocks",
    "SwapCounts",
    "SwapTable",
    "load_swap_table",
    "parse_swap_table",
    "swap_sources",
    "write_swapped",
]
