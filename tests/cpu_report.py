"""What the suite costs in processor time, its child processes included: ``WARDROUND_TEST_CPU=1 make test``.

Processor time, because wall time says how busy the machine is. What a shared fixture costs is on the first test's bill.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

DEAREST = int(os.environ.get("WARDROUND_DEAREST", "10"))


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    used = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


class CpuReport:
    """Sums what each process of the suite used; with xdist the workers send theirs."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()
        self.others = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = cpu_seconds()
        result = yield
        self.tests[item.nodeid] += cpu_seconds() - before
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["cpu"] = (dict(self.tests), cpu_seconds())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        tests, seconds = getattr(node, "workeroutput", {}).get("cpu", ({}, 0.0))
        self.tests.update(tests)
        self.others += seconds

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        own = resource.getrusage(resource.RUSAGE_SELF)  # the workers are children, but they have sent theirs
        total = self.others + own.ru_utime + own.ru_stime if self.others else cpu_seconds()
        terminalreporter.write_sep("=", f"{total:.0f} CPU-seconds; the dearest {DEAREST} tests and files")
        files: Counter[str] = Counter()
        for name, seconds in self.tests.items():
            files[name.partition("::")[0]] += seconds
        for name, seconds in (*self.tests.most_common(DEAREST), *files.most_common(DEAREST)):
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}")


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("WARDROUND_TEST_CPU") == "1":
        config.pluginmanager.register(CpuReport(), "wardround-cpu-report")
