"""What an agent's or a tool's code is handed holds no way to what is later or somebody else's: cheats that were played.

Each goes from object to object by attributes, closures, bases of arrays and buffers, as thirty lines in a plug-in can.
What only a process boundary keeps (importing the store, frames of the interpreter, files) is in docs/security.md.
"""

from __future__ import annotations

import asyncio
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from doubles import ListRecorder

from wardround.agents import Episode, Hooks, Limits, Prompt, StepPrediction, get_agent, run_episode
from wardround.agents.loop.steps import ChartScore
from wardround.clinical.bundles import Bundle, subject_bundles
from wardround.clinical.bundles.files import END_OF_TIME
from wardround.core import LeakError, from_microseconds
from wardround.log import EpisodeLog
from wardround.models import ModelSettings, OfflineModel
from wardround.records import Chart, Store
from wardround.runs import RunSettings
from wardround.runs.stays import stay_feed
from wardround.runs.worker import open_environment, open_run_images
from wardround.tasks.benchmarks import Benchmark, Sample
from wardround.tools import Environment, EnvironmentOptions


def reached(*things: object) -> Iterator[object]:
    """Everything that some things lead to; not by modules, classes or the names that a function's code uses."""
    stack, seen, held = list(things), set[int](), list[object]()
    while stack:
        one = stack.pop()
        if id(one) in seen or isinstance(one, (types.ModuleType, type, int, float)):
            continue
        seen.add(id(one))
        held.append(one)  # an id is only an object's own while that is there
        yield one
        stack += _from(one)


def _from(one: Any) -> Iterable[object]:
    if isinstance(one, (str, bytes, bytearray)):
        return
    if isinstance(one, Mapping):
        yield from [*one.keys(), *one.values()]
    elif isinstance(one, (list, tuple, set, frozenset)):
        yield from one
    elif isinstance(one, types.MethodType):
        yield one.__self__
    elif isinstance(one, types.FunctionType):
        yield from [cell.cell_contents for cell in one.__closure__ or () if cell != types.CellType()]
        yield from one.__defaults__ or ()
    elif isinstance(one, partial):
        yield from (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, weakref.ref):
        yield one()
    elif isinstance(one, np.ndarray):
        yield from [one.base, *(one.tolist() if one.dtype == object else ())]
    elif isinstance(one, memoryview):
        yield one.obj
    elif isinstance(one, (pa.RecordBatch, pa.Table)):
        yield from one.columns
    elif isinstance(one, pa.ChunkedArray):
        yield from one.chunks
    elif isinstance(one, pa.Array):
        yield from [*one.buffers(), *([one.dictionary] if isinstance(one, pa.DictionaryArray) else ())]
    elif isinstance(one, pa.Buffer):
        yield from (one.parent, one.to_pybytes())
    yield from vars(one).values() if hasattr(one, "__dict__") else ()
    for name in (name for kind in type(one).__mro__ for name in _slots(kind)):
        yield getattr(one, name, None)


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else [name for name in slots if not name.startswith("__")]


def memory(*things: object) -> set[bytes]:
    """All texts and bytes that some things lead to."""
    texts = (one.encode("utf-8", "replace") if isinstance(one, str) else one for one in reached(*things))
    return {text for text in texts if isinstance(text, bytes)}


def leaked(held: set[bytes], names: Iterable[str], known: Iterable[str]) -> set[str]:
    """Those of the rows' names that stand in memory; one that is a part of a known row's name may."""
    whole, shown = b"\n".join(held), "\n".join(known)
    return {name for name in names if name not in shown and name.encode() in whole}


def all_ids(store: Store) -> dict[str, int]:
    """Every row of a store, and whose it is."""
    return {
        row_id: subject
        for table in store.table_names
        for subject, rows in store.scan(table, ["row_id"])
        for row_id in rows.column(0).to_pylist()
    }


def visible(chart: Chart) -> set[str]:
    return {name for table in chart.table_names for name in chart.table(table).batch.column(0).to_pylist()}


def hidden(chart: Chart, everyone: Mapping[str, int]) -> list[str]:
    """Some of the subject's rows that a chart does not show, and some of other people's."""
    later = sorted({name for name, subject in everyone.items() if subject == chart.subject_id} - visible(chart))
    others = sorted(name for name, subject in everyone.items() if subject != chart.subject_id)
    assert min(len(later), len(others)) > 100, "there is something to find"
    return [*later[:: len(later) // 100], *others[:: len(others) // 30]]


@pytest.fixture(scope="module")
def everyone(synthetic_store: Store) -> dict[str, int]:
    return all_ids(synthetic_store)


@pytest.fixture(scope="module")
def halfway(synthetic_store: Store) -> Chart:
    """The chart of whoever has the most events, at the middle of them, every table read."""
    charts = [synthetic_store.chart(int(subject), END_OF_TIME) for subject in synthetic_store.subjects]
    whole = max(charts, key=lambda chart: len(chart.event_columns()))
    times = whole.event_columns().time
    return synthetic_store.chart(whole.subject_id, from_microseconds(int(times[len(times) // 2])))


def test_a_chart_leads_to_no_row_that_it_does_not_show(halfway: Chart, everyone: dict[str, int]) -> None:
    shown = visible(halfway)
    list(halfway.events())
    held = memory(halfway)
    some = sorted(shown)[::50]
    assert len(leaked(held, some, ())) == len(some), "the search finds what is there"
    assert not leaked(held, hidden(halfway, everyone), shown)
    for array in (one for one in reached(halfway) if isinstance(one, pa.Array)):
        if pa.types.is_primitive(array.type):
            data = array.buffers()[1]
            assert data is None or data.size <= len(array) * 8 + 64, "a buffer of more rows than the chart has"


def test_nor_to_a_cell_that_is_not_known_yet(synthetic_store: Store, everyone: dict[str, int]) -> None:
    """The bytes below an empty cell are gone too: how somebody left the hospital, on the day they came."""
    stays = ((subject, row) for subject, rows in synthetic_store.scan("admissions") for row in rows.to_pylist())
    subject, stay = next((s, row) for s, row in stays if row["discharge_location"] and row["dischtime"])
    others = {row["discharge_location"] for row in synthetic_store.rows(subject, "admissions").to_pylist()}
    chart = synthetic_store.chart(subject, stay["admittime"] + timedelta(minutes=5))
    chart.age, chart.table("admissions"), visible(chart)
    known = {row["discharge_location"] for row in chart.table("admissions").batch.to_pylist()}
    held = b"\n".join(memory(chart.table("admissions").batch))
    assert not [place for place in others - known if place.encode() in held]


def test_a_chart_cannot_be_put_at_another_moment_or_subject(synthetic_store: Store, halfway: Chart) -> None:
    shown = visible(halfway)
    for other in (
        replace(halfway, as_of=END_OF_TIME),
        replace(halfway, subject_id=int(synthetic_store.subjects[0])),
        replace(halfway, policy="published"),
    ):
        assert visible(other) == shown
        assert {event.row_id for event in other.events()} <= shown
        assert other.age == halfway.age
    object.__setattr__(copy := replace(halfway), "as_of", END_OF_TIME)
    assert visible(copy) == shown
    assert visible(Chart(**{name: getattr(halfway, name) for name in _fields(halfway)})) == shown


def _fields(chart: Chart) -> list[str]:
    return [
        name
        for name in ("subject_id", "person", "as_of", "policy", "spec", "layouts", "inside")
        if hasattr(chart, name)
    ]


class Reaching(Hooks):
    """Looks at every moment for rows that the chart does not show."""

    def __init__(self, found: set[bytes]) -> None:
        self.found = found

    async def before_episode(self, episode: Episode) -> None:
        self.found |= memory(self, episode)

    async def after_turn(self, episode: Episode) -> None:
        self.found |= memory(episode)


def test_an_agents_hooks_and_tools_reach_only_the_chart(
    halfway: Chart, synthetic_store: Store, everyone: dict[str, int]
) -> None:
    """Of a whole episode with every cache filled: views, SQL, evidence, what was read."""
    found = set[bytes]()
    environment = Environment(halfway)
    environment.gate.query("SELECT * FROM labevents LIMIT 5")
    environment.evidence.prepare()
    agent = replace(get_agent("react"), hooks=(partial(Reaching, found),))
    asyncio.run(
        run_episode(
            agent,
            model=OfflineModel(synthetic_store.spec.roles),
            environment=environment,
            prompt=Prompt(user="What comes next?"),
            limits=Limits(turns=4),
            settings=ModelSettings(),
            recorder=ListRecorder(),
            episode="1",
        )
    )
    shown = visible(halfway)
    assert leaked(found, sorted(shown)[::50], ())
    assert not leaked(found, hidden(halfway, everyone), shown)


def test_what_a_run_hands_its_agents_leads_to_no_store_benchmark_or_log(
    synthetic_store: Store, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    """The run's own images led to the store by ``images.abilities._opened.args[1]``, its recorder to every episode."""
    benchmark = Benchmark.open(synthetic_benchmark_path)
    sample, other = benchmark.all_samples[0], benchmark.all_samples[-1]
    images = open_run_images(RunSettings(), synthetic_store)
    with EpisodeLog(tmp_path / "a.episodes.sqlite") as log:
        log.begin(other.id, {"subject_id": other.subject_id})
        recorder = log.begin(sample.id, {"subject_id": sample.subject_id})
        environment = open_environment(
            synthetic_store, benchmark, sample, EnvironmentOptions(max_result_tokens=500), images=images
        )
        environment.call("load_table", {"name": "admissions"})
        kept = (Store, Benchmark, Sample, EpisodeLog)
        assert any(isinstance(one, kept) for one in reached([environment, recorder, log])), "the search finds one"
        assert not [one for one in reached(environment, recorder) if isinstance(one, kept)]
        assert other.id.encode() not in memory(recorder)
        environment.close()


class Foreseeing:
    """Thirty lines that hand in what comes: the next bundle's actions, wherever they can be had."""

    coming: ClassVar[set[str]] = set()
    """Of the class: what the test itself knows is no way of the player's."""

    def __init__(self) -> None:
        self.known, self.names, self.handed = set[str](), set[str](), 0

    def begin(self, past: list[Bundle], carried: object, score: ChartScore) -> None:
        self._look(past, score)
        self.score = score
        with pytest.raises(LeakError):
            score("sofa", None, END_OF_TIME)

    async def predict(self, episode: Episode, bundle: Bundle) -> StepPrediction:
        self.handed += 1
        self._look([bundle], episode, self.score)
        self.score("sofa", None, bundle.hour + timedelta(minutes=59))
        with pytest.raises(LeakError):
            self.score("sofa", None, bundle.hour + timedelta(hours=1))
        return StepPrediction()

    def _look(self, handed: list[Bundle], *others: object) -> None:
        self.known |= {event.row_id for bundle in handed for event in bundle.events}
        self.names |= {event.concept for bundle in handed for event in bundle.events}
        assert not {name for one in handed for name in one.columns.names} - self.names, "names of what will come"
        new = leaked(memory(handed, *others), self.coming - self.known, self.known)
        assert not new, f"a row that comes later: {sorted(new)[:3]}"


def test_a_player_of_stays_reaches_only_the_bundles_it_was_handed(
    synthetic_store: Store, synthetic_stays_path: Any, halfway: Chart
) -> None:
    """The agent plug-in of issue 20: Recall@5 of 0.298 with ``Bundle.within``, where the best trivial one has 0.221."""
    benchmark = Benchmark.open(synthetic_stays_path)
    sample = max(benchmark.samples(), key=lambda sample: int(sample.facts["stop"]) - int(sample.facts["first"]))
    whole = subject_bundles(synthetic_store, sample.subject_id)
    Foreseeing.coming = {event.row_id for bundle in whole for event in bundle.events[:2]}
    player, recorder = Foreseeing(), ListRecorder()
    asyncio.run(
        run_episode(
            replace(get_agent("react"), steps=lambda: player),
            feed=stay_feed(synthetic_store, sample, recorder),
            model=OfflineModel(synthetic_store.spec.roles),
            environment=Environment(synthetic_store.chart(sample.subject_id, sample.moment)),
            prompt=Prompt(user=""),
            limits=Limits(steps=30),
            settings=ModelSettings(),
            recorder=recorder,
            episode="1",
        )
    )
    assert player.handed > 5
