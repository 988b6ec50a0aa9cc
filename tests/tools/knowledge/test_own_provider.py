"""A search provider and a corpus format of one's own, added through the registries' own doors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path

import pytest

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from wardround.core import UserError
from wardround.models import DataUseGuard
from wardround.records import Store
from wardround.tools.knowledge import (
    FORMATS,
    PROVIDERS,
    CorpusFormat,
    Document,
    Knowledge,
    KnowledgeSettings,
    Library,
    ProviderOpening,
    SearchProvider,
    add_corpus,
)
from wardround.tools.knowledge.browser import SearchResult


class Index:
    """Answers every query with the page of its first word."""

    def __init__(self, opening: ProviderOpening) -> None:
        self.base_url = opening.base_url
        self.closed = False

    def search(self, query: str, topn: int, until: date | None) -> Sequence[SearchResult]:
        return [SearchResult(url=f"{self.base_url}/{query.split()[0]}", title=query, summary="own")]

    def close(self) -> None:
        self.closed = True


def pairs(path: Path, name: str) -> Iterator[Document]:
    for line in path.read_text().splitlines():
        identifier, _, text = line.partition("\t")
        yield Document(id=identifier, title="", text=text)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROVIDERS, "_entries", dict(PROVIDERS._entries))
    monkeypatch.setattr(FORMATS, "_entries", dict(FORMATS._entries))
    PROVIDERS.add("own", SearchProvider(name="own", description="my index", open=Index, base_url="http://127.0.0.1:9"))
    FORMATS.add("pairs", CorpusFormat(name="pairs", description="id, tab, text", suffixes=(".tsv",), read=pairs))


def test_a_provider_of_ones_own_searches(synthetic_store: Store) -> None:
    settings = KnowledgeSettings(egress="guarded", provider="own")
    knowledge = Knowledge.open(settings, guard=DataUseGuard(sensitivity="synthetic"))
    browser = knowledge.browser(synthetic_store.chart(90000002, datetime(2199, 1, 1)))
    assert "【0†low sodium†127.0.0.1:9】 own" in browser.search("low sodium", 3, tokens=500)
    assert knowledge.web is not None
    knowledge.close()
    assert isinstance(knowledge.web.searcher, Index)
    assert knowledge.web.searcher.closed


def test_a_provider_that_nobody_knows_is_named_with_those_there_are() -> None:
    with pytest.raises(UserError, match="serper, searxng, eutils, own"):
        Knowledge.open(
            KnowledgeSettings(egress="guarded", provider="bing"), guard=DataUseGuard(sensitivity="synthetic")
        )


def test_a_format_of_ones_own_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("x\tsodium is low\ny\tpotassium is high\n")
    add_corpus(tmp_path / "lib", "own", tmp_path / "a.tsv", licence="invented", date="2024-01-31")
    (hit,) = Library(tmp_path / "lib").get("own").search("potassium", 3)
    assert hit.document.id == "y"
