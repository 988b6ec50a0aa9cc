"""Bundles and states at scale: events a CPU second, cost per event by size. Live: stream_scale.py.

python benchmarks/bundles_scale.py batch STORE [STORE ...]
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

from wardround.bundles import batch_states, bundle_text, step_targets, store_bundles
from wardround.records import Store


def batch(paths: list[Path]) -> None:
    """Print events a CPU second of bundling with states, with targets beside, and with text, for every store."""
    base = 0.0
    for path in paths:
        store = Store.open(path)
        started = time.process_time()
        events = sum(len(batch_states(stream).events) for stream in store_bundles(store))
        seconds = time.process_time() - started
        base = base or seconds / events
        each = seconds / events
        print(
            f"{path}: {len(store.subjects):,} subjects, {events:,} events: {events / seconds:,.0f} events a CPU second"
        )
        print(f"  {each * 1e6:.2f} us an event, {each / base:.2f} x the first store")
    store = Store.open(paths[0])
    for name, work in (("targets", step_targets), ("text", lambda stream: [bundle_text(each) for each in stream])):
        started = time.process_time()
        events = sum(len(stream.columns) for stream in store_bundles(store) if work(stream) is not None)
        print(f"{paths[0]}, with {name}: {events / (time.process_time() - started):,.0f} events a CPU second")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["batch"])
    parser.add_argument("paths", type=Path, nargs="+")
    batch(parser.parse_args().paths)


if __name__ == "__main__":
    main()
