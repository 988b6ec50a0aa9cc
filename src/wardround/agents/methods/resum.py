"""ReSum: RetroSum's hook without either retrospect. A summary of the newest calls replaces the history (eq. 3-5)."""

from __future__ import annotations

from wardround.agents.method import Method
from wardround.agents.methods.retrosum import SummarySettings, summing

RESUM_METHODS = (
    Method(
        name="resum",
        title="ReSum: every w calls a summary replaces the history",
        make=summing(actor=False, summariser=False),
        settings=SummarySettings,
        tables=(2, 4),
        paper="retrosum",
    ),
)
