"""Corrections planted into a synthetic hospital: results that a laboratory gives another value later.

MIMIC-IV's tables have no versions, so that they lie in a table of their own, which a form with versions writes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from wardround.core import derive_seed
from wardround.synth.dialects.source import Row, moment

CORRECTED_AFTER = timedelta(minutes=130)
"""A planted correction is told so long after the result was."""
_RANGE = 2**63


def drawn_corrections(
    stay: Row, results: Sequence[Row], meets: Callable[[float], bool], *, value: float, share: float, seed: str
) -> Iterator[Row]:
    """Yield corrections of a share of the results of one test that meet a rule, each before the next one is taken:
    which result, how it reads from then on, since when."""
    for row, after in zip(results, [*results[1:], None], strict=True):
        known = moment(row["storetime"]) + CORRECTED_AFTER
        ends = stay["outtime"] if after is None else min(stay["outtime"], after["charttime"], after["storetime"])
        fits = stay["intime"] <= row["storetime"] and row["charttime"] <= row["storetime"]
        if not (fits and meets(float(row["valuenum"])) and known < moment(ends)):
            continue
        if derive_seed(seed, row["labevent_id"], "correction") / _RANGE < share:
            yield {"labevent_id": row["labevent_id"], "valuenum": f"{value:g}", "storetime": str(known)}
