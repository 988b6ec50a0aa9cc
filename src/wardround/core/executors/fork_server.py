"""Loaded last by the process that others are forked from, and by no other: what it leaves to its children.

It was started with SIGINT and SIGTERM blocked. Its children hear SIGTERM, and not Ctrl-C: who started them answers it.
"""

from __future__ import annotations

import gc
import os
import signal


def _hear_the_end() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


os.register_at_fork(after_in_child=_hear_the_end)
gc.collect()
gc.freeze()  # what is loaded is shared as long as no child looks for garbage in it
