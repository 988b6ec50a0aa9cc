"""One round of every suite, printed as a table; ``make conformance`` writes it into docs/conformance.md.

python -m conformance build/conformance
python -m conformance build/conformance --suite cds-hooks server-json
python -m conformance build/conformance --page docs/conformance.md

What cannot be fetched here is not run, and the table says so. The exit status is 1 where a scenario fails.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from conformance.cds_hooks import run_cds_hooks
from conformance.fhir_search import run_fhir_search
from conformance.mcp_official import run_official
from conformance.mcp_revision import run_revision
from conformance.outcomes import CannotRun, Scenario, SuiteResult
from conformance.place import Place
from conformance.readers import run_readers
from conformance.server_json import run_server_json
from conformance.table import page, table

SUITES: Mapping[str, Callable[[Place], Iterable[SuiteResult]]] = {
    "mcp-official": run_official,
    "mcp-revision": run_revision,
    "server-json": run_server_json,
    "cds-hooks": run_cds_hooks,
    "fhir-search": run_fhir_search,
    "readers": run_readers,
}
LANES = (("mcp-official", "mcp-revision", "server-json", "cds-hooks", "fhir-search"), ("readers",))
"""Suites of one lane run one after another, lanes beside each other: half of the time is waiting for packages."""
_INTRODUCTION = Path(__file__).with_name("introduction.md")


def main() -> int:
    """Run the suites that are asked for."""
    given = _arguments()
    place = Place(given.folder.resolve())
    place.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    results = _run_all(given.suite, place)
    took = f"{time.monotonic() - began:.0f} s in all"
    print(f"{table(results)}\n{took}")
    for line in _remarks(results):
        print(line, file=sys.stderr)
    if given.page is not None:
        given.page.write_text(page(results, _INTRODUCTION.read_text(), when=f"{_when()}, {took}"))
    return int(any(result.failed for result in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where hospital, packages and logs are kept between rounds")
    parser.add_argument("--suite", nargs="+", choices=tuple(SUITES), default=tuple(SUITES), help="only these")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of documentation there")
    given = parser.parse_args()
    if given.page is not None and tuple(given.suite) != tuple(SUITES):
        parser.error("a page holds every suite: leave out --suite")
    return given


def _run_all(names: Sequence[str], place: Place) -> list[SuiteResult]:
    """Run suites, lanes beside each other; results come in the order of the names."""
    place.make()

    def run_lane(lane: Sequence[str]) -> Mapping[str, Sequence[SuiteResult]]:
        return {name: list(_run(name, place)) for name in lane if name in names}

    with ThreadPoolExecutor(len(LANES)) as threads:
        found = dict(one for lane in threads.map(run_lane, LANES) for one in lane.items())
    return [result for name in names for result in found[name]]


def _run(name: str, place: Place) -> Iterator[SuiteResult]:
    """Yield what came of one suite, with the time of each part; what breaks it is a failure of its own."""
    began = time.monotonic()
    try:
        for result in SUITES[name](place):
            yield _timed(result, time.monotonic() - began)
            began = time.monotonic()
    except CannotRun as error:
        yield _alone(name, Scenario(name=name, verdict="not run", why=str(error)), time.monotonic() - began)
    except Exception as error:
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}"[:400]
        yield _alone(name, Scenario(name=name, verdict="failed", why=why), time.monotonic() - began)


def _timed(result: SuiteResult, seconds: float) -> SuiteResult:
    """The time since the one before it, where a suite does not say its own."""
    return result if result.seconds else replace(result, seconds=seconds)


def _alone(name: str, scenario: Scenario, seconds: float) -> SuiteResult:
    return SuiteResult(name=name, version="", by="", scenarios=[scenario], seconds=seconds)


def _remarks(results: Sequence[SuiteResult]) -> Iterator[str]:
    for result in results:
        for one in result.scenarios:
            if one.verdict in ("failed", "not run"):
                yield f"{result.name}: {one.verdict}: {one.name}: {one.why}"


def _when() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, {platform.system()}"


if __name__ == "__main__":
    sys.exit(main())
