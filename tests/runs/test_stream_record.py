"""What is told of a stream, by hand: values at revisions, spreads, who moved most; and the charts made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wardround.core import UserError
from wardround.memory.credit import CoinEvidence, EffectPosterior, effect_of
from wardround.reports.stream_sections import stream_sections
from wardround.runs import evolution_record
from wardround.runs.evolution_record import StreamStep, read_record, stream_record, write_record


class TellingBank:
    """A bank as far as a record asks it: revisions 11, 13 and 16 are those of three updates."""

    path = Path("/banks/b.sqlite")
    revision = 20

    def __init__(self) -> None:
        self.qualities: dict[str, dict[int, float | None]] = {
            "moved": {11: 0.5, 13: 0.9},
            "still": {10: 0.7},
            "late": {16: 0.2},
            "back": {11: 0.6, 16: None},
        }
        self.weights: dict[tuple[str, str], dict[int, float | None]] = {
            ("moved-long-name", "still-long-name"): {13: 0.25, 16: 0.75},
            ("a", "b"): {16: 0.3},
        }

    def at(self, *, revision: int) -> Any:
        assert revision == self.revision
        polar = [SimpleNamespace(id=name, polar=True) for name in self.qualities]
        return SimpleNamespace(every_experience=[*polar, SimpleNamespace(id="no part of the graph", polar=False)])

    def course(self, revisions: list[int]) -> Any:
        for number in revisions:
            edges = [
                SimpleNamespace(source=source, target=target, weight=last_of(values, number))
                for (source, target), values in self.weights.items()
                if min(values) <= number
            ]
            qualities = {name: last_of(values, number) for name, values in self.qualities.items()}
            yield number, SimpleNamespace(quality=qualities.get, every_edge=lambda edges=edges: edges)

    def liveness(self) -> Any:
        return lambda name: name != "late"

    def history(self, name: str) -> Any:
        return [SimpleNamespace(title="an old title"), SimpleNamespace(title=f"title of {name}")]

    def graph(self) -> Any:
        met: dict[str, dict[str, CoinEvidence]] = {
            "moved": {"t": MET, "u": MET},
            "still": {"t": MET},
            "late": {"t": MET},
        }
        return SimpleNamespace(
            evidence=lambda name: met.get(name, {}),
            effect=lambda name, task: HARMS if (name, task) == ("moved", "u") else effect_of(met[name][task]),
            quality={"moved": 0.9}.get,
        )


def last_of(values: Mapping[int, float | None], number: int) -> float | None:
    known = [value for moment, value in sorted(values.items()) if moment <= number]
    return known[-1] if known else None


MET = CoinEvidence().with_episode(0.5, shown=True).with_episode(0.0, shown=True).with_episode(-0.5, shown=False)
HARMS = EffectPosterior(mean=-0.2, sd=0.1, harm=0.977, shown=2, masked=1)
STEPS = [
    StreamStep(revision=11, task="t", score=1.0, shown=2, masked=0),
    StreamStep(revision=13, task="u", score=0.5, shown=0, masked=3),
    StreamStep(revision=16, task="t", score=0.0, shown=1, masked=1),
]


def told() -> dict[str, Any]:
    return stream_record(cast(Any, TellingBank()), STEPS, {"s-0": 12, "s-2": 13, "s-3": 16}, bar_above=0.95)


def test_a_record_tells_every_update_and_what_held_after_each() -> None:
    record = told()
    assert {name: record[name] for name in ("schema", "bank", "after", "snapshots", "barred", "live")} == {
        "schema": 1,
        "bank": "/banks/b.sqlite",
        "after": [0, 1, 2, 3],
        "snapshots": {"s-0": 1, "s-2": 2, "s-3": 3},
        "barred": 1,
        "live": 3,
    }
    assert record["updates"][1] == {"revision": 13, "task": "u", "score": 0.5, "shown": 0, "masked": 3}
    assert len(record["updates"]) == 3


def test_qualities_begin_at_a_half_and_weights_at_nothing() -> None:
    record = told()
    # at revisions 10, 11, 13, 16: moved .5 .5 .9 .9, still .7 throughout, late .5 .5 .5 .2, back .5 .6 .6 .5
    spreads = [(0.5, 0.5, 0.64), (0.5, 0.55, 0.67), (0.53, 0.65, 0.84), (0.29, 0.6, 0.84)]
    assert [pytest.approx(one) for one in record["quality"]["spread"]] == spreads
    assert record["quality"]["lines"] == {
        "moved": [0.5, 0.5, 0.9, 0.9],
        "late": [0.5, 0.5, 0.5, 0.2],
        "back": [0.5, 0.6, 0.6, 0.5],
    }, "the furthest first, and none that stood still"
    assert record["weight"] == {
        "spread": [None, None, [0.25] * 3, pytest.approx([0.345, 0.525, 0.705])],
        "lines": {"moved-lo > still-lo": [None, None, 0.25, 0.75]},
    }


def test_experiences_that_met_most_episodes_come_first_with_their_effects() -> None:
    body, harms = asdict(effect_of(MET)), asdict(HARMS)
    assert told()["experiences"] == [
        {
            "id": "moved",
            "title": "title of moved",
            "live": True,
            "quality": 0.9,
            "effects": {"t": body, "u": harms},
            "barred": ["u"],
        },
        {
            "id": "late",
            "title": "title of late",
            "live": False,
            "quality": None,
            "effects": {"t": body},
            "barred": [],
        },
        {
            "id": "still",
            "title": "title of still",
            "live": True,
            "quality": None,
            "effects": {"t": body},
            "barred": [],
        },
    ]


def test_a_stream_without_an_update_tells_the_bank_as_it_is() -> None:
    record = stream_record(cast(Any, TellingBank()), [], {}, bar_above=0.95)
    assert (record["after"], record["updates"], record["snapshots"]) == ([0], [], {})
    assert record["quality"]["spread"] == [[0.5, 0.5, 0.5]]
    assert record["quality"]["lines"] == {}


@pytest.mark.parametrize(
    ("updates", "points"),
    [(1, [0, 1]), (25, [*range(26)]), (26, [*range(13), *range(14, 27)]), (100, [*range(0, 101, 4)])],
)
def test_at_most_26_moments_are_told_the_first_and_the_last_among_them(updates: int, points: list[int]) -> None:
    assert evolution_record._checkpoints(updates) == points


def test_six_lines_and_thirty_rows_are_told() -> None:
    bank = TellingBank()
    bank.qualities = {f"e{number:02d}": {11: number / 100} for number in range(40)}
    bank.graph = lambda: SimpleNamespace(
        evidence=lambda name: {"t": MET}, effect=lambda name, task: effect_of(MET), quality=lambda name: None
    )  # type: ignore[method-assign]
    record = stream_record(cast(Any, bank), STEPS, {}, bar_above=0.95)
    assert list(record["quality"]["lines"]) == [f"e{number:02d}" for number in range(6)], "0.5 is where they begin"
    assert [one["id"] for one in record["experiences"]] == [f"e{number:02d}" for number in range(30)]


def test_a_record_is_read_as_it_was_written_and_by_no_other_version(tmp_path: Path) -> None:
    folder = cast(Any, SimpleNamespace(path=tmp_path))
    assert read_record(folder) is None
    write_record(folder, {"schema": 1, "after": [0]})
    assert read_record(folder) == {"schema": 1, "after": [0]}
    assert (tmp_path / "evolution.json").read_text() == '{\n "schema": 1,\n "after": [\n  0\n ]\n}\n'
    for other in (0, 2):
        write_record(folder, {"schema": other})
        with pytest.raises(UserError, match=f"has schema {other}, this wardround reads 1: evolve the bank again"):
            read_record(folder)


NOTHING = {"spread": [None], "lines": {}}
STEPS_TOLD = [{"score": 0.5, "shown": 0, "masked": 0}] * 3


def drawn_lines(record: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    """The sections of a record, and what their charts were asked to draw."""
    asked: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "wardround.reports.charts.lines",
            lambda series, **named: asked.append({"series": series, **named}) or "chart",
        )
        return list(stream_sections(record)), asked


def test_a_stream_is_three_charts() -> None:
    sections, asked = drawn_lines(told())
    assert [one.title for one in sections] == [
        "Score over the stream",
        "Quality of experiences over the stream",
        "Weights of edges over the stream",
    ]
    assert [one.chart for one in sections] == ["chart"] * 3
    assert sections[0].text.startswith("Mean score of the last 20 updates. 4 of 7 recalled experiences were masked")
    assert sections[1].text == "Q over all tasks: three lines of the spread, and the 3 that moved most."
    score, quality, weight = asked
    assert score == {
        "series": {"score": [(1, 1.0), (2, 0.75), (3, 0.5)]},
        "title": "Score over the stream",
        "axis": "updates",
        "ticks": [0.0, 1.0, 2.0, 3.0],
    }
    assert list(quality["series"])[:3] == ["lowest tenth", "middle", "highest tenth"]
    assert list(quality["series"])[3:] == ["title of moved", "title of late", "back"], (
        "of what was met there is a title"
    )
    assert quality["series"]["middle"] == [(0, 0.5), (1, pytest.approx(0.55)), (2, pytest.approx(0.65)), (3, 0.6)]
    assert quality["title"] == "Quality of experiences over the stream"
    assert (quality["axis"], quality["ticks"]) == ("updates", [0.0, 1.0, 2.0, 3.0])
    assert weight["series"] == {
        "lowest tenth": [(2, 0.25), (3, pytest.approx(0.345))],
        "middle": [(2, 0.25), (3, pytest.approx(0.525))],
        "highest tenth": [(2, 0.25), (3, pytest.approx(0.705))],
        "moved-lo > still-lo": [(2, 0.25), (3, 0.75)],
    }


def test_a_score_is_the_mean_of_the_last_twenty() -> None:
    record = told()
    record["updates"] = [{"score": float(n), "shown": 0, "masked": 0} for n in range(21)]
    record |= {"after": [0, 20, 21], "quality": NOTHING, "weight": NOTHING}
    _, asked = drawn_lines(record)
    assert asked[0]["series"]["score"] == [(20, 9.5), (21, 10.5)]


@pytest.mark.parametrize(
    ("moments", "ticks"),
    [(1, [0]), (6, [0, 1, 2, 3, 4, 5]), (11, [0, 2, 4, 6, 8, 10]), (10, [*range(10)]), (26, [0, 5, 10, 15, 20, 25])],
)
def test_an_axis_names_some_six_moments(moments: int, ticks: list[int]) -> None:
    record = told() | {"after": list(range(moments)), "quality": NOTHING, "weight": NOTHING}
    record["updates"] = STEPS_TOLD * 9
    _, asked = drawn_lines(record)
    assert asked[0]["ticks"] == ticks
    assert len(asked) == 1, "what has no spread has no chart"


def test_names_are_26_letters_long_and_told_apart() -> None:
    record = told()
    record["quality"]["lines"] = dict.fromkeys("abcd", [0.5] * 4) | {"e": [None] * 4}
    long = "x" * 26
    record["experiences"] = [
        {"id": name, "title": title}
        for name, title in zip("abcd", (long, long + "y", long + "z", long + "w"), strict=True)
    ]
    _, asked = drawn_lines(record)
    short = f"{'x' * 25}…"
    assert list(asked[1]["series"])[3:] == [long, short, f"{short} (2)", f"{short} (3)"], "and e has no point at all"


def test_nothing_is_drawn_of_a_stream_without_updates() -> None:
    assert list(stream_sections(told() | {"updates": []})) == []
