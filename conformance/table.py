"""The outcome as tables: one of suites, and below it every scenario that did not simply pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.outcomes import Scenario, SuiteResult

_HEAD = ("suite", "held against", "asked by", "scenarios", "passed", "not applicable", "failed", "not run", "seconds")


def table(results: Sequence[SuiteResult]) -> str:
    """The suites as Markdown."""
    return "\n".join(_lines([_HEAD, *(_row(one) for one in results)]))


def page(results: Sequence[SuiteResult], introduction: str, *, when: str) -> str:
    """The whole page: introduction, table, and each suite's scenarios."""
    parts = [introduction.rstrip(), f"## The last round: {when}", table(results)]
    for one in results:
        parts += [f"### {one.name}", "\n".join(_said(one.scenarios))]
    return "\n\n".join(part for part in parts if part) + "\n"


def _row(one: SuiteResult) -> tuple[str, ...]:
    counts = (one.count("passed"), one.count("not applicable"), one.count("failed"), one.count("not run"))
    return (one.name, one.version, one.by, str(len(one.scenarios)), *map(str, counts), f"{one.seconds:.0f}")


def _said(scenarios: Sequence[Scenario]) -> Iterator[str]:
    rows = [("scenario", "outcome", "")]
    rows += [(one.name, one.verdict, one.why) for one in scenarios]
    yield from _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for place, row in enumerate(rows):
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"
        if place == 0:
            yield "|" + "---|" * len(row)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
