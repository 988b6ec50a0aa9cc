"""Numeric events by indicator: the named series of section 3.2 of the EHR-RAG paper.

An indicator is an event name, as in the paper, together with its unit: values in mg/dL and mmol/L are no one series,
values in g/dL and g/dl are, under the commoner spelling. Where a name has several units each is named ``name [unit]``.
With ``indicator="code"`` tests of one name and different codes (blood and urine glucose) are kept apart too, named
``name [code]``. An infinite value is no measurement: such rows stay among the text events, so that they are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wardround.clinical.vocabulary.units import plain_unit
from wardround.core import from_microseconds
from wardround.records import EventColumns
from wardround.tools.retrieval.chunks import IndicatorTrajectory
from wardround.tools.retrieval.event_lines import number_texts
from wardround.tools.retrieval.evidence_settings import Indicator

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """One indicator's rows, in time order."""

    unit: str | None
    places: Places


class Indicators:
    """The indicators of one chart, by name, names in alphabetical order."""

    def __init__(self, columns: EventColumns, places: Places, *, by: Indicator) -> None:
        self._columns = columns
        self._series = _named_series(columns, places, by)
        self.names: tuple[str, ...] = tuple(self._series)
        self._folded = {_folded(name): name for name in reversed(self.names)}

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the indicators that are meant, each once, in the order named; case and outer spaces are forgiven."""
        found = (name if name in self._series else self._folded.get(_folded(name)) for name in names)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def trajectories(self, names: Iterable[str], *, recent: int) -> tuple[IndicatorTrajectory, ...]:
        """Return the last ``recent`` values of indicators, in the order named. Names it does not know are left out."""
        return tuple(self._trajectory(name, recent) for name in self.known(names))

    def _trajectory(self, name: str, recent: int) -> IndicatorTrajectory:
        series, columns = self._series[name], self._columns
        places = series.places[max(0, len(series.places) - recent) :] if recent > 0 else series.places[:0]
        values = columns.numeric_value[places]
        times = zip(columns.time[places].tolist(), columns.is_static[places].tolist(), strict=True)
        moments = [None if static else from_microseconds(time) for time, static in times]
        return IndicatorTrajectory(
            name=name,
            unit=series.unit,
            values=tuple(zip(moments, values.tolist(), strict=True)),
            rows=tuple(places.tolist()),
            total=len(series.places),
            value_texts=tuple(text or "" for text in number_texts(values)),
        )


def _named_series(columns: EventColumns, places: Places, by: Indicator) -> dict[str, _Series]:
    places = places[np.isfinite(columns.numeric_value[places]) & ~columns.notes.without_unit[places]]
    names = [" ".join(text.split()) for text in columns.descriptions]
    keys = [(names[place], columns.codes[place] if by == "code" else "") for place in range(len(names))]
    units = columns.unit_array.take(pa.array(places)).dictionary_encode()
    unit_texts = [*(plain_unit(text) and " ".join(text.split()) for text in units.dictionary.to_pylist()), None]
    unit_places = np.asarray(units.indices.fill_null(len(unit_texts) - 1), np.int64)
    unit_texts = _one_spelling(unit_texts, np.bincount(unit_places, minlength=len(unit_texts)).tolist())
    pairs, back = np.unique(columns.concept[places] * len(unit_texts) + unit_places, return_inverse=True)
    grouped: dict[tuple[str, str, str | None], list[int]] = defaultdict(list)
    for number, pair in enumerate(pairs.tolist()):
        name, code = keys[pair // len(unit_texts)]
        grouped[name, code, unit_texts[pair % len(unit_texts)]].append(number)
    labels = _labels(list(grouped))
    order = np.argsort(back, kind="stable")
    starts = np.searchsorted(back[order], np.arange(len(pairs) + 1))
    series: dict[str, _Series] = {}
    for key in sorted(grouped, key=lambda key: labels[key]):
        rows = np.concatenate([order[starts[number] : starts[number + 1]] for number in grouped[key]])
        series[labels[key]] = _Series(unit=key[2], places=places[np.sort(rows)])
    return series


def _one_spelling(units: list[str | None], counts: list[int]) -> list[str | None]:
    """Return each unit in the commonest spelling of those that differ in case only."""
    best: dict[str, tuple[int, str]] = {}
    for unit, count in zip(units, counts, strict=True):
        if unit is not None:
            best[unit.casefold()] = max(best.get(unit.casefold(), (-1, "")), (count, unit))
    return [None if unit is None else best[unit.casefold()][1] for unit in units]


def _labels(keys: list[tuple[str, str, str | None]]) -> dict[tuple[str, str, str | None], str]:
    """Name each indicator: the event name, with code and unit only where the name alone means several."""
    codes: dict[str, set[str]] = defaultdict(set)
    units: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for name, code, unit in keys:
        codes[name].add(code)
        units[name, code].add(unit)
    labels = {}
    for name, code, unit in keys:
        label = f"{name} [{code}]" if len(codes[name]) > 1 else name
        labels[name, code, unit] = f"{label} [{unit or 'no unit'}]" if len(units[name, code]) > 1 else label
    used_labels: set[str] = set()
    for key in sorted(labels, key=lambda key: (labels[key], str(key))):  # a name may itself look like another's label
        label, number = labels[key], 2
        while labels[key] in used_labels:
            labels[key] = f"{label} ({number})"
            number += 1
        used_labels.add(labels[key])
    return labels


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
