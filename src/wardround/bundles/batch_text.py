"""The words of many bundles at once, as columns: what ``bundle_text`` says of each, with no step per event."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wardround.bundles.events import BundleEvents, BundleStream, Integers
from wardround.bundles.kinds import EventKind, ValueLevel
from wardround.bundles.text import ENDED, GAP_HOURS, LEVEL_WORDS, MANY_NORMAL, SECTIONS, VERBS, panel_of

Mask = npt.NDArray[np.bool_]
_KINDS = max(EventKind) + 1
_PLACES = {name: place for place, name in enumerate(SECTIONS)}
_SECTION = np.array([next((_PLACES[n] for n, kinds in SECTIONS.items() if k in kinds), 0) for k in range(_KINDS)])


def bundle_texts(stream: BundleStream) -> list[str]:
    """Return a stream's bundles as ``bundle_text`` says them, in order."""
    if not len(stream):
        return []
    pieces = _pieces(stream)
    lines = _lines(pieces)
    bundle = np.concatenate([np.arange(len(stream)), lines.bundle])
    order = np.argsort(bundle, kind="stable")
    texts = pa.concat_arrays([_headers(stream), lines.text]).take(pa.array(order))
    whole: list[str] = _joined(texts, _heads(bundle[order]), "\n").to_pylist()
    return whole


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pieces:
    """Parts of texts (n,), in order. ``bundle``, ``section``: where each stands; ``text``: an Arrow array."""

    bundle: Integers
    section: Integers
    text: Any

    def take(self, places: Integers) -> _Pieces:
        return replace(
            self, bundle=self.bundle[places], section=self.section[places], text=self.text.take(pa.array(places))
        )


def _headers(stream: BundleStream) -> Any:
    """Return the hour of every bundle, with the gap before it where one is said."""
    hours = np.char.replace(np.datetime_as_string(stream.hours.astype("datetime64[h]")), "T", " ")
    said = pc.binary_join_element_wise("[", pa.array(hours), ":00]", "")
    gaps = pc.binary_join_element_wise("[TIME_DELTA: +", pa.array(stream.gaps).cast(pa.string()), " hours]\n", "")
    return pc.binary_join_element_wise(pc.if_else(pa.array(stream.gaps >= GAP_HOURS), gaps, ""), said, "")


def _lines(pieces: _Pieces) -> _Pieces:
    """Join the pieces of every section to its line."""
    heads = _heads(pieces.bundle * len(SECTIONS) + pieces.section)
    section = pieces.section[heads[:-1]]
    names = pa.array(list(SECTIONS)).take(pa.array(section))
    text = pc.binary_join_element_wise(names, _joined(pieces.text, heads, "; "), ": ")
    return _Pieces(bundle=pieces.bundle[heads[:-1]], section=section, text=text)


def _pieces(stream: BundleStream) -> _Pieces:
    """Return what is said of every concept of a bundle, then of the panels that are folded, section by section."""
    events = stream.columns
    bundle = np.repeat(np.arange(len(stream)), np.diff(stream.starts))
    rank = np.unique(np.array([*events.names, ""], dtype=object), return_inverse=True)[1][events.concept]
    hidden, panels = _folded(events, bundle)
    said = _series(events, bundle, rank, ~hidden)
    both = _Pieces(
        bundle=np.concatenate([said.bundle, panels.bundle]),
        section=np.concatenate([said.section, panels.section]),
        text=pa.concat_arrays([said.text, panels.text]),
    )
    return both.take(np.lexsort((both.section, both.bundle)))


def _series(events: BundleEvents, bundle: Integers, rank: Integers, shown: Mask) -> _Pieces:
    """Return one piece for the events of one kind and concept in a bundle, each text of a section once."""
    section = _SECTION[events.kind]
    order = np.lexsort((rank, events.kind, section, bundle))
    order = order[shown[order]]
    same = (bundle[order] * _KINDS + events.kind[order]) * (len(events.names) + 1) + rank[order]
    heads = _heads(same)
    last = order[heads[1:] - 1]
    pieces = _Pieces(
        bundle=bundle[last],
        section=section[last],
        text=_with_earlier(events.take(order), heads, _event_texts(events.take(last))),
    )
    return _each_once(pieces)


def _each_once(pieces: _Pieces) -> _Pieces:
    words = pieces.text.dictionary_encode()
    code = np.asarray(words.indices, np.int64)
    key = (pieces.bundle * len(SECTIONS) + pieces.section) * max(len(words.dictionary), 1) + code
    first = np.unique(key, return_index=True)[1]
    return pieces if len(first) == len(key) else pieces.take(np.sort(first))


def _with_earlier(events: BundleEvents, heads: Integers, said: Any) -> Any:
    """Add to the text of every group's last event what was measured before it, or how often it was."""
    sizes = np.diff(heads)
    last = heads[1:] - 1
    valued = ~np.isnan(events.value)
    before = valued.copy()
    before[last] = False
    counts = np.add.reduceat(before, heads[:-1]) if len(last) else sizes
    starts = np.append(0, np.cumsum(counts))
    listed = _joined(_numbers(events.value[before]), starts, ", ")
    earlier = pc.binary_join_element_wise(" [before: ", listed, "]", "")
    often = pc.binary_join_element_wise(" (x", pa.array(sizes).cast(pa.string()), ")", "")
    more = pc.if_else(pa.array(sizes > 1), often, "")
    return pc.binary_join_element_wise(said, pc.if_else(pa.array((counts > 0) & valued[last]), earlier, more), "")


def _event_texts(events: BundleEvents) -> Any:
    """Return what ``event_text`` says of every event."""
    ended = np.isin(events.kind, ENDED)
    valued = ~np.isnan(events.value)
    text, unit = _filled(events.text), _filled(events.unit)
    value = pc.if_else(pa.array(valued), _numbers(events.value), text)
    has_unit = pc.or_(pa.array(valued), pc.is_valid(text))
    words = (
        _verbs().take(pa.array(events.kind)),
        _filled(pa.array([*events.names], pa.string())).take(pa.array(events.concept)),
        _where(~ended, value),
        _where(~ended, pc.if_else(has_unit, unit, pa.scalar(None, pa.string()))),
        _levels().take(pa.array(events.level)),
        _where((events.revision != 0) & ~ended, "(corrected)"),
    )
    # Arrow leaves out a row of nulls alone: with an empty word before all there is none
    return pc.utf8_slice_codeunits(pc.binary_join_element_wise("", *words, " ", null_handling="skip"), start=1)


@cache
def _verbs() -> Any:
    """The word before what an event is of, by kind. Not made on import: Arrow's first array imports pandas."""
    words = {int(kind): verb for kind, verb in VERBS.items()}
    return pa.array([words.get(kind) for kind in range(_KINDS)], pa.string())


@cache
def _levels() -> Any:
    words = {int(level): f"({word})" for level, word in LEVEL_WORDS.items()}
    return pa.array([words.get(int(level)) for level in ValueLevel], pa.string())


def _folded(events: BundleEvents, bundle: Integers) -> tuple[Mask, _Pieces]:
    """Return which events are not said one by one, and what is said of the panels that they are of."""
    panels = [panel_of(name) for name in events.names]
    known = [*dict.fromkeys(name for name in panels if name is not None)]
    panel = np.array([-1 if name is None else known.index(name) for name in panels] or [-1])[events.concept]
    rows = np.flatnonzero((events.kind == EventKind.LAB) & (panel >= 0))
    tests, test = np.unique(bundle[rows] * len(events.names) + events.concept[rows], return_inverse=True)
    abnormal = np.zeros(len(tests), dtype=bool)
    np.logical_or.at(abnormal, test, (events.level[rows] != ValueLevel.NORMAL) | (events.revision[rows] != 0))
    groups, first, group = np.unique(
        bundle[rows] * max(len(known), 1) + panel[rows], return_index=True, return_inverse=True
    )
    of_test = np.zeros(len(tests), np.int64)
    of_test[test] = group
    normal = np.bincount(of_test[~abnormal], minlength=len(groups))
    folds = normal >= MANY_NORMAL
    hidden = np.zeros(len(events), dtype=bool)
    hidden[rows] = ~abnormal[test] & folds[group]
    chosen = np.flatnonzero(folds)[np.argsort(first[folds], kind="stable")]
    whole = normal == np.bincount(of_test, minlength=len(groups))
    return hidden, _panel_pieces(groups[chosen], normal[chosen], whole[chosen], known)


def _panel_pieces(groups: Integers, normal: Integers, whole: Mask, known: list[str]) -> _Pieces:
    count = max(len(known), 1)
    word = pc.if_else(pa.array(whole), "all", "others")
    names = pa.array(known, pa.string()).take(pa.array(groups % count))
    numbers = pa.array(normal).cast(pa.string())
    text = pc.binary_join_element_wise(names, ": ", word, " normal (", numbers, ")", "")
    return _Pieces(bundle=groups // count, section=np.full(len(groups), _PLACES["Labs"]), text=text)


def _numbers(values: npt.NDArray[np.float64]) -> Any:
    """Return numbers as they are written; they come again and again, so that each is written once."""
    words = pa.array(values).dictionary_encode()
    written = pa.array([f"{value:g}" for value in words.dictionary.to_pylist()], pa.string())
    return written.take(words.indices)


def _filled(words: Any) -> Any:
    """Return words, null where they are empty."""
    return _where(np.asarray(pc.fill_null(pc.not_equal(words, ""), False)), words)


def _where(mask: Mask, words: Any) -> Any:
    return pc.if_else(pa.array(mask), words, pa.scalar(None, pa.string()))


def _heads(key: Integers) -> Integers:
    """Return where every run of one key begins, and the end of all."""
    fresh = np.append([True], key[1:] != key[:-1])[: len(key)]
    return np.append(np.flatnonzero(fresh), len(key))


def _joined(words: Any, starts: Integers, between: str) -> Any:
    """Return the words of every run from one start to the next as one."""
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(starts, pa.int32()), words), between)
