"""What pages of the viewer cost, asked for one after the other: milliseconds, CPU and kilobytes of each kind."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from starlette.testclient import TestClient

_NAME = 40


def print_page_times(client: TestClient, kinds: Mapping[str, Sequence[str]]) -> None:
    """Print a table with a row for each kind of page. AssertionError: a page is not there."""
    print(f"{'page':<{_NAME}}{'n':>5}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}{'KB':>7}")
    for name, addresses in kinds.items():
        times, sizes, cpu = [], [], time.process_time()
        for address in addresses:
            begun = time.perf_counter()
            answer = client.get(address)
            times.append((time.perf_counter() - begun) * 1e3)
            sizes.append(len(answer.content) / 1e3)
            assert answer.status_code == 200, address
        spent = (time.process_time() - cpu) / len(addresses) * 1e3
        p95 = statistics.quantiles(times, n=20)[-1] if len(times) > 1 else times[0]
        row = f"{statistics.median(times):>9.0f}{p95:>9.0f}{spent:>9.0f}{max(sizes):>7.0f}"
        print(f"{name:<{_NAME}}{len(times):>5}{row}")
