"""What an agent reads when it looks something up."""

from __future__ import annotations

import json
from datetime import date

import pytest
from fake_chart import small_chart

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from wardround.tools import TOOLS, Environment, EnvironmentOptions, Toolset, corpus_tool, default_toolset
from wardround.tools.knowledge import Knowledge, Library, add_corpus

NAMES = ("retrieve_pubmed", "retrieve_textbooks", "retrieve_handbook", "retrieve_corpus")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("library")
    documents = [
        {"id": f"{n}", "title": f"Trial {n}", "content": "sodium " * (20 if n else 4000), "year": 2000 + n}
        for n in range(12)
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
    add_corpus(folder / "lib", "pubmed", folder / "a.jsonl", licence="invented", date="2024-06-30")
    return Library(folder / "lib")


def environment(library: Library, until: date | None = None) -> Environment:
    knowledge = Knowledge(library=library, until=until)
    options = EnvironmentOptions(knowledge=knowledge, max_result_tokens=600)
    return Environment(small_chart(3), default_toolset(more=NAMES), options)


def test_documents_come_with_title_date_and_address_and_go_on(library: Library) -> None:
    bound = environment(library)
    seen: list[str] = []
    result = bound.call("retrieve_pubmed", {"query": "sodium trial"})
    head = "pubmed (12 documents, as of 2024-06-30): documents 1-5 nearest to 'sodium trial', cursor=c"
    assert result.text.startswith(head)
    while True:
        heads = [line for line in result.text.splitlines() if line.startswith("[")]
        seen += [one.partition("] ")[2].partition(" (")[0] for one in heads]
        if result.cursor is None:
            break
        result = bound.call("get_next_page", {"cursor": result.cursor})
    assert sorted(seen) == sorted(f"Trial {n}" for n in range(12))
    assert result.row_ids == (), "a document is no row of the record"


def test_a_long_document_is_read_to_its_end(library: Library) -> None:
    bound = environment(library)
    cursor = bound.call("retrieve_pubmed", {"query": "trial 0", "limit": 1}).text.rpartition("cursor=")[2][:10]
    words = 0
    page = bound.call("get_next_page", {"cursor": cursor})
    while True:
        assert page.text.startswith("corpus://pubmed/0: characters ")
        words += page.text.partition("\n")[2].count("sodium")
        if page.cursor is None:
            break
        page = bound.call("get_next_page", {"cursor": page.cursor})
    first = bound.call("retrieve_pubmed", {"query": "trial 0", "limit": 1}).text.count("sodium")
    assert first + words == 4000


def test_nothing_that_was_published_later_is_shown(library: Library) -> None:
    bound = environment(library, until=date(2003, 12, 31))
    shown = bound.call("retrieve_pubmed", {"query": "sodium", "limit": 20}).text
    assert [f"Trial {n} (" in shown for n in range(12)] == [n <= 3 for n in range(12)]
    none = environment(library, until=date(1990, 1, 1)).call("retrieve_pubmed", {"query": "sodium"})
    assert "no document that was published by 1990-01-01" in none.text


def test_a_corpus_that_is_not_there_is_said_and_no_word_of_a_parser_is(library: Library) -> None:
    bound = environment(library)
    missing = bound.call("retrieve_textbooks", {"query": "sodium"})
    assert missing.is_error
    assert "'textbooks' is not installed here. Installed: pubmed, handbook" in missing.text
    assert not bound.call("retrieve_corpus", {"corpus": "PubMed", "query": "sodium"}).is_error
    assert "nearest to" in bound.call("retrieve_handbook", {"query": "title:(sodium AND"}).text
    assert "holds a word of" in bound.call("retrieve_handbook", {"query": "qqqq"}).text
    assert bound.call("retrieve_pubmed", {"query": " "}).is_error


def test_a_corpus_of_ones_own_has_a_tool_by_its_name() -> None:
    own = corpus_tool("guidelines", "the guidelines of this hospital")
    assert own.name == "retrieve_guidelines"
    assert "guidelines of this hospital" in own.description
    missing = Environment(small_chart(3), Toolset((own,))).call("retrieve_guidelines", {"query": "x"})
    assert "'guidelines' is not installed" in missing.text


def test_they_are_offered_only_where_somebody_asks() -> None:
    assert set(NAMES).isdisjoint(default_toolset().names)
    assert set(NAMES) <= set(TOOLS.names)
