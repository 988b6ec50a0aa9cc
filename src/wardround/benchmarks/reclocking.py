"""The same questions on other clocks: what a benchmark's samples are worth to who sees rows before they were known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.facts import CLOCKS
from wardround.core import UserError
from wardround.records import Policy


def reclock(benchmark: Benchmark, policy: Policy, folder: Path) -> Benchmark:
    """Save a copy of a benchmark that is asked on the charts of another clock policy; samples and candidates stay.

    Two runs, one on each, differ by what the clocks show and by nothing else. UserError: it has that policy already.
    """
    if benchmark.policy == policy:
        raise UserError(f"the benchmark {benchmark.name!r} is asked on the clocks {policy!r} already")
    manifest = {
        **benchmark.manifest,
        "policy": policy,
        "clocks": CLOCKS[policy],
        "reclocked": {"from": benchmark.policy, "samples": benchmark.digest},
    }
    return replace(benchmark, manifest=manifest, folder=None).save(folder)
