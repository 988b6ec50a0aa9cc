"""The last answer of a task of one's own: that of the subject's latest question whose rows the chart shows by now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wardround.benchmarks.own.questions import END_OF_TIME, Label, Labelling, Moment
from wardround.benchmarks.sample import Sample
from wardround.records import Chart, Policy, Store

LOOKS_BACK = 20
"""At most so many earlier questions of the subject are looked at: each is labelled for this alone."""
NO_ROWS = "the labels of this task name no rows, so when an earlier answer was known cannot be told"


def last_answers(
    labelling: Labelling, moments: Iterable[Moment], samples: Sequence[Sample], store: Store, policy: Policy
) -> dict[str, tuple[str, ...]] | str:
    """Return, by sample, the target of the latest earlier question all of whose rows are on the sample's chart.

    A no that nothing tells has no rows, so it is never taken for known. Where no label names a row: why there is none.
    """
    if samples and not any(sample.facts["row_ids"] for sample in samples):
        return NO_ROWS
    earlier: dict[int, list[Moment]] = {}
    for moment in sorted(moments, key=lambda one: one.prediction_time):
        earlier.setdefault(moment.subject_id, []).append(moment)
    found = {}
    for sample in samples:
        asked = sample.moment
        before = [one for one in earlier.get(sample.subject_id, ()) if one.prediction_time < asked][-LOOKS_BACK:]
        future = store.chart(sample.subject_id, END_OF_TIME, policy=policy)
        chart = store.chart(sample.subject_id, asked, policy=policy)
        labels = (labelling.label(moment, future) for moment in reversed(before))
        target = next((label.target for label in labels if label is not None and _is_known(label, chart)), None)
        if target is not None:
            found[sample.id] = target
    return found


def _is_known(label: Label, chart: Chart) -> bool:
    """Whether a chart shows every row of a label, of which there is one at least."""
    return bool(label.row_ids) and all(row in _rows(chart, row.partition(":")[0]) for row in label.row_ids)


def _rows(chart: Chart, table: str) -> frozenset[str]:
    if table not in chart.table_names:
        return frozenset()
    return frozenset(chart.table(table).batch.column("row_id").to_pylist())
