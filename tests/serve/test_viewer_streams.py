"""The viewer's pages of a live stream: what is committed and over, read beside a process that writes."""

from __future__ import annotations

import html
import json
import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from starlette.testclient import TestClient

from forking import commands, kill, wait_for
from wardround.cli import main
from wardround.core import UserError, register_seals
from wardround.records import load_source_spec
from wardround.serve.viewer import NotFound, ViewedStream, ViewerPages, viewer_app, write_site
from wardround.serve.viewer.patient import BUNDLES
from wardround.serve.viewer.stream import PatientLine, PatientQuery, draw_pace, listed_patients, read_patient_query
from wardround.stream import FollowSettings, coded_responder, follow
from wardround.stream.ledger import Commit, LoggedLine, PaceMinute, StreamLedger
from wardround.stream.output import sealed_line

HOSTILE = '"><script>alert(1)</script>'
OURS = {"source": "mimiciv", "partition": "0 of 1", "time zone": "none"}


def client_of(*streams: ViewedStream) -> TestClient:
    app = viewer_app(ViewerPages([], streams=streams))
    return TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client(live_stream_path: Path) -> TestClient:
    return client_of(ViewedStream(live_stream_path))


def page(client: TestClient, address: str) -> str:
    answer = client.get(f"/streams/1/{address}")
    assert answer.status_code == 200, answer.text
    return html.unescape(answer.text)


def shown(text: str) -> list[int]:
    return [int(subject) for subject in re.findall(r'href="patients/(\d+)\.html"', text)]


def followed(lines: Path, folder: Path, rules: Path) -> None:
    settings = FollowSettings(once=True)
    follow(load_source_spec("mimiciv"), lines, folder, settings=settings, responder=coded_responder(rules))


def test_every_link_of_every_page_leads_somewhere(client: TestClient) -> None:
    waiting, seen = ["/"], dict[str, str]()
    while waiting:
        address = waiting.pop()
        if address not in seen:
            answer = client.get(address)
            assert answer.status_code == 200, address
            seen[address] = answer.text
            links = map(html.unescape, re.findall(r'href="([^"#]+)"', answer.text))
            waiting += [urljoin(address, link) for link in links if "refresh" not in link]
    assert {
        "/streams/1/index.html",
        "/streams/1/patients/8.html",
        "/streams/1/patients/8.bundles-2.html",
    } <= seen.keys()
    assert "a &lt;ward&gt; &amp; more" in seen["/"]
    assert not [address for address in seen if "not-yet-known" in address or "not yet known" in seen[address]]
    assert all("<script" not in text and " style=" not in text for text in seen.values())


def test_patients_with_new_alerts_come_first(client: TestClient) -> None:
    assert shown(page(client, "")) == [7, 8, 9], "7: a rule came to hold; 9's alert is more than a day old, 8 has none"
    assert shown(page(client, "?show=alerts")) == [7, 9]
    assert shown(page(client, "?rule=KIDNEY")) == [9]
    assert shown(page(client, "?show=amended")) == []
    assert shown(page(client, "?sort=bundles")) == [8, 7, 9]
    assert shown(page(client, "?patient=8&sort=patient")) == [8]
    assert "new rule: SHOCK" in page(client, "?patient=7")
    assert "audit: norepinephrine: contraindication" in page(client, "?patient=9")


def test_a_patient_is_told_what_is_proposed_on_which_rows_and_what_was_amended(client: TestClient) -> None:
    text = page(client, "patients/7.html")
    proposed = text[text.index('id="proposed"') : text.index('id="state"')]
    assert "norepinephrine" in proposed
    assert "SHOCK" in proposed
    assert "lactate > 4: start norepinephrine, order lactate" in proposed
    assert "<code>labevents:6</code> Lactate 9 mmol/L, 2150-01-02 10:10" in proposed
    assert "<b>Amended</b>" in text
    assert "Lactate 2.5 mmol/L (corrected) [labevents:1]" in text
    state = text[text.index('id="state"') : text.index('id="bundles"')]
    assert "Lactate 9 mmol/L" in state
    assert "rule KIDNEY holds and says to avoid it" in page(client, "patients/9.html")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/streams/2/", "no stream 2; there are 1"),
        ("/streams/1/patients/11.html", "has no bundle of a patient 11"),
        ("/streams/1/patients/x.html", "no patient 'x'"),
        ("/streams/1/patients/7.bundles-2.html", "the patient has 1 pages of bundles, not 2"),
        ("/streams/1/?page=2", "the list has 1 pages, not 2"),
        ("/streams/1/?page=-1", "no page '-1'"),
        ("/streams/1/?show=all", "no show 'all', only alerts, proposals, abnormal, amended"),
        ("/streams/1/?refresh=1", "no refresh '1', only 10, 30, 60"),
        ("/streams/1/patients/7.html?refresh=1", "no refresh '1', only 10, 30, 60"),
        ("/streams/1/?where=1", "patients cannot be chosen by 'where', only by show, rule, patient"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(client: TestClient, address: str, said: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 404
    (line,) = re.findall(r'<p class="note warn">(.*)</p>', html.unescape(answer.text))
    assert said in line


@pytest.mark.parametrize("name", ["show", "rule", "patient", "sort", "page", "refresh", HOSTILE])
def test_hostile_addresses_are_escaped(client: TestClient, name: str) -> None:
    assert "<script" not in client.get("/streams/1/", params={name: HOSTILE}).text


def test_a_page_asks_for_itself_again_only_where_its_reader_chose_so(client: TestClient) -> None:
    again = '<meta http-equiv="refresh" content="10">'
    assert 'http-equiv="refresh"' not in page(client, "") + page(client, "patients/7.html")
    assert again in page(client, "?refresh=10&show=alerts")
    assert 'href="index.html?show=alerts"' in page(client, "?refresh=10&show=alerts"), "the way to stop it"
    assert again in page(client, "patients/7.html?refresh=10")


def test_pages_grow_and_say_nothing_that_comes_later(live_stream_path: Path, live_rules: Path, tmp_path: Path) -> None:
    """Cut anywhere, the stream's pages are those of a stream that ends there; full pages of bundles never change, and
    lines of the hour that is open change nothing."""
    whole = (live_stream_path.parent / "lines" / "a.jsonl").read_bytes().splitlines(keepends=True)
    source, lines = tmp_path / "lines" / "a.jsonl", tmp_path / "lines"
    lines.mkdir()
    seen: list[dict[str, str]] = []
    viewed: ViewedStream | None = None
    for cut in (20, 30, len(whole)):
        for last in (whole[cut - 1], whole[cut - 1].replace(b'"valuenum": 1', b'"valuenum": 9')):
            alone = tmp_path / f"alone-{cut}-{len(seen)}"
            (alone / "lines").mkdir(parents=True)
            (alone / "lines" / "a.jsonl").write_bytes(b"".join([*whole[: cut - 1], last]))
            followed(alone / "lines", alone / "live", live_rules)
            seen.append(stable(client_of(ViewedStream(alone / "live"))))
        assert seen[-1] == seen[-2], "what came in of the hour that is open"
        source.write_bytes(b"".join(whole[:cut]))
        followed(lines, tmp_path / "live", live_rules)
        viewed = ViewedStream(tmp_path / "live") if viewed is None else viewed
        assert stable(client_of(viewed)) == seen[-1], "it was looked at before"
    full = "patients/8.bundles-1.html"
    assert bundles_of(seen[2][full]) == bundles_of(seen[4][full])
    assert len(bundles_of(seen[4][full])) == BUNDLES
    assert bundles_of(seen[0][full]) == bundles_of(seen[4][full])[: len(bundles_of(seen[0][full]))]


def stable(client: TestClient) -> dict[str, str]:
    """The pages of the patients 7 and 8, without what an hour that is open says of itself."""
    names = ("patients/7.html", "patients/8.html", "patients/8.bundles-1.html")
    return {name: re.sub(r"; new rows of .* that hour is over", "", page(client, name)) for name in names}


def bundles_of(text: str) -> list[str]:
    return re.findall(r'<section class="turn".*?</section>', text, re.DOTALL)


def test_what_is_not_committed_is_not_shown_and_looking_holds_nobody_up(live_stream_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "live"
    shutil.copytree(live_stream_path, folder)
    told = (folder / "bundles.jsonl").read_bytes()
    stream = ViewedStream(folder)
    before = stream.look()
    digest = stream.facts["protocol"]
    ledger = StreamLedger(folder / "ledger.sqlite", {**OURS, "protocol": digest})
    writer = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None, timeout=0)
    register_seals(writer)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO output VALUES (1000, 1000000, x'00')")
    writer.execute("INSERT INTO line VALUES (1000, 7, 0, x'00', 0, 0)")
    with (folder / "bundles.jsonl").open("ab") as file:
        file.write(told[: told.index(b"\n") + 1] + b'{"subject":7,')
    during = stream.look()
    assert (during.bundles, during.lines, during.patients) == (before.bundles, before.lines, before.patients)
    writer.execute("ROLLBACK")
    with stream.held():
        body = told[: told.index(b',"crc32"')] + b"}"
        line = sealed_line(re.sub(rb'"subject":\d+', b'"subject":5', body))
        (folder / "bundles.jsonl").write_bytes(told + line)
        ledger.commit(Commit(lines=[LoggedLine(ledger.lines + 1, 5, 0, b"")], output=[line], since=0.0))
        assert stream.look().bundles == before.bundles, "one moment is held, and the writer went on"
    after = stream.look()
    assert (after.bundles, after.lines) == (before.bundles + 1, before.lines + 1)
    assert after.patients[-1].subject == 5
    ledger.close()


def test_pages_are_asked_for_while_another_process_writes(
    live_stream_path: Path, live_rules: Path, tmp_path: Path
) -> None:
    """Lines come in pieces cut anywhere; what is told is the same byte for byte as where nobody looked."""
    text = (live_stream_path.parent / "lines" / "a.jsonl").read_bytes()
    lines, live = tmp_path / "lines", tmp_path / "live"
    lines.mkdir()
    words = ["stream", "follow", "--source", "mimiciv", "--lines", str(lines), "--out", str(live)]
    process = commands().start([*words, "--protocol", str(live_rules), "--lines-per-commit", "1"])
    wait_for((live / "bundles.jsonl").exists, process)
    stream = ViewedStream(live)
    client = client_of(stream)
    seen = []
    with (lines / "a.jsonl").open("ab", buffering=0) as target:
        for start in range(0, len(text), 500):
            target.write(text[start : start + 500])
            page(client, "?sort=bundles")
            moment = stream.look()
            assert moment.bundles == sum(line.bundles for line in moment.patients) <= moment.lines
            seen.append((moment.lines, moment.bundles))
    wait_for(
        lambda: (live / "bundles.jsonl").read_bytes() == (live_stream_path / "bundles.jsonl").read_bytes(), process
    )
    kill(process)
    assert seen == sorted(seen)
    alone = stable(client_of(ViewedStream(live_stream_path)))
    assert {name: bundles_of(text) for name, text in stable(client).items()} == {
        name: bundles_of(text) for name, text in alone.items()
    }


def test_another_stream_in_the_same_place_is_read_from_its_beginning(
    live_stream_path: Path, live_rules: Path, tmp_path: Path
) -> None:
    shutil.copytree(live_stream_path, tmp_path / "live")
    stream = ViewedStream(tmp_path / "live")
    shutil.rmtree(tmp_path / "live")
    (tmp_path / "lines").mkdir()
    first = (live_stream_path.parent / "lines" / "a.jsonl").read_bytes().splitlines(keepends=True)[:4]
    (tmp_path / "lines" / "a.jsonl").write_bytes(b"".join([*first, b'{"clock":"2150-01-01 02:00:00"}\n']))
    followed(tmp_path / "lines", tmp_path / "live", live_rules)
    moment = stream.look()
    assert {line.subject for line in moment.patients} == {7, 8, 9}
    assert (moment.bundles, moment.waiting) == (3, 0)
    shutil.copytree(tmp_path / "lines", tmp_path / "moved")
    followed(tmp_path / "moved", tmp_path / "live", live_rules)
    (tmp_path / "moved" / "b.jsonl").write_bytes(first[0])
    assert stream.look().waiting == len(first[0]), "where its lines were last"
    assert ViewedStream(tmp_path / "live").rules.keys() == {"SHOCK", "KIDNEY"}


def test_how_the_stream_keeps_up_is_of_its_commits(live_stream_path: Path) -> None:
    moment = ViewedStream(live_stream_path).look()
    assert moment.waiting == 0
    assert moment.clock == "2150-01-02 11:00"
    assert moment.open == 1
    assert sum(minute.bundles for minute in moment.pace) == moment.bundles
    assert sum(minute.lines for minute in moment.pace) == moment.lines
    assert all(0 < minute.longest < 3600 for minute in moment.pace)
    with (live_stream_path.parent / "lines" / "b.jsonl").open("w") as target:
        target.write("x" * 100)
    try:
        assert ViewedStream(live_stream_path).look().waiting == 100
    finally:
        Path(target.name).unlink()


def line(subject: int, hour: str, alerts: int = 0, **more: Any) -> PatientLine:
    """A patient after a bundle of 2150-01-``hour``."""
    known: dict[str, Any] = {"bundles": 1, "amended": False, "abnormal": 0, "running": 0, "findings": (), "raised": ()}
    known |= {"held": (), "proposed": ()} | more
    return PatientLine(subject=subject, hour=f"2150-01-{hour}:00", alerts=alerts, **known)


LINES = [
    line(1, "02 10", alerts=0, abnormal=9, bundles=3, held=("A",)),
    line(2, "01 09", alerts=7, abnormal=2, bundles=5, proposed=("aspirin",)),  # a day and an hour before the clock
    line(3, "01 10", alerts=1, abnormal=2, bundles=4, amended=True),
    line(4, "02 10", alerts=1, abnormal=1, bundles=1, held=("A", "B")),
    line(12, "02 10", alerts=1, abnormal=2, bundles=2),
]


@pytest.mark.parametrize(
    ("query", "subjects"),
    [
        ({}, [12, 4, 3, 1, 2]),
        ({"sort": "hour"}, [1, 4, 12, 3, 2]),
        ({"sort": "abnormal"}, [1, 12, 3, 2, 4]),
        ({"sort": "bundles"}, [2, 3, 1, 12, 4]),
        ({"sort": "patient"}, [1, 2, 3, 4, 12]),
        ({"show": "alerts"}, [12, 4, 3, 2]),
        ({"show": "proposals"}, [2]),
        ({"show": "abnormal"}, [12, 4, 3, 1, 2]),
        ({"show": "amended"}, [3]),
        ({"rule": "A"}, [4, 1]),
        ({"rule": "A", "patient": "4"}, [4]),
        ({"patient": "2"}, [2]),
        ({"patient": "7"}, []),
    ],
)
def test_who_is_listed_and_in_which_order(query: dict[str, str], subjects: list[int], live_stream_path: Path) -> None:
    """An alert is new until a day after its hour: new ones first, then by hour, number and abnormal values."""
    moment = replace(ViewedStream(live_stream_path).look(), clock="2150-01-02 10:00", patients=LINES)
    found = listed_patients(moment, read_patient_query(query))
    assert [one.subject for one in found.rows] == subjects
    assert (found.fitting, found.pages, found.newest) == (len(subjects), 1, "2150-01-01 10:00")
    none_yet = listed_patients(replace(moment, clock=None), read_patient_query(query))
    assert (len(none_yet.rows), none_yet.newest) == (len(subjects), "")


@pytest.mark.parametrize(("count", "pages"), [(0, 1), (1, 1), (100, 1), (101, 2), (200, 2), (201, 3)])
def test_a_page_lists_a_hundred(count: int, pages: int, live_stream_path: Path) -> None:
    patients = [line(number, "02 10") for number in range(count)]
    moment = replace(ViewedStream(live_stream_path).look(), clock="2150-01-02 10:00", patients=patients)
    found = [listed_patients(moment, PatientQuery(sort="patient", page=page)) for page in range(1, pages + 1)]
    assert [one.subject for page in found for one in page.rows] == list(range(count))
    assert {page.pages for page in found} == {pages}
    assert all(len(page.rows) == 100 for page in found[:-1])
    for page in (0, pages + 1):
        with pytest.raises(NotFound, match=f"the list has {pages} pages, not {page}"):
            listed_patients(moment, PatientQuery(page=page))


def test_an_address_says_what_is_asked_for_and_not_what_goes_without() -> None:
    assert PatientQuery().address() == "index.html"
    query = read_patient_query({"show": "alerts", "page": "3", "sort": "alerts", "rule": "", "refresh": "30"})
    assert query.address() == "index.html?show=alerts&page=3&refresh=30"
    assert query.address(page=1, sort="hour", refresh="") == "index.html?show=alerts&sort=hour"


def test_the_last_hour_is_drawn_minute_by_minute(live_stream_path: Path) -> None:
    """At 10:30:30: the minute before the hour and the one of a clock that was set back are not of it."""
    minutes = [
        PaceMinute(minute=minute, commits=2, lines=9, bundles=told, longest=longest, last=minute * 60.0 + 5)
        for minute, told, longest in ((570, 500, 9.0), (571, 30, 0.5), (630, 90, 0.25), (631, 700, 8.0))
    ]
    moment = replace(ViewedStream(live_stream_path).look(), looked=630 * 60.0 + 30, pace=minutes[:3])
    pace = draw_pace(moment)
    assert [(bar.x, bar.y, bar.height) for bar in pace.bars] == [(0, 40.7, 19.3), (59 * 12, 2.0, 58.0)]
    assert pace.bars[0].tooltip.startswith("09:31 UTC: 30 bundles, 9 lines in 2 commits")
    assert (pace.rate, pace.longest, pace.ago, pace.most) == (2.0, 0.5, 25.0, 90)
    ahead = draw_pace(replace(moment, pace=minutes))
    assert (ahead.bars, ahead.rate, ahead.ago) == (pace.bars, 2.0, 0.0)
    none = draw_pace(replace(moment, pace=()))
    assert (none.bars, none.rate, none.longest, none.ago, none.most) == ((), 0.0, 0.0, None, 0)


def test_pages_of_patients_neither_skip_nor_repeat(live_stream_path: Path) -> None:
    moment = ViewedStream(live_stream_path).look()
    for order in ("alerts", "hour", "abnormal", "bundles", "patient"):
        pages = [listed_patients(moment, PatientQuery(sort=order, page=n), rows=1) for n in (1, 2, 3)]
        assert sorted(line.subject for found in pages for line in found.rows) == [7, 8, 9]


def test_a_full_page_of_a_crowded_patient_is_bounded(tmp_path: Path) -> None:
    """Two hundred rows an hour, each out of its limits and of a long name."""
    (tmp_path / "lines").mkdir()
    with (tmp_path / "lines" / "a.jsonl").open("w", encoding="utf-8") as target:
        for hour in range(BUNDLES + 1):
            for number in range(200 if hour < BUNDLES else 1):
                row = {
                    "row_id": f"labevents:{hour}-{number:09}",
                    "subject_id": 7,
                    "valuenum": 4.0,
                    "valueuom": "mmol/L",
                }
                row |= {"label": f"{number} {'long <name> ' * 5}", "ref_range_lower": 0.5, "ref_range_upper": 1.5}
                when = f"2150-01-0{1 + hour // 24} {hour % 24:02d}:10:00"
                target.write(json.dumps({"table": "labevents", "row": row, "known": when, "time": when}) + "\n")
    spec = load_source_spec("mimiciv")
    follow(spec, tmp_path / "lines", tmp_path / "live", settings=FollowSettings(once=True))
    client = client_of(ViewedStream(tmp_path / "live"))
    for address in ("patients/7.html", "patients/7.bundles-1.html"):
        text = page(client, address)
        assert len(bundles_of(text)) == BUNDLES
        assert "25 of 200" in text
        raw = client.get(f"/streams/1/{address}").content
        assert len(raw) <= 300_000
        assert b"&lt;name&gt;" in raw
        assert b"<name>" not in raw


def test_the_export_is_of_one_moment_and_opens_from_disk(live_stream_path: Path, tmp_path: Path) -> None:
    first = write_site(ViewerPages([], streams=[ViewedStream(live_stream_path)]), tmp_path / "site")
    files = {str(file.relative_to(tmp_path / "site")) for file in (tmp_path / "site").rglob("*.html")}
    assert {"index.html", "streams/1/index.html", "streams/1/patients/8.bundles-2.html"} <= files
    for name in files:
        text = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert 'http-equiv="refresh"' not in text
        assert "<form" not in text
        for link in map(html.unescape, re.findall(r'href="([^"#]+)"', text)):
            assert (tmp_path / "site" / name).parent.joinpath(link).resolve().is_file(), (name, link)
    assert first.read_text(encoding="utf-8").count("<td><a") == 1


def test_the_command_tells_runs_from_streams(
    live_stream_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["view", str(live_stream_path), "--export", str(tmp_path / "site")]) == 0
    assert (tmp_path / "site" / "streams" / "1" / "patients" / "7.html").is_file()
    assert main(["view", str(live_stream_path), "--blinded", str(tmp_path / "marks")]) != 0
    assert "a blinded review needs runs" in capsys.readouterr().err


def test_a_source_that_is_not_known_here_is_shown(live_stream_path: Path, tmp_path: Path) -> None:
    shutil.copytree(live_stream_path, tmp_path / "live")
    with sqlite3.connect(tmp_path / "live" / "ledger.sqlite") as ledger:
        register_seals(ledger)
        ledger.execute("UPDATE fact SET value = 'our own' WHERE name = 'source'")
    text = page(client_of(ViewedStream(tmp_path / "live")), "patients/7.html")
    assert "norepinephrine" in text


def test_a_ledger_of_another_version_is_refused(live_stream_path: Path, tmp_path: Path) -> None:
    shutil.copytree(live_stream_path, tmp_path / "live")
    with sqlite3.connect(tmp_path / "live" / "ledger.sqlite") as ledger:
        register_seals(ledger)
        ledger.execute("UPDATE schema SET version = 2")
    with pytest.raises(UserError, match="has stream's ledger schema 2, this wardround reads 1"):
        ViewedStream(tmp_path / "live")
