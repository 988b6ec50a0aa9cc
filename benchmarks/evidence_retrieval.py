"""Planted evidence: how often each way of retrieving shows the row that a question is about, at one budget of events.

Run: python benchmarks/evidence_retrieval.py [--patients 400] [--events 9000] [--seed 12] [--encoder lexical]

Histories of about 10,000 events and their needles are made by ``planted_histories.py``; charts are open at their end.
A needle is found when its row (of a laboratory test: its latest row) is among the rows a method shows. Seed 11 is for
trying settings (--alpha, --chunk-time, --embedded, --candidates), seed 12 for reporting: nothing is chosen on it.

Budgets: 1,000 events (RAG and uniform 10 chunks, rule-based and direct 1,000 events; ETHER the 5 latest values of the
10 indicators nearest by name, no model, and as many text chunks as fit) and 500. ``ether`` is the paper's eq. 3,
``stretched`` the same with cosines stretched to 0..1 over the pool, ``timeless`` with alpha 1; ``one round`` is what
the paper retrieves in one round (5 chunks and the indicators). Intervals: 2,000 bootstrap draws over histories.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from planted_histories import KINDS, Needle, make_histories
from wardround.core import derive_seed, from_microseconds
from wardround.records import EventColumns, Store, ingest
from wardround.synth import synthesize
from wardround.tools.retrieval import EvidenceIndex, Passage, RetrievalSettings, VectorCache, open_encoder

LATE = datetime(2400, 1, 1)
DRAWS = 2_000
Rows = frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One question on one history, and which methods found its row."""

    subject_id: int
    kind: str
    wording: str
    position: str
    found: dict[str, bool]
    shown: dict[str, int]


def rows_of(passages: Iterable[Passage]) -> Rows:
    """The rows of some passages, each once."""
    return frozenset(row for passage in passages for row in passage.rows)


def rag(index: EvidenceIndex, chunks: int, question: str) -> Rows:
    """Chunks of all events by likeness."""
    return rows_of(index.nearest(question, chunks))


def uniform(index: EvidenceIndex, chunks: int, question: str) -> Rows:
    """Chunks of all events at random, others for every question and history."""
    return rows_of(index.uniform(chunks, derive_seed("uniform", index.row_ids([0]), question)))


def rule(index: EvidenceIndex, events: int, question: str) -> Rows:
    """The commonest events."""
    return frozenset(index.frequent_events(events).rows)


def direct(index: EvidenceIndex, events: int, question: str) -> Rows:
    """The latest events."""
    return frozenset(index.recent_events(events).rows)


def ether(index: EvidenceIndex, chunks: int, events: int, question: str) -> Rows:
    """The latest values of the nearest indicators, no model in between, and as many text chunks by eq. 3 as fit."""
    names = index.coarse_indicators(question)[: index.settings.fine]
    numbers = frozenset(row for trajectory in index.trajectories(names) for row in trajectory.rows)
    found = [rows_of(index.text_evidence(question, count)) | numbers for count in range(chunks + 1)]
    return max((rows for rows in found if len(rows) <= events), key=len)


def methods(open_index: Callable[..., EvidenceIndex]) -> dict[str, Callable[[str], Rows]]:
    """Every method at its budget."""
    index, printed = open_index(), open_index(likeness="cosine")
    stretched, timeless = open_index(likeness="scaled"), open_index(alpha=1.0, likeness="cosine")
    found: dict[str, Callable[[str], Rows]] = {}
    for budget, chunks in ((1000, 10), (500, 5)):
        found |= {
            f"rag {budget}": partial(rag, index, chunks),
            f"uniform {budget}": partial(uniform, index, chunks),
            f"rule {budget}": partial(rule, index, budget),
            f"direct {budget}": partial(direct, index, budget),
            f"ether {budget}": partial(ether, index, chunks, budget),
            f"ether printed {budget}": partial(ether, printed, chunks, budget),
            f"ether stretched {budget}": partial(ether, stretched, chunks, budget),
            f"ether timeless {budget}": partial(ether, timeless, chunks, budget),
        }
    return found | {"ether, one round": partial(ether, index, 5, 550)}


def attempts(store: Store, needles: Sequence[Needle], open_index: Callable[..., EvidenceIndex]) -> list[Attempt]:
    """Ask both questions of every needle."""
    made = []
    for subject in sorted({needle.subject_id for needle in needles}):
        columns = store.chart(subject, LATE).event_columns()
        as_of = from_microseconds(int(columns.time[-1]))
        columns = store.chart(subject, as_of).event_columns()
        asked = methods(partial(open_index, columns, as_of))
        for needle in needles:
            if needle.subject_id == subject:
                place = place_of(columns, needle)
                position = ("early", "middle", "recent")[np.searchsorted([0.2, 0.8], place / len(columns))]
                for wording, question in needle.questions.items():
                    shown = {name: ask(question) for name, ask in asked.items()}
                    made.append(
                        Attempt(
                            subject_id=subject,
                            kind=needle.kind,
                            wording=wording,
                            position=position,
                            found={name: place in rows for name, rows in shown.items()},
                            shown={name: len(rows) for name, rows in shown.items()},
                        )
                    )
    return made


def place_of(columns: EventColumns, needle: Needle) -> int:
    """The latest row with the needle's label; it must be on the chart."""
    named = [place for place, text in enumerate(columns.descriptions) if text == needle.label]
    places = np.flatnonzero(np.isin(columns.concept, named))
    if not len(places):
        raise AssertionError(f"{needle.label!r} was planted in {needle.subject_id}, but is not on the chart")
    return int(places[-1])


def interval(values: dict[int, list[float]]) -> tuple[float, float, float]:
    """Mean over all questions and its 95 % bootstrap interval over histories."""
    sums = np.array([[sum(one), len(one)] for one in values.values()], float)
    dice = np.random.default_rng(0)
    drawn = sums[dice.integers(len(sums), size=(DRAWS, len(sums)))].sum(axis=1)
    means = drawn[:, 0] / drawn[:, 1]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(sums[:, 0].sum() / sums[:, 1].sum()), float(low), float(high)


def by_history(made: Sequence[Attempt], value: Callable[[Attempt], float]) -> dict[int, list[float]]:
    """Values of attempts, by history."""
    grouped: dict[int, list[float]] = {}
    for one in made:
        grouped.setdefault(one.subject_id, []).append(value(one))
    return grouped


def recall(method: str, one: Attempt) -> float:
    """1 where a method found the row."""
    return float(one.found[method])


def ahead(ours: str, theirs: str, one: Attempt) -> float:
    """How far one method is ahead of another."""
    return recall(ours, one) - recall(theirs, one)


def report(made: Sequence[Attempt]) -> None:
    """Print recall per method, overall and by kind, wording and position; and ETHER against RAG, paired."""
    groups: dict[str, list[Attempt]] = {"all": list(made)}
    groups |= {wording: [one for one in made if one.wording == wording] for wording in ("same words", "other words")}
    groups |= {spot: [one for one in made if one.position == spot] for spot in ("early", "middle", "recent")}
    groups |= {kind: [one for one in made if one.kind == kind] for kind in KINDS}
    for name, group in groups.items():
        if not group:
            continue
        print(f"\n{name} (n = {len(group)})")
        for method in group[0].found:
            mean, low, high = interval(by_history(group, partial(recall, method)))
            events = np.mean([one.shown[method] for one in group])
            print(f"  {method:<28} recall {mean:.3f} ({low:.3f} to {high:.3f})   events shown {events:7.1f}")
        for budget in (1000, 500):
            for ours in (f"ether {budget}", f"ether stretched {budget}"):
                mean, low, high = interval(by_history(group, partial(ahead, ours, f"rag {budget}")))
                print(f"  {f'{ours} - rag {budget}':<35} {mean:+.3f} ({low:+.3f} to {high:+.3f})")


def main() -> None:
    """Make the histories, ask, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=400)
    parser.add_argument("--events", type=int, default=9_000)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--encoder", default="lexical")
    parser.add_argument("--keep", type=Path, help="folder for raw files, store and vectors, to use again")
    defaults = RetrievalSettings()
    parser.add_argument("--alpha", type=float, default=defaults.alpha)
    parser.add_argument("--candidates", type=int, default=defaults.candidates)
    parser.add_argument("--chunk-time", default=defaults.chunk_time)
    parser.add_argument("--embedded", default=defaults.embedded)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = (arguments.keep or Path(name)) / f"seed-{arguments.seed}"
        if not (folder / "raw").exists():
            synthesize(folder / "raw", patients=arguments.patients, seed=arguments.seed)
        needles = make_histories(folder / "raw", folder / "planted", events=arguments.events, seed=arguments.seed)
        if not (folder / "store").exists():
            ingest("mimiciv", folder / "planted", folder / "store")
        store = Store.open(folder / "store")
        cache = VectorCache(folder / "vectors.sqlite")
        encoder = open_encoder(arguments.encoder, cache=cache)

        chosen = {name: getattr(arguments, name) for name in ("alpha", "candidates", "chunk_time", "embedded")}

        def open_index(columns: EventColumns, as_of: datetime, **changed: Any) -> EvidenceIndex:
            settings = RetrievalSettings(**(chosen | changed))
            return EvidenceIndex(columns, as_of=as_of, encoder=encoder, settings=settings)

        made = attempts(store, needles, open_index)
        lengths = [len(store.chart(subject, LATE).event_columns()) for subject in {one.subject_id for one in made}]
        print(
            f"seed {arguments.seed}, encoder {encoder.name}, vectors of {arguments.embedded}, alpha {arguments.alpha:g}"
        )
        print(f"{len(lengths)} histories of {min(lengths):,} to {max(lengths):,} events, {len(needles)} needles")
        report(made)
        cache.close()


if __name__ == "__main__":
    main()
