"""What the synth tests share by name: the size and seed of their hospital, and the type of its reader."""

from __future__ import annotations

from collections.abc import Callable

Row = dict[str, str]
Reader = Callable[[str], list[Row]]
PATIENTS = 160
SEED = 11
