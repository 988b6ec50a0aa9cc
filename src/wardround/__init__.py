"""wardround: language-model clinicians over raw health records that see only what was known at the time.

A notebook needs this package alone (``import wardround as wd``); each name is imported when it is first used:

==================  ====================================================================
``synthesize``      write a synthetic hospital
``ingest``          read a source's files into a store
``open_store``      open a store; ``store.chart(subject_id, as_of)`` is a record at a time
``Environment``     the tools on a chart: ``Environment(chart).call(name, arguments)``
``build_benchmark`` build a benchmark from a store
``open_benchmark``  open one
``run``             run agents on a benchmark, or continue a run
``open_run``        open a run: its scores, episodes, report
``forecast``        what a run would take: tokens, US dollars, hours
``reproduce``       run a paper's table or figure, its own figures beside ours
``compare``         compare runs with a baseline run
``settings``        list every setting of a run
==================  ====================================================================
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wardround.records import Store
    from wardround.records.ingest.ingest import ingest as ingest
    from wardround.reports import OpenedRun
    from wardround.reports import compare as compare
    from wardround.reports import forecast as forecast
    from wardround.reports import run as run
    from wardround.reports import settings as settings
    from wardround.reports.exhibits import reproduce as reproduce
    from wardround.synth import synthesize as synthesize
    from wardround.tasks.benchmarks import Benchmark
    from wardround.tasks.benchmarks import build_benchmark as build_benchmark
    from wardround.tools import Environment as Environment

    open_store, open_benchmark, open_run = Store.open, Benchmark.open, OpenedRun.open

__version__ = "0.1.0"

_PLACES = {
    "Environment": "wardround.tools:Environment",
    "build_benchmark": "wardround.tasks.benchmarks:build_benchmark",
    "compare": "wardround.reports:compare",
    "forecast": "wardround.reports:forecast",
    "ingest": "wardround.records:ingest",
    "open_benchmark": "wardround.tasks.benchmarks:Benchmark.open",
    "open_run": "wardround.reports:OpenedRun.open",
    "open_store": "wardround.records:Store.open",
    "reproduce": "wardround.reports.exhibits:reproduce",
    "run": "wardround.reports:run",
    "settings": "wardround.reports:settings",
    "synthesize": "wardround.synth:synthesize",
}
"""Where each name is defined."""

__all__ = [
    "Environment",
    "__version__",
    "build_benchmark",
    "compare",
    "forecast",
    "ingest",
    "open_benchmark",
    "open_run",
    "open_store",
    "reproduce",
    "run",
    "settings",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    """Import a name when it is first used."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, path = _PLACES[name].partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
