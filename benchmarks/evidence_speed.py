"""What evidence out of a long chart costs: events as columns, the index, encoding, and retrieval with and without it.

Run: python benchmarks/evidence_speed.py [--store FOLDER | --patients 60] [--events 10000] [--repeats 30]

The subject is the one of the store whose record is just above ``--events`` long (else the longest), open at its end.
CPU is that of the process (time.process_time), median of many. Bars: a subject of 10,000 events costs <= 50 ms to index
and <= 20 ms to retrieve from without the encoder. Indexing is everything a query needs before vectors: which rows, the
text of every chunk, the time of every chunk, the indicators. Retrieval starts from vectors of query and chunks.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from wardround.records import Chart, EventColumns, Store, ingest
from wardround.records.chart.events import event_columns
from wardround.synth import synthesize
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.retrieval import CachedEncoder, EvidenceIndex, LexicalEncoder, VectorCache, Vectors, merge

LATE = datetime(2300, 1, 1)
QUERY = "clinical factors and events associated with prolonged hospital stay"


class Remembered:
    """An encoder that has every vector already: what is left is retrieval itself."""

    name = identity = "remembered"
    max_tokens = None

    def __init__(self) -> None:
        self._encoder = LexicalEncoder()
        self.dimensions = self._encoder.dimensions
        self._known: dict[tuple[str, ...], Vectors] = {}

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return vectors, encoded once."""
        key = tuple(texts)
        if key not in self._known:
            self._known[key] = self._encoder.encode(texts)
        return self._known[key]


def cpu_ms(action: Callable[[], object], repeats: int) -> list[float]:
    """CPU time of an action, in milliseconds, sorted."""
    costs = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        costs.append((time.process_time() - start) * 1e3)
    return sorted(costs)


def show(what: str, costs: list[float], bar: str = "") -> None:
    """Print one line of the table."""
    worst = costs[int(0.95 * (len(costs) - 1))]
    print(f"{what:<58} {statistics.median(costs):>9.2f} {worst:>9.2f}  {bar}")


def longest_chart(store: Store, events: int) -> Chart:
    """The chart with the fewest events above ``events``, else the one with the most."""
    counts = {subject: len(store.chart(subject, LATE).event_columns()) for subject in store.subjects.tolist()}
    above = [subject for subject, count in counts.items() if count >= events]
    chosen = min(above, key=lambda one: counts[one]) if above else max(counts, key=lambda one: counts[one])
    return store.chart(chosen, LATE)


def built(columns: EventColumns, chart: Chart, encoder: object) -> EvidenceIndex:
    """An index with everything but vectors."""
    index = EvidenceIndex(columns, as_of=chart.as_of, encoder=encoder)  # type: ignore[arg-type]
    index.prepare()
    return index


def retrieve(index: EvidenceIndex) -> object:
    """Everything EHR-RAG asks of an index for one query."""
    names = index.coarse_indicators(QUERY)
    return merge(*index.text_evidence(QUERY)), index.trajectories(names[:10])


def measure(chart: Chart, repeats: int, folder: Path) -> None:
    """Print the table of one chart."""
    tables = [chart.table(name) for name in chart.table_names]
    columns = event_columns(tables)
    index = built(columns, chart, Remembered())
    print(f"subject of {len(columns):,} events, {len(index.indicators)} indicators; CPU ms, median and 95th percentile")
    show("events as columns, tables read", cpu_ms(lambda: event_columns(tables), repeats))
    show("index build, without vectors", cpu_ms(lambda: built(columns, chart, Remembered()), repeats), "<= 50")
    index.nearest(QUERY)
    retrieve(index)
    show("ETHER: 5 passages merged, 10 indicators", cpu_ms(lambda: retrieve(index), repeats), "<= 20")
    show("RAG: 10 chunks", cpu_ms(lambda: index.nearest(QUERY), repeats), "<= 20")
    show("uniform: 10 chunks", cpu_ms(lambda: index.uniform(10, 1), repeats), "<= 20")
    show("rule-based: 1,000 events", cpu_ms(lambda: index.frequent_events(), repeats), "<= 20")
    show("direct: 1,000 events", cpu_ms(lambda: index.recent_events(), repeats), "<= 20")
    lexical = LexicalEncoder()
    fresh = min(repeats, 7)
    show(
        "ETHER from nothing, lexical encoding included", cpu_ms(lambda: retrieve(built(columns, chart, lexical)), fresh)
    )
    cache = VectorCache(folder / "vectors.sqlite")
    cached = CachedEncoder(lexical, cache, from_characters=500)
    retrieve(built(columns, chart, cached))
    show("the same, vectors in the cache", cpu_ms(lambda: retrieve(built(columns, chart, cached)), fresh))
    show("encoding: all chunks", cpu_ms(lambda: lexical.encode(index.chunk_texts), fresh))
    cache.close()
    environment = Environment(chart, default_toolset(evidence=True), EnvironmentOptions(encoder=lexical))
    ask = {"query": QUERY}
    environment.call("retrieve_evidence", ask)
    show("tool retrieve_evidence, index built", cpu_ms(lambda: environment.call("retrieve_evidence", ask), repeats))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store; without it a synthetic hospital is made")
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.store is None:
            synthesize(folder / "raw", patients=arguments.patients, seed=3)
            ingest("mimiciv", folder / "raw", folder / "store")
        store = Store.open(arguments.store or folder / "store")
        measure(longest_chart(store, arguments.events), arguments.repeats, folder)


if __name__ == "__main__":
    main()
