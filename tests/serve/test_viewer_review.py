"""Blinded review: what a reviewer is not shown, forms over HTTP, marks beside the run, agreement and CSV."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from starlette.testclient import TestClient

from wardround.cli import main
from wardround.core import UserError
from wardround.serve.viewer import MarksFile, ReviewPages, ViewedRun, ViewerPages, review_app, viewer_app
from wardround.serve.viewer import review as round_pages
from wardround.serve.viewer.review import (
    LONGEST_COMMENT,
    ReviewMark,
    agreement_rows,
    marked_episodes,
    marks_csv,
    median_seconds,
)
from wardround.tasks.scoring.classification import cohen_kappa

LOCAL = "http://127.0.0.1:8765"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(viewed_run_path: Path) -> ViewedRun:
    return ViewedRun(viewed_run_path)


@pytest.fixture
def file(run: ViewedRun, tmp_path: Path) -> MarksFile:
    return MarksFile(tmp_path / "marks.jsonl", [run])


@pytest.fixture
def client(run: ViewedRun, file: MarksFile) -> TestClient:
    return TestClient(review_app(ReviewPages([run], file)), base_url=LOCAL, raise_server_exceptions=False)


def token_of(client: TestClient, address: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', client.get(address).text)
    assert found is not None
    return found[1]


def mark(client: TestClient, item: str, reviewer: str, answer: str, **given: str) -> int:
    address = f"/items/{item}.html?reviewer={reviewer}"
    body = {"token": token_of(client, address), "answer": answer, "evidence": "support", **given}
    return client.post(address, data=body, follow_redirects=False).status_code


def test_a_reviewer_sees_neither_who_played_nor_how_it_was_scored(client: TestClient, run: ViewedRun) -> None:
    items = ReviewPages([run], MarksFile(run.folder.path.parent / "order.jsonl", [run])).items
    pages = [client.get("/?reviewer=ann").text]
    first = re.search(r'href="/items/(\w+)\.html', pages[0])
    assert first is not None
    seen = set[str]()
    address = f"/items/{first[1]}.html?reviewer=ann"
    for _ in run.scores:
        text = client.get(address).text
        pages.append(text)
        body = {"token": token_of(client, address), "answer": "right", "evidence": "support"}
        address = client.post(address, data=body, follow_redirects=False).headers["location"]
        seen.add(address)
    assert (len(seen), address) == (len(items), "/?reviewer=ann")
    for text in pages:
        assert "form.mark fieldset {" in text, "the form has its style"
        for told in ("react", "retrosum", "offline", "F1", "recall", "grounding", "was read</th>", "Target", "tokens"):
            assert told not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL), told
        assert "chip hit" not in text
        assert "chip miss" not in text
        assert "<script" not in text


def test_nothing_else_is_served_in_a_round(client: TestClient, run: ViewedRun) -> None:
    for address in ("/runs/1/index.html", "/runs/1/samples.html", f"/runs/1/{next(iter(run.pages))}", "/index.html"):
        assert client.get(address).status_code == 404


def test_the_order_is_that_of_the_files_secret(run: ViewedRun, tmp_path: Path) -> None:
    """Two files name and order the same episodes otherwise; one file always does the same."""
    first, second = (ReviewPages([run], MarksFile(tmp_path / name, [run])) for name in ("a", "b"))
    again = ReviewPages([run], MarksFile(tmp_path / "a", [run]))
    assert list(first.items) == list(again.items) == sorted(first.items)
    assert not set(first.items) & set(second.items)
    assert {score.episode for _, score in first.items.values()} == {score.episode for score in run.scores}


def test_a_mark_is_kept_beside_the_run_and_a_later_one_takes_its_place(
    client: TestClient, file: MarksFile, run: ViewedRun
) -> None:
    item = file.item_of(run, run.scores[0].episode)
    before = sorted(path for path in run.folder.path.rglob("*"))
    comment = f"{HOSTILE}\r\nsecond line\u2028third"
    assert mark(client, item, "ann", "wrong", comment="at first") == 303
    assert mark(client, item, "ann", "partly", comment=comment) == 303
    assert mark(client, item, "bob", "right") == 303
    marks = MarksFile(file.path, [run]).marks()
    assert {key: one.answer for key, one in marks.items()} == {(item, "ann"): "partly", (item, "bob"): "right"}
    assert marks[item, "ann"].comment == f"{HOSTILE}\nsecond line\u2028third"
    assert sorted(path for path in run.folder.path.rglob("*")) == before
    assert file.path.stat().st_mode & 0o077 == 0
    assert HOSTILE not in client.get(f"/items/{item}.html?reviewer=ann").text
    assert "&lt;script&gt;" in client.get("/?reviewer=ann").text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"answer": "maybe"}, "Is the answer right? Choose one of: right"),
        ({"evidence": ""}, "Do the cited rows support it?"),
        ({"comment": "x" * (LONGEST_COMMENT + 1)}, "a comment has at most 4,000 characters"),
    ],
)
def test_what_a_form_lacks_is_said_on_it(
    client: TestClient, file: MarksFile, run: ViewedRun, given: dict[str, str], said: str
) -> None:
    item = file.item_of(run, run.scores[0].episode)
    address = f"/items/{item}.html?reviewer=ann"
    body = {"token": token_of(client, address), "answer": "right", "evidence": "support", **given}
    answer = client.post(address, data=body)
    assert answer.status_code == 400
    assert said in answer.text
    assert not file.marks()


def test_a_form_of_another_origin_or_a_huge_one_is_refused(client: TestClient, file: MarksFile, run: ViewedRun) -> None:
    item = file.item_of(run, run.scores[0].episode)
    address = f"/items/{item}.html?reviewer=ann"
    body = {"answer": "right", "evidence": "support"}
    assert client.post(address, data=body).status_code == 403
    assert client.post(address, data={**body, "token": "guessed"}).status_code == 403
    assert client.post(address, content=b"x" * 100_000).status_code == 413
    assert client.post(address, data=body, headers={"Host": "evil.example"}).status_code == 400
    assert client.get(f"/items/{item}.html").status_code == 400, "nobody in particular reviews"
    assert client.get("/items/0000.html?reviewer=ann").status_code == 404
    assert not file.marks()


def test_agreement_and_csv_are_of_the_marks(client: TestClient, file: MarksFile, run: ViewedRun) -> None:
    said = {"ann": ("right", "wrong", "partly", "right"), "bob": ("right", "right", "partly", "cannot tell")}
    chosen = run.scores[:4]
    for name, answers in said.items():
        for score, answer in zip(chosen, answers, strict=True):
            mark(client, file.item_of(run, score.episode), name, answer, comment="=1+1" if answer == "wrong" else "")
    episodes = marked_episodes(run, file)
    rows = {(row.question, row.who): row for row in agreement_rows(episodes, seed=3)}
    between = rows["answer", "ann and bob"]
    pairs = list(zip(said["ann"], said["bob"], strict=True))
    assert (between.items, between.same, between.measure) == (4, 2, "Cohen")
    assert between.kappa is not None
    assert between.kappa.estimate == pytest.approx(3 / 11)  # p_o 1/2, p_e (2 x 2 + 1 x 0 + 1 x 1) / 16
    assert between.kappa == cohen_kappa(pairs, [score.subject_id for score in chosen], seed=3)
    assert rows["evidence", "ann and bob"].missing == "not defined: all marks are equal"
    assert rows["answer", "bob and scorer"].items == 3, "what cannot be told is not held against the scorer"
    table = list(csv.DictReader(io.StringIO(marks_csv(episodes))))
    assert len(table) == 8
    assert {row["comment"] for row in table} == {"", "'=1+1"}
    assert {(row["episode"], row["reviewer"]): row["answer"] for row in table} == {
        (score.episode, name): answer
        for name, answers in said.items()
        for score, answer in zip(chosen, answers, strict=True)
    }


def test_marks_stand_in_the_viewer_where_they_are_named(client: TestClient, file: MarksFile, run: ViewedRun) -> None:
    mark(client, file.item_of(run, run.scores[0].episode), "ann", "right", comment=HOSTILE)
    shown = TestClient(viewer_app(ViewerPages([run], marks=file)), base_url=LOCAL)
    text = shown.get("/runs/1/marks.html").text
    assert "1 episodes were marked by 1 reviewer: ann" in text
    assert "&lt;script&gt;alert(1)" in text
    assert shown.get("/runs/1/marks.csv").headers["content-type"].startswith("text/csv")
    assert 'href="marks.html"' in shown.get("/runs/1/").text
    plain = TestClient(viewer_app(ViewerPages([run])), base_url=LOCAL)
    assert plain.get("/runs/1/marks.html").status_code == 404
    assert 'href="marks.html"' not in plain.get("/runs/1/").text


def test_a_file_in_the_run_or_of_something_else_is_refused(run: ViewedRun, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="choose a file outside it"):
        MarksFile(run.folder.path / "marks.jsonl", [run])
    (tmp_path / "other").write_text("no marks\n")
    with pytest.raises(UserError, match="is not a file of marks"):
        MarksFile(tmp_path / "other", [run])


def test_the_command_says_what_to_do(run: ViewedRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = ["view", str(run.folder.path)]
    assert main([*view, "--marks", str(tmp_path / "none")]) == 2
    assert "a review with --blinded makes the file" in capsys.readouterr().err
    assert main([*view, "--blinded", str(tmp_path / "new"), "--export", str(tmp_path / "site")]) == 2
    assert "it cannot be exported" in capsys.readouterr().err


def test_an_answer_without_citations_is_not_asked_about_its_evidence(
    run: ViewedRun, file: MarksFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_pages, "_citations", lambda trajectory: ())
    client = TestClient(review_app(ReviewPages([run], file)), base_url=LOCAL)
    item = file.item_of(run, run.scores[0].episode)
    text = client.get(f"/items/{item}.html?reviewer=ann").text
    assert "Do the cited rows support it?" not in text
    assert "cites no rows" in text
    assert mark(client, item, "ann", "cannot tell", evidence="support") == 303
    kept = file.marks()[item, "ann"]
    assert (kept.answer, kept.evidence) == ("cannot tell", "")
    assert kept.seconds is not None
    rows = {(row.question, row.who): row for row in agreement_rows(marked_episodes(run, file), seed=3)}
    assert rows["answer", "ann and scorer"].items == 0
    assert median_seconds(marked_episodes(run, file))["ann"][0] == 1
    address = f"/items/{item}.html?reviewer=ann"
    again = {"token": token_of(client, address), "answer": "right"}
    sent = [client.post(address, data=again, follow_redirects=False).status_code for _ in range(2)]
    assert sent == [303, 303]
    assert file.marks()[item, "ann"].seconds is None, "the page was not shown again: nobody knows how long it took"
    assert median_seconds(marked_episodes(run, file)) == {}


def test_the_question_stands_open_in_plain_words_and_what_came_is_nowhere(run: ViewedRun, client: TestClient) -> None:
    file = MarksFile(run.folder.path.parent / "open.jsonl", [run])
    pages = ReviewPages([run], file)
    for item, (_, score) in pages.items.items():
        text = pages.item_page(item, "ann", token="t")
        heading = re.search(r"<h1>(.*?)</h1>", text)
        assert heading is not None
        assert heading[1].endswith("?")
        assert "years" in text or "-year-old" in text
        assert "What happened" not in text
        missed = set(run.samples[score.sample].target) - set(score.answer or ())
        card = text[text.index('class="case"') : text.index('class="mark"')]
        assert not [name for name in missed if f">{name}<" in card]


def test_agreement_on_evidence_counts_only_what_all_were_asked(run: ViewedRun, file: MarksFile) -> None:
    first, second = run.scores[:2]
    for name in ("ann", "bob"):
        file.add(ReviewMark(item=file.item_of(run, first.episode), reviewer=name, answer="right", evidence=""))
        file.add(ReviewMark(item=file.item_of(run, second.episode), reviewer=name, answer="right", evidence="partly"))
    rows = {row.question: row for row in agreement_rows(marked_episodes(run, file), seed=3) if row.who == "ann and bob"}
    assert (rows["answer"].items, rows["evidence"].items) == (2, 1)
