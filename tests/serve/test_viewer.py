"""The viewer: its pages over HTTP and as files, on one small run of the synthetic hospital."""

from __future__ import annotations

import html
import re
from base64 import b64encode
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from starlette.testclient import TestClient

from wardround.cli import main
from wardround.clinical.bundles import EventKind, ValueLevel, subject_bundles
from wardround.clinical.bundles.events import BundleEvent
from wardround.core import Sealed, UserError, to_microseconds, unsealed
from wardround.records.chart.chart import stored_rows
from wardround.records.shards.layout import AVAILABLE, EVENT
from wardround.reports.episode_card import facts_of
from wardround.reports.report import episode_page
from wardround.reports.standing import StandingEvent, StandingRecord, standing_record
from wardround.serve.viewer import NotFound, ViewedRun, ViewerPages, viewer_app, write_site
from wardround.serve.viewer.compare_view import sides_view
from wardround.serve.viewer.episode import page_counts, record_then_view
from wardround.serve.viewer.hidden_rows import rows_hidden_at
from wardround.serve.viewer.record import (
    FEWEST_MARKS,
    HEIGHT,
    MARGIN,
    MOST_MARKS,
    MOST_PANELS,
    WIDTH,
    Interest,
    draw_timeline,
)
from wardround.serve.viewer.record_lists import record_lists
from wardround.serve.viewer.run import ORDERS, SampleQuery, listed, read_query

HOSTILE = '"><script>alert(1)</script>'
TOKEN = "a-token-of-this-test"


@pytest.fixture(scope="module")
def run(viewed_run_path: Path) -> ViewedRun:
    return ViewedRun(viewed_run_path)


@pytest.fixture(scope="module")
def pages(run: ViewedRun) -> ViewerPages:
    return ViewerPages([run])


@pytest.fixture(scope="module")
def client(pages: ViewerPages) -> TestClient:
    return TestClient(viewer_app(pages), base_url="http://127.0.0.1:8765", raise_server_exceptions=False)


def links(text: str) -> set[str]:
    return {html.unescape(link) for link in re.findall(r'href="([^"]*)"', text)}


def test_every_link_of_every_page_leads_somewhere(client: TestClient, run: ViewedRun) -> None:
    waiting, seen = ["/"], dict[str, str]()
    while waiting:
        page = waiting.pop()
        if page not in seen:
            answer = client.get(page)
            assert answer.status_code == 200, page
            seen[page] = answer.text
            further = [link for link in links(answer.text) if ".record-" not in page or ".record-" not in link]
            waiting += [urljoin(page, link.partition("#")[0]) for link in further if link[0] != "#"]
    assert len([page for page in seen if re.search(r"/episodes/\w+\.html", page)]) == len(run.scores) == 8
    assert {name for page in seen for name in re.findall(r"\.([a-z-]+)-\d+\.html", page)} == {
        *("turns", "record", "not-yet-known")
    }
    for page, text in seen.items():
        for link in links(text):
            if link.startswith("#"):
                assert text.count(f'id="{link[1:]}"') == 1, (page, link)
        assert "<script" not in text
        assert " style=" not in text, "the policy of the page forbids it"
        assert len(text) <= 300_000
    assert "a &lt;run&gt; &amp; more" in seen["/"]
    assert any('href="#mark-' in text and 'href="#cite-' in text for text in seen.values())


def test_methods_and_tasks_stand_with_what_their_intervals_are(client: TestClient, run: ViewedRun) -> None:
    text = client.get("/runs/1/").text
    of_all = next(row for row in run.summary.rows if row.task == "labevents" and row.stratum == "all")
    assert f"<b>{of_all.f1.estimate:.3f}</b>" in text
    assert "few patients" in text
    (test,) = [row for row in run.summary.comparisons if row.task == "labevents" and row.stratum == "all"]
    assert f'data-name="p">{test.test.p_value:.4f}</td><td class="number"' in text


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/runs/2/index.html", "no run 2; there are 1"),
        ("/runs/1/episodes/0123456789abcdef.html", "no finished episode"),
        ("/runs/1/samples.html?sample=nobody", "has the sample &#39;nobody&#39;"),
        ("/runs/1/samples.html?sort=subject_id", "cannot be sorted by &#39;subject_id&#39;, only by sample, task"),
        ("/runs/1/samples.html?where=1=1", "cannot be chosen by &#39;where&#39;"),
        ("/runs/1/samples.html?after=nothing", "no finished episode &#39;nothing&#39;"),
        ("/nowhere", "Not Found: /nowhere"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(client: TestClient, address: str, said: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    (line,) = re.findall(r'<p class="note warn">(.*)</p>', answer.text)
    assert said in line


@pytest.mark.parametrize("name", ["task", "method", "score", "error", "sample", "sort", "after", HOSTILE])
def test_hostile_names_are_escaped(client: TestClient, name: str) -> None:
    answer = client.get("/runs/1/samples.html", params={name: HOSTILE})
    assert answer.status_code == 404
    assert "<script" not in answer.text
    assert "&lt;script&gt;" in answer.text


def test_filters_leave_what_fits(client: TestClient, run: ViewedRun) -> None:
    text = client.get("/runs/1/samples.html", params={"task": "labevents", "error": "", "sort": "-score"}).text
    wanted = {episode_page(score): score.value for score in run.scores if score.task == "labevents"}
    assert "4 episodes with task labevents" in text
    found = re.findall(r'href="(episodes/[^"]+)"', text)
    assert set(found) == set(wanted)
    assert [wanted[page] for page in found] == sorted(wanted.values(), reverse=True)
    assert '<option value="labevents" selected>' in text


@pytest.mark.parametrize("order", ORDERS)
def test_pages_neither_skip_nor_repeat(run: ViewedRun, order: str) -> None:
    found, after = [], None
    for _ in range(len(run.scores)):
        part = listed(run, SampleQuery(filters={}, order=order, after=after), rows=1)
        assert part.fitting == len(run.scores)
        found += [score.episode for score in part.rows]
        after = part.after
    assert after is None
    assert found == [score.episode for score in listed(run, SampleQuery(filters={}, order=order)).rows]
    assert set(found) == {score.episode for score in run.scores}


def test_the_next_page_is_of_the_same_filter_and_order(pages: ViewerPages, run: ViewedRun) -> None:
    query = SampleQuery(filters={"task": "labevents"}, order="-score")
    part = listed(run, query, rows=1)
    (link,) = (one for one in links(pages.samples_page(1, query, part)) if one.startswith("samples.html?task="))
    assert read_query(run, dict(parse_qsl(urlsplit(link).query))) == replace(query, after=part.after)
    assert "next page" not in pages.samples_page(1, query, listed(run, query))


def test_an_address_asks_for_what_it_says(run: ViewedRun) -> None:
    asked = {"task": "diagnoses", "method": "react · offline", "sort": "-turns", "score": ""}
    query = SampleQuery(filters={"task": "diagnoses", "method": "react · offline"}, order="-turns")
    assert read_query(run, asked) == query
    with pytest.raises(NotFound, match="has the task 'transfers'"):
        read_query(run, {"task": "transfers"})


def test_the_timeline_shows_nothing_later_than_the_prediction_time(pages: ViewerPages, run: ViewedRun) -> None:
    later = 0
    for page, score in run.pages.items():
        sample = run.samples[score.sample]
        moment = sample.prediction_time
        text = pages.episode_page(1, page).partition('id="timeline"')[2].partition('id="course"')[0]
        times = [datetime.fromisoformat(one) for one in re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", text)]
        assert times
        assert max(times) <= moment
        later += sum(
            max(e.time, e.known) > moment for b in subject_bundles(run.store, sample.subject_id) for e in b.events
        )
    assert later > 100, "there was something to hide"


def test_what_came_after_decides_nothing_on_the_timeline(run: ViewedRun) -> None:
    """The rows that came later are taken out of the store: the drawing is the same."""
    changed = 0
    for score in run.scores:
        sample = run.samples[score.sample]
        chart = run.store.chart(sample.subject_id, sample.prediction_time)
        now = pa.scalar(to_microseconds(chart.as_of), pa.int64())

        def without_future(table: str) -> pa.RecordBatch | None:
            rows = stored_rows(chart, table)  # noqa: B023 (called within the turn)
            if rows is None:
                return None
            clocks = [rows.column(name).cast(pa.int64()) for name in (EVENT, AVAILABLE)]
            kept = rows.filter(pc.less_equal(pc.max_element_wise(*clocks), now))  # noqa: B023
            return kept if kept.num_rows else None

        poorer = replace(chart, inside=Sealed(replace(unsealed(chart.inside), rows=without_future)))
        changed += sum(stored_rows(poorer, name) != stored_rows(chart, name) for name in chart.table_names)
        interest = Interest(read=frozenset(), cited={})
        stood = [standing_record(one, frozenset()) for one in (chart, poorer)]
        drawn = [draw_timeline(one, interest) for one in stood]
        assert drawn[0] == drawn[1]
        assert facts_of(chart, stood[0]) == facts_of(poorer, stood[1])
    assert changed > 0


MOMENT = datetime(2150, 1, 8)


def event(
    kind: EventKind, concept: str, hours: float, row: str, value: float | None = None, **more: Any
) -> StandingEvent:
    """An event so many hours before the moment, with limits 1 to 3."""
    time = MOMENT - timedelta(hours=hours)
    one = BundleEvent(
        kind=kind,
        concept=concept,
        value=value,
        **{"text": None, "unit": None, "level": ValueLevel.UNKNOWN, **more},
        time=time,
        known=time,
        row_id=row,
        revision=0,
    )
    return StandingEvent(event=one, low=1.0, high=3.0)


def test_places_are_those_of_the_times_and_values() -> None:
    record = StandingRecord(
        as_of=MOMENT,
        rows={},
        events=[
            event(EventKind.ADMISSION, "URGENT", 168, "admissions:1"),
            event(EventKind.LAB, "Lactate", 84, "labs:1", 1.0),
            event(EventKind.LAB, "Lactate", 0, "labs:2", 5.0),
            event(EventKind.MEDICATION_START, "Aspirin", 84, "orders:1"),
            event(EventKind.MEDICATION_STOP, "Aspirin", 42, "orders:1"),
            event(EventKind.MEDICATION_START, "Heparin", 42, "orders:2"),
        ],
    )
    drawn = draw_timeline(record, Interest(read={"labs:2", "orders:2"}, cited={"labs:2": 3}))
    assert drawn.start == MOMENT - timedelta(days=7)
    (panel,) = drawn.charts[0].panels
    assert [(mark.x, mark.y) for mark in panel.marks] == [(WIDTH / 2, HEIGHT - MARGIN), (WIDTH - MARGIN, MARGIN)]
    assert panel.band == (MARGIN + (5 - 3) / 4 * (HEIGHT - 2 * MARGIN), 2 / 4 * (HEIGHT - 2 * MARGIN))
    assert [(mark.is_read, mark.cite) for mark in panel.marks] == [(False, None), (True, 3)]
    places = {bar.row_id: (bar.x, bar.width, bar.is_open, bar.is_read) for bar in drawn.spans[0].bars}
    assert places["orders:1"] == (WIDTH / 2, WIDTH / 4, False, False)
    assert places["orders:2"] == (WIDTH * 3 / 4, WIDTH / 4, True, True)
    assert (drawn.drawn, drawn.read) == ({"labs:2": 3}, 2)


@pytest.mark.parametrize(
    ("begins", "ends", "place"),
    [
        (60, 24, None),  # at the moment the drawing begins
        (60, 23, (0.0, WIDTH / 24)),
        (24, 12, (0.0, WIDTH / 2)),
        (12, 12, (WIDTH / 2, 2.0)),
        (60, None, (0.0, WIDTH)),
        (0, None, (WIDTH - 2.0, 2.0)),
    ],
)
def test_what_was_over_before_the_drawing_begins_is_not_on_it(
    begins: float, ends: float | None, place: tuple[float, float] | None
) -> None:
    """The drawing begins with the stay, a day before the moment; what began earlier is drawn from its edge."""
    events = [event(EventKind.ADMISSION, "URGENT", 24, "admissions:1")]
    events.append(event(EventKind.MEDICATION_START, "Heparin", begins, "orders:1"))
    if ends is not None:
        events.append(event(EventKind.MEDICATION_STOP, "Heparin", ends, "orders:1"))
    record = StandingRecord(as_of=MOMENT, rows={}, events=events)
    drawn = draw_timeline(record, Interest(read=frozenset(), cited={}))
    assert drawn.start == MOMENT - timedelta(hours=24)
    places = [(bar.x, bar.width) for bar in drawn.spans[0].bars]
    assert places == ([] if place is None else [(place[0], pytest.approx(place[1], abs=0.05))])


@pytest.mark.parametrize(
    ("results", "drawn"),
    [
        ([MOST_MARKS], [MOST_MARKS]),
        ([MOST_MARKS + 1], [MOST_MARKS]),
        ([MOST_MARKS // 2, MOST_MARKS // 2 + 1], [MOST_MARKS // 2] * 2),
        ([FEWEST_MARKS, 2], [FEWEST_MARKS, 2]),
        ([10] * MOST_PANELS, [10] * MOST_PANELS),
    ],
)
def test_the_marks_of_a_page_are_shared_by_its_charts(results: list[int], drawn: list[int]) -> None:
    """What is left out is the oldest; the line of a chart goes through all of its results."""
    events = [
        event(EventKind.LAB, f"Test {place:02}", 1 + number / 100, f"labs:{place}-{number}", 2.0)
        for place, count in enumerate(results)
        for number in reversed(range(count))
    ]
    record = StandingRecord(as_of=MOMENT, rows={}, events=events)
    page = draw_timeline(record, Interest(read=frozenset(), cited={}))
    panels = [panel for section in page.charts for panel in section.panels]
    assert [len(panel.marks) for panel in panels] == drawn
    assert [panel.results for panel in panels] == results
    assert [panel.marks[-1].row_id for panel in panels] == [f"labs:{place}-0" for place in range(len(results))]


@pytest.mark.parametrize("better", range(1, 5))
def test_of_too_many_charts_those_are_drawn_that_were_looked_at(better: int) -> None:
    """Cited ones before those read, these before those out of their limits, these before those measured often."""

    def measured_as(rank: int, name: str) -> list[StandingEvent]:
        level = ValueLevel.HIGH if rank == 2 else ValueLevel.NORMAL
        count = 2 if rank == 1 else 1
        return [event(EventKind.LAB, name, 9 - n, f"{rank}:{name}{n}", 2.0, level=level) for n in range(count)]

    events = [one for place in range(MOST_PANELS) for one in measured_as(better - 1, f"a{place:03}")]
    events += measured_as(better, "last")
    rows = [one.event.row_id for one in events]
    interest = Interest(
        read={row for row in rows if row.startswith("3")}, cited={row: 1 for row in rows if row.startswith("4")}
    )
    drawn = draw_timeline(StandingRecord(as_of=MOMENT, rows={}, events=events), interest)
    (section,) = (one for one in drawn.charts if one.total)
    assert section.total == MOST_PANELS + 1
    expected = {"last", *(f"a{place:03}" for place in range(MOST_PANELS - 1))}
    assert {panel.name for panel in section.panels} == expected


def test_the_export_opens_from_disk(run: ViewedRun, tmp_path: Path) -> None:
    pages = ViewerPages([run], shows_later=False)
    first = write_site(pages, tmp_path / "site")
    files = sorted((tmp_path / "site").rglob("*.html"))
    turns = sum(page_counts(run, page)[0] for page in run.pages)
    assert len(files) == 3 + turns + len(run.by_sample)
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert "<form" not in text
        for link in links(text):
            path, _, anchor = link.partition("#")
            assert not path.startswith("/")
            target = (file.parent / path).resolve() if path else file
            assert target.is_file(), (file, link)
            assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8")
    assert first.parent.stat().st_mode & 0o077 == 0
    with pytest.raises(UserError, match="the folder is not empty"):
        write_site(pages, tmp_path / "site")


def test_what_was_not_yet_known_is_exported_only_where_it_is_asked_for(run: ViewedRun, tmp_path: Path) -> None:
    held = {
        row.event.row_id
        for score in run.scores
        for row in rows_hidden_at(run.store, score.subject_id, run.samples[score.sample].prediction_time).rows
    }
    assert main(["view", str(run.folder.path), "--export", str(tmp_path / "plain")]) == 0
    written = "".join(file.read_text(encoding="utf-8") for file in (tmp_path / "plain").rglob("*.html"))
    assert not [row_id for row_id in held if f"<code>{row_id}</code>" in written]
    assert "not-yet-known" not in written
    with pytest.raises(NotFound, match="do not show what was not yet known"):
        ViewerPages([run], shows_later=False).later_page(1, next(iter(run.pages)), 1)
    assert main(["view", str(run.folder.path), "--export", str(tmp_path / "all"), "--with-not-yet-known"]) == 0
    written = "".join(file.read_text(encoding="utf-8") for file in (tmp_path / "all").rglob("*.html"))
    assert not [row_id for row_id in held if f"<code>{row_id}</code>" not in written]


def test_only_loopback_names_are_answered_without_a_token(client: TestClient) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/", headers={"Host": "localhost:8765"}).status_code == 200
    assert client.get("/").headers["cache-control"] == "no-store"
    assert client.post("/").status_code == 405


def test_with_a_token_every_page_asks_for_it(pages: ViewerPages) -> None:
    client = TestClient(viewer_app(pages, token=TOKEN), base_url="https://viewer.example")
    basic = {right: "Basic " + b64encode(f"me:{right}".encode()).decode() for right in (TOKEN, "another")}
    asked = [None, "Bearer another", basic["another"], "Basic ???", "Bearer ", f"Bearer {TOKEN}", basic[TOKEN]]
    answers = [client.get("/", headers={} if one is None else {"Authorization": one}) for one in asked]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 401, 401, 200, 200]
    assert "run" not in answers[0].text
    assert answers[0].headers["www-authenticate"].startswith("Basic")


def test_others_reach_the_viewer_only_with_a_token(
    run: ViewedRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WARDROUND_TOKEN", raising=False)
    assert main(["view", str(run.folder.path), "--host", "0.0.0.0"]) == 2
    assert "only with a token: set WARDROUND_TOKEN" in capsys.readouterr().err
    monkeypatch.setenv("WARDROUND_TOKEN", "short")
    assert main(["view", str(run.folder.path)]) == 2
    assert "a token needs at least 16 characters" in capsys.readouterr().err


def test_a_store_that_was_moved_leaves_the_episode(run: ViewedRun) -> None:
    moved = ViewedRun(run.folder.path)
    moved.folder = replace(
        moved.folder, manifest={**moved.folder.manifest, "store_digest": "another", "spec_sha256": "another"}
    )
    text = ViewerPages([moved]).episode_page(1, next(iter(moved.pages)))
    assert re.search(r'id="timeline">.*\n<p class="note">.*store', text)
    assert 'id="turn-0"' in text


def test_one_episode_of_a_sample_stands_alone_and_two_beside_each_other(run: ViewedRun, pages: ViewerPages) -> None:
    page = next(iter(run.by_sample))
    two = pages.sides_page(1, page, {})
    assert two.count('<th scope="col">') == 4
    assert "rows were read by both" in two
    left = next(key for key, _ in sides_view([run], 1, page, {})["entries"])
    alone = pages.sides_page(1, page, {"left": left, "right": left})
    assert alone.count('<th scope="col">') == 2
    assert "by both" not in alone
    assert "only by this one" not in alone


def test_a_record_some_hours_before_shows_what_was_known_then(run: ViewedRun, client: TestClient) -> None:
    """The same as a chart of that moment draws; what became known in between stands on none of its marks."""
    page, score = next(iter(run.pages.items()))
    sample = run.samples[score.sample]
    nobody = Interest(read=frozenset(), cited={})
    then = run.store.chart(sample.subject_id, sample.moment - timedelta(hours=24))
    view = record_then_view(run, page, 24)
    drawn = draw_timeline(standing_record(then, frozenset()), nobody)
    assert {mark.row_id for mark in view["drawing"].marks} == {mark.row_id for mark in drawn.marks}
    assert view["drawing"].end == sample.moment - timedelta(hours=24)
    known = {row for name in then.table_names for row in then.table(name).batch.column("row_id").to_pylist()}
    assert {mark.row_id for mark in view["drawing"].marks} <= known
    stem = page.removesuffix(".html")
    for hours, status in ((1, 200), (24 * 90, 200), (0, 404), (24 * 90 + 1, 404)):
        assert client.get(f"/runs/1/{stem}.record-{hours}.html").status_code == status


def test_sections_panels_and_the_window_of_a_short_stay() -> None:
    """A stay of 20 hours whose first vital signs stand an hour before it: the window is 21 hours."""
    record = StandingRecord(
        as_of=MOMENT,
        rows={},
        moments=frozenset({"icd"}),
        events=[
            event(EventKind.LAB, "Lactate", 900, "labs:0", 2.0),
            event(EventKind.VITAL, "Heart Rate", 21, "vitals:1", 90.0),
            event(EventKind.ADMISSION, "URGENT", 20, "admissions:1"),
            event(EventKind.LAB, "Sodium", 10, "labs:1", 2.0),
            event(EventKind.LAB, "Potassium", 10, "labs:2", 9.0, level=ValueLevel.HIGH),
            event(EventKind.LAB, "Hemoglobin", 10, "labs:3", 2.0),
            event(EventKind.LAB, "Moonstone", 10, "labs:4", 9.0, level=ValueLevel.HIGH),
            event(EventKind.VITAL, "PEEP set", 5, "vitals:2", 5.0),
            event(EventKind.OUTPUT, "Foley", 5, "outputs:1", 90.0),
            event(EventKind.PROCEDURE, "Echo", 5, "icd:1"),
            event(EventKind.PROCEDURE, "Arterial Line", 7, "lines:1"),
        ],
    )
    drawn = draw_timeline(record, Interest(read=(), cited={}))
    assert drawn.start == MOMENT - timedelta(hours=21)
    shown = {
        section.title: [(name, [one.name for one in panels]) for name, panels in section.groups]
        for section in drawn.charts
    }
    assert shown == {
        "Laboratory tests": [("BMP", ["Potassium", "Sodium"]), ("CBC", ["Hemoglobin"]), ("", ["Moonstone"])],
        "Vital signs and scores": [("", ["Heart Rate"])],
        "Oxygen and ventilation": [("", ["PEEP set"])],
        "Intake and output": [("", ["Foley"])],
    }
    potassium = drawn.charts[0].panels[0]
    assert (potassium.level, potassium.least, potassium.most) == ("High", "1", "9")
    bars = {bar.row_id: (bar.is_open, bar.x + bar.width) for bar in drawn.spans[1].bars}
    assert bars["lines:1"] == (True, WIDTH)
    assert bars["icd:1"][0] is False
    assert bars["icd:1"][1] < WIDTH
    assert [bar.name for bar in drawn.stays] == ["URGENT, 2150-01-07"]
    assert [bar.name for bar in drawn.spans[1].bars] == ["Arterial Line, 01-07 17:00", "Echo, 01-07 19:00"]
    assert drawn.days == (), "midnight is its right edge"


@pytest.mark.parametrize(
    ("stay", "every", "count"), [(3, 1, 2), (13, 1, 12), (14, 2, 7), (27, 2, 13), (28, 3, 9), (90, 7, 13)]
)
def test_of_many_midnights_every_so_manieth_is_drawn(stay: int, every: int, count: int) -> None:
    """From the midnight after admission on, on a scale of 264 pixels."""
    admitted = event(EventKind.ADMISSION, "URGENT", 24 * stay, "admissions:1")
    drawn = draw_timeline(StandingRecord(as_of=MOMENT, rows={}, events=[admitted]), Interest(read=(), cited={}))
    assert drawn.days == tuple(pytest.approx(8 + 264 * (1 + every * n) / stay, abs=0.05) for n in range(count))


def test_lists_of_a_record() -> None:
    events = [
        event(EventKind.DIAGNOSIS, "Asthma", 900, "d:1"),
        event(EventKind.DIAGNOSIS, "Gout", 800, "d:2"),
        event(EventKind.DIAGNOSIS, "Asthma", 700, "d:3"),
        event(EventKind.ALLERGY, "Penicillin", 600, "a:1", text="rash"),
        event(EventKind.CULTURE_TAKEN, "Blood", 9, "c:1"),
        event(EventKind.CULTURE, "Blood", 8, "c:1", text="E. COLI"),
        event(EventKind.CULTURE_TAKEN, "Urine", 7, "c:2"),
        event(EventKind.ADMINISTRATION, "Heparin", 6, "e:1", text="Administered"),
        event(EventKind.ADMINISTRATION, "Heparin", 5, "e:2", text="Administered"),
        event(EventKind.ADMINISTRATION, "Heparin", 4, "e:3", text="Not Given"),
        event(EventKind.ADMINISTRATION, "Aspirin", 30, "e:4", text="Administered"),
        event(EventKind.OUTPUT, "Foley", 5, "o:1", 90.0, unit="ml"),
        event(EventKind.OUTPUT, "Stool", 5, "o:2", 10.0, unit="mL"),
        event(EventKind.OUTPUT, "Drain", 5, "o:3", 7.0, unit="oz"),
        event(EventKind.VITAL, "Rhythm", 6, "v:1", text="SR"),
        event(EventKind.VITAL, "Rhythm", 5, "v:2", text="AF"),
    ]
    found = record_lists(events, MOMENT - timedelta(hours=20))
    assert [(one.what, one.when) for one in found.problems] == [
        ("Gout", MOMENT - timedelta(hours=800)),
        ("Asthma", MOMENT - timedelta(hours=900)),
    ]
    assert [(one.what, one.more) for one in found.allergies] == [("Penicillin", "rash")]
    assert [(one.what, one.more) for one in found.cultures] == [
        ("Urine", "pending"),
        ("Blood", "E. COLI (known 2150-01-07 16:00)"),
    ]
    assert [(one.what, one.more) for one in found.doses] == [("Heparin", "Administered × 2, Not Given × 1")]
    assert [(one.what, one.more) for one in found.observed] == [("Rhythm", "AF")]
    assert found.balance == (("output", 100.0, 2),)
