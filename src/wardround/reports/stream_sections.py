"""Charts of a stream: its score, the quality of experiences and the weights of edges over its updates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from wardround.reports import charts
from wardround.reports.analyses import Section

WINDOW = 20
"""The score is a running mean over this number of updates."""
_SPREAD = ("lowest tenth", "middle", "highest tenth")
_MOST_TICKS = 6
_LONGEST_NAME = 26

Line = list[tuple[float, float]]


def stream_sections(record: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the charts of a stream's record; none without updates."""
    if not record["updates"]:
        return
    yield _score(record)
    titles = {one["id"]: one["title"] for one in record["experiences"]}
    for name, title, text in (
        ("quality", "Quality of experiences over the stream", "Q over all tasks"),
        ("weight", "Weights of edges over the stream", "W of the edges"),
    ):
        if any(record[name]["spread"]):
            yield _values(record, name, title, text, titles)


def _score(record: Mapping[str, Any]) -> Section:
    scores = [step["score"] for step in record["updates"]]
    means = [(number, fmean(scores[max(0, number - WINDOW) : number])) for number in record["after"] if number]
    shown, masked = (sum(step[side] for step in record["updates"]) for side in ("shown", "masked"))
    return Section(
        title="Score over the stream",
        text=f"Mean score of the last {WINDOW} updates. {masked:,} of {shown + masked:,} recalled experiences were "
        "masked at random, so the stream itself scores less than a run with the same bank.",
        chart=charts.lines(
            {"score": means}, title="Score over the stream", axis="updates", ticks=_ticks(record["after"])
        ),
    )


def _values(record: Mapping[str, Any], name: str, title: str, text: str, titles: Mapping[str, str]) -> Section:
    """Draw the spread of all, and those that changed most."""
    told, after = record[name], record["after"]
    series: dict[str, Line] = {}
    for place, label in enumerate(_SPREAD):
        series[label] = [
            (number, spread[place]) for number, spread in zip(after, told["spread"], strict=True) if spread
        ]
    for one, values in told["lines"].items():
        points = [(number, value) for number, value in zip(after, values, strict=True) if value is not None]
        series[_short(titles.get(one, one), series)] = points
    return Section(
        title=title,
        text=f"{text}: three lines of the spread, and the {len(told['lines'])} that moved most.",
        chart=charts.lines(
            {label: points for label, points in series.items() if points},
            title=title,
            axis="updates",
            ticks=_ticks(after),
        ),
    )


def _short(name: str, taken: Mapping[str, Line]) -> str:
    """Return a name that fits beside a line and is not used yet."""
    short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    number = 2
    found = short
    while found in taken:
        found, number = f"{short} ({number})", number + 1
    return found


def _ticks(after: Sequence[int]) -> list[float]:
    step = max(1, (len(after) - 1) // (_MOST_TICKS - 1))
    return [float(number) for number in after[::step]]
