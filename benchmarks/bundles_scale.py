"""Bundles, states, text and rules at scale: events a CPU second, and the cost of an event by the number of patients.

python benchmarks/bundles_scale.py batch STORE [STORE ...]
python benchmarks/bundles_scale.py rules STORE                       # text, states and the coded roles under 441 rules
python benchmarks/bundles_scale.py rules STORE --times 248           # 43 M events of 200 patients, read again and again
python benchmarks/bundles_scale.py rules STORE --protocol FILE       # under the rules of a file (`protocol induce`)
python benchmarks/bundles_scale.py sizes --scratch FOLDER            # stores of 1,000, 10,000 and 100,000 patients

The live stream: stream_scale.py.
"""

from __future__ import annotations

import argparse
import gc
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from wardround.agents.stays.batch import batch_steps
from wardround.agents.stays.player import CodedRoles
from wardround.agents.stays.settings import TraceSettings
from wardround.clinical.bundles import batch_states, bundle_texts, step_targets, store_bundles
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex, read_protocol
from wardround.records import Store, ingest, load_source_spec

CORPUS = 43_000_000
"""Events of one phase of the paper."""
RULES = 441
SPEC = """
[source]
name = "many"
[tables.results]
path = "results"
event_time = "taken"
available_at = "max(taken, stored)"
label = "test"
value = "value"
unit = "unit"
[tables.results.columns]
subject_id = "int"
taken = "time"
stored = "time"
test = "text"
value = "float"
unit = "text"
[[roles.lab]]
table = "results"
label = "test"
time = "taken"
value = "value"
unit = "unit"
"""
TESTS = ("Lactate", "Creatinine", "Sodium", "Potassium", "Hemoglobin", "Glucose", "Urea Nitrogen")
ROWS_EACH = 20


def batch(paths: list[Path]) -> None:
    """Print events a CPU second of bundling with states for every store, and with targets beside for the first."""
    base = 0.0
    for path in paths:
        events, seconds = _states_of(path)
        base = base or seconds / events
        each = seconds / events
        print(f"{path}: {events:,} events: {events / seconds:,.0f} events a CPU second")
        print(f"  {each * 1e6:.2f} us an event, {each / base:.2f} x the first store")
    started = time.process_time()
    events = sum(len(stream.columns) for stream in store_bundles(Store.open(paths[0])) if step_targets(stream))
    print(f"{paths[0]}, with targets: {events / (time.process_time() - started):,.0f} events a CPU second")


def _states_of(path: Path) -> tuple[int, float]:
    store, started = Store.open(path), time.process_time()
    events = sum(len(batch_states(stream).events) for stream in store_bundles(store))
    return events, time.process_time() - started


def rules(path: Path, times: int, file: Path | None) -> None:
    """Print what text, states and the coded roles cost, the store read so often, and what the paper's corpus would."""
    gc.disable()
    store = Store.open(path)
    names = sorted({name for stream in store_bundles(store) for name in stream.columns.names})
    protocol = many_rules(names) if file is None else read_protocol(file)
    roles = CodedRoles(index=RuleIndex(protocol), settings=TraceSettings())
    started, events, bundles, held = time.process_time(), 0, 0, 0
    for stream in chain.from_iterable(store_bundles(store) for _ in range(times)):
        events += len(stream.columns)
        bundles += len(stream)
        bundle_texts(stream)
        held += sum(len(step.held) for step in batch_steps(stream, roles))
    seconds = time.process_time() - started
    print(f"{events:,} events in {bundles:,} bundles, {len(protocol.rules)} rules, {held / bundles:.1f} hold at a step")
    print(f"  {seconds / events * 1e6:.1f} us an event: {CORPUS:,} in {seconds / events * CORPUS / 60:.1f} CPU-minutes")


def many_rules(names: list[str]) -> GlobalProtocol:
    """Return rules of one or two conditions over what there is."""
    dice = random.Random(3)
    made = []
    for place in range(RULES):
        one, other = dice.sample(names, 2)
        how = dice.choice(("is high", "is low", "is rising", "> 5"))
        more = dice.choice(("", f" AND done {other}", f" AND NOT done {other}", " AND hours since stay > 12"))
        actions = (f"order {other}", f"start {dice.choice(names)}")
        made.append(ProtocolRule(id=f"R{place}", category="ANY", trigger=f"{one} {how}{more}", actions=actions))
    return GlobalProtocol(name="many", rules=tuple(made))


def sizes(scratch: Path | None) -> None:
    """Print the cost of an event in stores of ever more patients, made for this."""
    base = 0.0
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        spec = Path(name) / "many.toml"
        spec.write_text(SPEC, encoding="utf-8")
        for patients in (1_000, 10_000, 100_000):
            folder = Path(name) / str(patients)
            folder.mkdir()
            (folder / "results.csv").write_text("".join(invented_rows(patients)), encoding="utf-8")
            ingest(load_source_spec(spec), folder, Path(f"{folder}-store"))
            events, seconds = _states_of(Path(f"{folder}-store"))
            base = base or seconds / events
            print(f"{patients:,} patients, {events:,} events: {seconds / events * 1e6:.2f} us CPU an event", end="")
            print(f", {seconds / events / base:.2f} x; peak {_peak():.2f} GB")


def invented_rows(patients: int) -> Iterator[str]:
    """Yield the text of a table of results, the patients mixed."""
    dice = random.Random(1)
    yield "subject_id,taken,stored,test,value,unit\n"
    for _ in range(ROWS_EACH):
        for subject in range(1, patients + 1):
            taken = datetime(2150, 1, 1) + timedelta(minutes=dice.randrange(4 * 24 * 60))
            times = f"{taken:%Y-%m-%d %H:%M:%S},{taken + timedelta(minutes=40):%Y-%m-%d %H:%M:%S}"
            yield f"{subject},{times},{dice.choice(TESTS)},{dice.uniform(1, 90):.1f},u\n"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["batch", "rules", "sizes"])
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--scratch", type=Path, help="where stores are made, 1 GB")
    parser.add_argument(
        "--times", type=int, default=1, help="rules: read the store so often (43 M events of a small one)"
    )
    parser.add_argument("--protocol", type=Path, help="rules: a file of rules in the place of 441 made ones")
    given = parser.parse_args()
    if given.what == "sizes":
        sizes(given.scratch)
    elif given.what == "rules":
        rules(given.paths[0], given.times, given.protocol)
    else:
        batch(given.paths)
    print(f"peak memory {_peak():.2f} GB")


if __name__ == "__main__":
    main()
