"""wardround: language-model clinicians over raw health records that see only what was known at the time.

The rooms, from the bottom up: ``core`` ``codes`` ``records`` ``synth`` ``log`` ``models`` ``tools`` ``agents``
``benchmarks`` ``scoring`` ``runs`` ``serve`` ``cli``. A room imports only rooms above it in that list.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
