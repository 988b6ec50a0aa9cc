"""The viewer's pages in headless Chromium, scripts off: narrow, dark, printed, by keyboard, from disk. One server, one
browser; skipped where there is no Chromium. Every address that is served has its page here."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from chromium import CLIPPED, CONTRAST, NARROW, PROGRAM, WIDE, Chromium
from starlette.applications import Starlette
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from effort import often
from wardround.cli import main
from wardround.records import load_source_spec
from wardround.serve.viewer import (
    MarksFile,
    ReviewPages,
    ViewedRun,
    ViewedStream,
    ViewerPages,
    review_app,
    viewer_app,
    write_site,
)
from wardround.serve.viewer.episode import page_counts
from wardround.serve.viewer.run import sample_page
from wardround.stream import FollowSettings, coded_responder, follow

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on this machine")

PAGES = (
    "runs", "run", "samples", "episode", "turns", "sides", "not yet known", "bank", "experience", "stay", "steps",
    "stream's episode", "marks", "empty run", "empty samples", "attacked run", "attacked episode", "failed episode",
    "nowhere", "review", "item", "record then", "live stream", "empty stream", "live patient", "live bundles", "film",
)  # fmt: skip
FILES = ("/runs/{number:int}/marks.csv",)
"""What is served and is no page."""
FOCUSABLE = "a[href], select, button, input:not([type=hidden]), textarea, summary"
NEEDS_A_NAME = "img, svg:not([aria-hidden=true]), select, input:not([type=hidden]), textarea"


def serve(app: ASGIApp) -> Iterator[str]:
    """Serve on a free port of loopback."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:  # also where a test fails in the middle: the thread would outlive the tests
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def runs(viewed_run_path: Path, odd_runs: dict[str, Path], filmed_run_path: Path) -> list[ViewedRun]:
    return [ViewedRun(path) for path in (viewed_run_path, *odd_runs.values(), filmed_run_path)]


@pytest.fixture(scope="module")
def marks(runs: list[ViewedRun], tmp_path_factory: pytest.TempPathFactory) -> MarksFile:
    return MarksFile(tmp_path_factory.mktemp("marks") / "marks.jsonl", runs[:1])


@pytest.fixture(scope="module")
def streams(live_stream_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[ViewedStream]:
    """One with three patients, one of which nothing has come yet."""
    place = tmp_path_factory.mktemp("streams")
    (place / "lines").mkdir()
    follow(load_source_spec("mimiciv"), place / "lines", place / "empty", settings=FollowSettings(once=True))
    return [ViewedStream(live_stream_path), ViewedStream(place / "empty")]


@pytest.fixture(scope="module")
def apps(runs: list[ViewedRun], streams: list[ViewedStream], marks: MarksFile) -> tuple[Starlette, Starlette]:
    """The viewer and a review round."""
    return viewer_app(ViewerPages(runs, streams=streams, marks=marks)), review_app(ReviewPages(runs[:1], marks))


@pytest.fixture(scope="module")
def viewer(apps: tuple[Starlette, Starlette]) -> Iterator[str]:
    yield from serve(apps[0])


@pytest.fixture(scope="module")
def review(apps: tuple[Starlette, Starlette]) -> Iterator[str]:
    yield from serve(apps[1])


@pytest.fixture(scope="module")
def addresses(viewer: str, review: str, runs: list[ViewedRun], marks: MarksFile) -> dict[str, str]:
    run, attacked, _, stay, stream, filmed = runs
    long = next(page for page in run.pages if page_counts(run, page)[0] > 1)
    ends = {score.finish: page for page, score in attacked.pages.items()}
    (stayed,) = stay.pages
    assert stream.bank is not None
    paths = {
        "runs": "",
        "run": "runs/1/index.html",
        "samples": "runs/1/samples.html?sort=-score",
        "episode": f"runs/1/{long}",
        "turns": f"runs/1/{long.replace('.html', '.turns-2.html')}",
        "sides": f"runs/1/samples/{sample_page(run.pages[long].sample)}",
        "not yet known": f"runs/1/{long.replace('.html', '.not-yet-known-1.html')}",
        "record then": f"runs/1/{long.replace('.html', '.record-24.html')}",
        "marks": "runs/1/marks.html",
        "attacked run": "runs/2/index.html",
        "attacked episode": f"runs/2/{ends['finish']}",
        "failed episode": f"runs/2/{ends['error']}",
        "empty run": "runs/3/index.html",
        "empty samples": "runs/3/samples.html",
        "stay": f"runs/4/{stayed}",
        "steps": f"runs/4/{stayed.replace('.html', '.steps-1.html')}",
        "bank": "runs/5/bank/index.html",
        "experience": f"runs/5/bank/{next(iter(stream.bank.experiences))}.html",
        "stream's episode": f"runs/5/{next(iter(stream.pages))}",
        "film": f"runs/6/{next(page for page, score in filmed.pages.items() if score.epoch == 9)}",
        "live stream": "streams/1/index.html?show=alerts&refresh=60",
        "empty stream": "streams/2/index.html",
        "live patient": "streams/1/patients/7.html?refresh=60",
        "live bundles": "streams/1/patients/8.bundles-2.html",
        "nowhere": "nowhere",
    }
    item = marks.item_of(run, run.scores[0].episode)
    found = {name: f"{viewer}/{path}" for name, path in paths.items()}
    return {**found, "review": f"{review}/?reviewer=ann", "item": f"{review}/items/{item}.html?reviewer=ann"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_without_scripts_on_every_medium(
    browser: Chromium, addresses: dict[str, str], attack: str, name: str
) -> None:
    browser.look(width=NARROW)
    browser.open(addresses[name])
    assert browser.value("document.querySelectorAll('h1').length") == 1
    assert browser.value("document.title.startsWith('wardround') || document.title.includes(' · ')")
    assert browser.value("document.querySelectorAll('script').length") == 0
    assert browser.value("performance.getEntriesByType('resource').length") == 0, "nothing else is fetched"
    assert browser.value("document.documentElement.scrollWidth") <= NARROW
    unnamed = (
        "[...document.querySelectorAll('img, svg:not([aria-hidden=true]), select, input:not([type=hidden]), textarea')]"
    )
    named = "one.alt || one.getAttribute('aria-label') || one.closest('label')"
    assert browser.value(f"{unnamed}.filter(one => !({named})).map(one => one.outerHTML.slice(0, 80))") == []
    assert browser.value(CONTRAST) == []
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.look(width=WIDE, dark=True)
    assert browser.value("getComputedStyle(document.body).backgroundColor") != paper, "the style was let in"
    assert browser.value(CONTRAST) == []
    assert browser.value("document.documentElement.scrollWidth") <= WIDE
    assert browser.value(CLIPPED) == [], "a table is cut off where there is room"
    for width in often((), (WIDE, NARROW)):
        for dark in (False, True):
            browser.keep(name, width=width, dark=dark)
            assert browser.value(CONTRAST) == []
    browser.look(media="print")
    assert browser.value("[...document.querySelectorAll('nav')].every(one => getComputedStyle(one).display === 'none')")
    browser.look()


def test_every_address_that_is_served_has_its_page_here(
    apps: tuple[Starlette, Starlette], addresses: dict[str, str], viewer: str, review: str
) -> None:
    """Two addresses of one page are one page. A new route without a page in ``PAGES`` fails here."""
    assert set(addresses) == set(PAGES)
    for app, origin in zip(apps, (viewer, review), strict=True):
        routes = [route for route in app.routes if isinstance(route, Route) and "GET" in (route.methods or ())]
        paths = [urlsplit(one).path for one in addresses.values() if one.startswith(origin)]
        shown = {route.endpoint for path in paths for route in routes if route is _answering(routes, path)}
        assert [route.path for route in routes if route.endpoint not in shown and route.path not in FILES] == []


def _answering(routes: list[Route], path: str) -> Route | None:
    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    return next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)


def test_what_a_model_says_is_text(browser: Chromium, addresses: dict[str, str], attack: str) -> None:
    browser.open(addresses["attacked episode"])
    assert browser.value("document.querySelectorAll('main img').length") == 0
    assert attack in browser.value("document.querySelector('#turn-1').textContent")
    assert f"✗ {attack}" in [
        one.strip() for one in browser.value("[...document.querySelectorAll('.chip')].map(e => e.textContent)")
    ]


def test_a_film_is_shown_and_no_wider_than_the_screen(browser: Chromium, addresses: dict[str, str]) -> None:
    browser.look(width=NARROW)
    browser.open(addresses["film"])
    assert browser.value("document.querySelector('main img').complete")
    assert 0 < browser.value("document.querySelector('main img').getBoundingClientRect().width") < NARROW
    browser.look()


def test_empty_and_failed_runs_say_so(browser: Chromium, addresses: dict[str, str]) -> None:
    for name, said in (
        ("empty run", "No finished episode yet."),
        ("empty samples", "None."),
        ("attacked run", "1 episodes failed"),
        ("failed episode", "400"),
        ("empty stream", "None."),
        ("nowhere", "Not Found: /nowhere"),
    ):
        browser.open(addresses[name])
        notes = browser.value("[...document.querySelectorAll('.note')].map(one => one.textContent).join(' ')")
        assert said in notes, name


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ("nowhere", "runs")])
def test_focus_goes_in_the_order_of_the_page_and_is_seen(
    browser: Chromium, addresses: dict[str, str], name: str
) -> None:
    browser.open(addresses[name])
    places = []
    for _ in range(12):
        browser.press("Tab")
        place = browser.value(f"[...document.querySelectorAll('{FOCUSABLE}')].indexOf(document.activeElement)")
        if place in places:
            break  # round again
        if place >= 0:  # what scrolls takes the focus too
            places.append(place)
            style = "getComputedStyle(document.activeElement).outlineStyle"
            assert browser.value(style) != "none", browser.value("document.activeElement.outerHTML")
    assert places == sorted(places)
    assert places[0] == 0
    here = browser.value(f"[...document.querySelectorAll('{FOCUSABLE}')].filter(one => one.checkVisibility()).length")
    assert len(places) >= min(6, here)


def test_a_clinician_gets_to_an_episode_by_keys_alone(browser: Chromium, viewer: str) -> None:
    browser.open(f"{viewer}/")
    for wanted in ("a <run> & more", "samples", ""):
        for _ in range(30):
            browser.press("Tab")
            focus = browser.value("document.activeElement.textContent")
            is_episode = browser.value("(document.activeElement.href || '').includes('/episodes/')")
            if focus == wanted if wanted else is_episode:
                break
        before = browser.value("location.href")
        browser.press("Enter")
        browser.wait(f"location.href !== {before!r} && document.readyState === 'complete'")
    assert "/episodes/" in browser.value("location.href")


def test_a_review_is_done_by_keys_alone(browser: Chromium, review: str, marks: MarksFile) -> None:
    browser.open(f"{review}/")
    browser.press("Tab")
    browser.type("by keys")
    browser.press("Enter")
    browser.wait("location.search.includes('by+keys') && document.readyState === 'complete'")
    browser.press("Tab")
    browser.press("Enter")
    browser.wait("location.pathname.startsWith('/items/') && document.readyState === 'complete'")
    item = browser.value("location.pathname").removeprefix("/items/").removesuffix(".html")
    press_until = partial(_press_until, browser)
    browser.press("Tab")
    assert browser.value("document.activeElement.name") == "answer", "the first key leads to the first question"
    browser.press("Space")
    press_until("document.activeElement.name === 'evidence'")
    browser.press("Space")
    press_until("document.activeElement.name === 'comment'")
    browser.type("plain & <b>simple</b>")
    press_until("document.activeElement.type === 'submit'")
    browser.press("Enter")
    browser.wait(f"!location.pathname.includes({item!r}) && document.readyState === 'complete'")
    mark = marks.marks()[item, "by keys"]
    assert (mark.answer, mark.evidence, mark.comment) == ("right", "support", "plain & <b>simple</b>")
    assert mark.seconds is not None
    assert mark.seconds > 0


@pytest.mark.long
def test_a_round_of_twenty_is_done_by_keys_alone(
    browser: Chromium, synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    """Twenty episodes of two agents, marked right and wrong in turn: Tab, Space, arrows and Enter, no mouse."""
    where = ["--benchmark", str(synthetic_benchmark_path), "--store", str(synthetic_store_path), "--workers", "1"]
    new = ["--task", "labevents", "diagnoses", "--limit", "5", "--agent", "react", "retrosum"]
    assert main(["run", *where, *new, "--out", str(tmp_path / "run")]) == 0
    run = ViewedRun(tmp_path / "run")
    marks = MarksFile(tmp_path / "marks.jsonl", [run])
    with contextmanager(serve)(review_app(ReviewPages([run], marks))) as origin:
        browser.look(width=WIDE)
        browser.open(f"{origin}/?reviewer=twenty")
        _press_until(browser, "(document.activeElement.pathname || '').startsWith('/items/')")
        browser.press("Enter")
        for number in range(20):
            browser.wait("location.pathname.startsWith('/items/') && document.readyState === 'complete'")
            here = browser.value("location.pathname")
            browser.keep(f"review {number + 1}", width=WIDE, dark=number % 2 == 1)
            browser.press("Tab")
            assert browser.value("document.activeElement.name") == "answer", "the first key leads to the first question"
            browser.press("Space")
            for _ in range(2 * (number % 2)):
                browser.press("ArrowDown")  # from right over partly to wrong
            if browser.value("document.querySelector('[name=evidence]') !== null"):
                _press_until(browser, "document.activeElement.name === 'evidence'")
                browser.press("Space")
            _press_until(browser, "document.activeElement.type === 'submit'")
            browser.press("Enter")
            browser.wait(f"location.pathname !== {here!r} && document.readyState === 'complete'")
    kept = marks.marks()
    assert len(kept) == 20
    assert Counter(mark.answer for mark in kept.values()) == {"right": 10, "wrong": 10}
    assert all(mark.seconds is not None and mark.seconds > 0 for mark in kept.values())


def _press_until(browser: Chromium, holds: str) -> None:
    for _ in range(400):
        browser.press("Tab")
        if browser.value(holds):
            return
    raise AssertionError(holds)


def test_a_live_patient_grows_when_it_is_asked_for_again(
    browser: Chromium, live_stream_path: Path, live_rules: Path, tmp_path: Path
) -> None:
    shutil.copytree(live_stream_path, tmp_path / "live")
    shutil.copytree(live_stream_path.parent / "lines", tmp_path / "lines")
    with contextmanager(serve)(viewer_app(ViewerPages([], streams=[ViewedStream(tmp_path / "live")]))) as origin:
        browser.open(f"{origin}/streams/1/patients/8.html")
        newest = "document.querySelector('section.turn')?.id"
        before = browser.value(newest)
        with (tmp_path / "lines" / "a.jsonl").open("a", encoding="utf-8") as target:
            target.write('{"table":"labevents","known":"2150-01-03 00:10:00","time":"2150-01-03 00:10:00","row":')
            target.write(
                '{"row_id":"labevents:900","subject_id":8,"label":"Lactate","valuenum":7,"valueuom":"mmol/L"}}\n'
            )
        settings, rules = FollowSettings(once=True, finish=True), coded_responder(live_rules)
        spec = load_source_spec("mimiciv")
        follow(spec, tmp_path / "lines", tmp_path / "live", settings=settings, responder=rules)
        _press_until(browser, "document.activeElement.textContent === 'refresh'")
        browser.press("Enter")
        browser.wait(f"({newest} ?? {before!r}) !== {before!r} && document.readyState === 'complete'")
        assert "labevents:900" in browser.value("document.querySelector('#proposed ~ ul').textContent")


def test_an_export_opens_from_disk(
    browser: Chromium, runs: list[ViewedRun], streams: list[ViewedStream], marks: MarksFile, tmp_path: Path
) -> None:
    """A page of every kind that is written."""
    pages = ViewerPages([runs[0], runs[3], runs[4]], streams=streams[:1], marks=marks)
    first = write_site(pages, tmp_path / "site")
    browser.look(width=NARROW)
    browser.open(first.as_uri())
    browser.press("Tab")
    browser.press("Enter")
    browser.wait("location.pathname.endsWith('runs/1/index.html') && document.readyState === 'complete'")
    kinds = {_kind(file.relative_to(first.parent)): file for file in sorted(first.parent.rglob("*.html"))}
    assert len(kinds) == 14, sorted(kinds)
    for kind, file in kinds.items():
        browser.open(file.as_uri())
        assert browser.value("document.querySelectorAll('h1').length") == 1, kind
        assert browser.value("getComputedStyle(document.body).marginTop") == "0px", "the style was let in"
        assert browser.value("document.querySelectorAll('form').length") == 0, "nothing can be asked of a file"
        assert browser.value("document.documentElement.scrollWidth") <= NARROW, kind
    browser.look()


def _kind(file: Path) -> str:
    """What a file of an export is, without numbers and names made of digests."""
    return re.sub(r"\b[0-9a-f]{10,}\b|\d+", "*", str(file))


def test_an_episode_prints(browser: Chromium, addresses: dict[str, str]) -> None:
    browser.open(addresses["episode"])
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) > 1
