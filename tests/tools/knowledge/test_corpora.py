"""Corpora: files in, documents out, through revisions, deletions, dates and kills."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path

import pytest

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from forking import commands, kill, wait_for
from wardround.core import UserError
from wardround.tools.knowledge import Library, add_corpus, remove_corpus
from wardround.tools.knowledge.formats import plain_document

TERMS = {"licence": "invented", "date": "2024-06-30"}


def lines(path: Path, *documents: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
    return path


def ids(library: Path, name: str, query: str, **more: object) -> list[str]:
    return [hit.document.id for hit in Library(library).get(name).search(query, 10, **more)]  # type: ignore[arg-type]


def article(pmid: int, title: str, abstract: str, *, version: int = 1, year: str = "<Year>2019</Year>") -> str:
    return f"""<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article>
      <Journal><JournalIssue><PubDate>{year}</PubDate></JournalIssue></Journal>
      <ArticleTitle>{title}</ArticleTitle><Abstract>{abstract}</Abstract></Article></MedlineCitation></PubmedArticle>"""


def pubmed(path: Path, *articles: str, deleted: tuple[int, ...] = ()) -> None:
    gone = "".join(f'<PMID Version="1">{one}</PMID>' for one in deleted)
    body = f"<PubmedArticleSet>{''.join(articles)}<DeleteCitation>{gone}</DeleteCitation></PubmedArticleSet>"
    path.write_bytes(gzip.compress(body.encode()))


def test_a_document_is_found_by_its_words_in_any_form(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "a.jsonl",
        {"id": "s", "title": "Sepsis", "content": "Early antibiotics lower mortality.", "date": "2020-05-01"},
        {"id": "a", "title": "Asthma", "content": "Salbutamol relieves wheezing."},
    )
    added = add_corpus(tmp_path / "lib", "notes", file, **TERMS)
    assert (added.documents, added.manifest.documents, added.unchanged) == (2, 2, 0)
    corpus = Library(tmp_path / "lib").get("notes")
    (hit,) = corpus.search("ANTIBIOTIC for mortalities?", 5)
    assert (hit.document.id, hit.document.published) == ("s", date(2020, 5, 1))
    assert corpus.address(hit.document) == "corpus://notes/s"
    asthma = corpus.get("a")
    assert asthma is not None
    assert asthma.published == date(2024, 6, 30), "a document without a date has its corpus's"


def test_a_word_that_a_long_question_repeats_is_what_it_is_about(tmp_path: Path) -> None:
    """More words than are looked for at once, each in a document of its own; one is said three times."""
    words = [f"{letter}{other}orin" for letter in "bcdfghjklmnp" for other in "aeiou"]
    file = lines(
        tmp_path / "a.jsonl",
        *({"id": word, "title": "", "content": f"{word} helps some people."} for word in words),
    )
    add_corpus(tmp_path / "lib", "notes", file, **TERMS)
    for asked in (words[0], words[-1]):
        question = " ".join([asked, *words[1:-1], asked, "and again", asked])
        assert ids(tmp_path / "lib", "notes", question)[0] == asked
    short = f"{words[3]} or {words[1]}? my doctor said {words[3]}"
    assert ids(tmp_path / "lib", "notes", short) == [words[3], words[1]]


SYNTAX = (
    "sepsis AND (",
    '"sepsis',
    "title:sepsis^9~",
    "sepsis [* TO }",
    "+sepsis -",
    "NOT sepsis",
    "sepsis\\",
    "/sepsis/",
)


@pytest.mark.parametrize("query", SYNTAX)
def test_no_character_of_a_query_is_syntax(tmp_path: Path, query: str) -> None:
    add_corpus(
        tmp_path / "lib", "n", lines(tmp_path / "a.jsonl", {"id": "s", "title": "t", "content": "sepsis"}), **TERMS
    )
    assert ids(tmp_path / "lib", "n", query) == ["s"]


@pytest.mark.parametrize("late", [1, 2, 20], ids=["most are early", "half", "few"])
def test_a_date_leaves_the_order_of_the_others_as_it_is(tmp_path: Path, late: int) -> None:
    documents = [
        {
            "id": str(n),
            "title": "",
            "content": "sodium " * (1 + n % 7) + "water " * (n % 5),
            "year": 2000 + 20 * (n % late > 0),
        }
        for n in range(90)
    ]
    add_corpus(tmp_path / "lib", "n", lines(tmp_path / "a.jsonl", *documents), **TERMS)
    corpus, until = Library(tmp_path / "lib").get("n"), date(2010, 1, 1)
    every = [hit.document for hit in corpus.search("sodium water", 90)]
    early = [one.id for one in every if one.published is not None and one.published <= until]
    for offset in (0, 3, 60):
        found = [hit.document.id for hit in corpus.search("sodium water", 4, offset=offset, until=until)]
        assert found == early[offset : offset + 4]


def test_accents_are_no_part_of_a_word(tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", {"id": "s", "title": "Sjögren", "content": "Ménière and naïve T cells."})
    add_corpus(tmp_path / "lib", "n", file, **TERMS)
    for query in ("sjogren", "Sjögren", "Meniere", "NAÏVE"):
        assert ids(tmp_path / "lib", "n", query) == ["s"]


def test_what_was_published_later_is_not_there(tmp_path: Path) -> None:
    file = lines(
        tmp_path / "a.jsonl",
        {"id": "year", "title": "", "content": "sodium", "year": "2011"},
        {"id": "month", "title": "", "content": "sodium", "date": "2011 Feb"},
        {"id": "day", "title": "", "content": "sodium", "date": "2011-03-05"},
        {"id": "none", "title": "", "content": "sodium"},
    )
    add_corpus(tmp_path / "lib", "n", file, **TERMS)
    corpus = Library(tmp_path / "lib").get("n")

    def found(until: date | None) -> set[str]:
        searched = {hit.document.id for hit in corpus.search("sodium", 10, until=until)}
        assert searched == {one for one in ("year", "month", "day", "none") if corpus.get(one, until=until)}
        return searched

    assert found(None) == {"year", "month", "day", "none"}
    assert found(date(2011, 2, 27)) == set()
    assert found(date(2011, 2, 28)) == {"month"}
    assert found(date(2011, 3, 5)) == {"month", "day"}
    assert found(date(2011, 12, 30)) == {"month", "day"}, "a year may mean its last day"
    assert found(date(2011, 12, 31)) == {"month", "day", "year"}
    assert found(date(2024, 6, 30)) == {"month", "day", "year", "none"}


def test_pubmed_revisions_replace_and_deletions_remove(tmp_path: Path) -> None:
    files = tmp_path / "pubmed"
    files.mkdir()
    parts = '<AbstractText Label="METHODS">Cats &amp; <i>dogs</i>.</AbstractText><AbstractText>More.</AbstractText>'
    pubmed(files / "p1.xml.gz", article(1, "First", parts), article(2, "Second", "<AbstractText>zebra</AbstractText>"))
    add_corpus(tmp_path / "lib", "pubmed", files, **TERMS)
    first = Library(tmp_path / "lib").get("pubmed").get("1")
    assert first is not None
    assert first.text == "Methods: Cats & dogs.\nMore."
    assert first.published == date(2019, 12, 31)

    year = "<MedlineDate>2019 Mar-Apr</MedlineDate>"
    revised = article(1, "First", "<AbstractText>yak</AbstractText>", version=2, year=year)
    pubmed(files / "p2.xml.gz", revised, revised, article(3, "Third", ""), deleted=(2, 99))
    added = add_corpus(tmp_path / "lib", "pubmed", files)
    assert (added.files, added.unchanged, added.withdrawn, added.manifest.documents) == (1, 1, 2, 2)
    assert ids(tmp_path / "lib", "pubmed", "dogs") == []
    assert ids(tmp_path / "lib", "pubmed", "zebra") == []
    assert ids(tmp_path / "lib", "pubmed", "yak") == ["1"]
    assert ids(tmp_path / "lib", "pubmed", "third") == ["3"], "an article without an abstract is its title"

    pubmed(files / "p0.xml.gz", article(2, "Second", "<AbstractText>zebra</AbstractText>"))
    with pytest.raises(UserError, match=r"p0.xml.gz comes before p2.xml.gz"):
        add_corpus(tmp_path / "lib", "pubmed", files)


def test_a_damaged_file_ends_the_add_and_what_was_before_stays(tmp_path: Path) -> None:
    files = tmp_path / "pubmed"
    files.mkdir()
    pubmed(files / "p1.xml.gz", article(1, "First", "<AbstractText>yak</AbstractText>"))
    add_corpus(tmp_path / "lib", "pubmed", files, **TERMS)
    whole = (files / "p1.xml.gz").read_bytes()
    (files / "p2.xml.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"p2.xml.gz is damaged"):
        add_corpus(tmp_path / "lib", "pubmed", files)
    library = Library(tmp_path / "lib")
    assert library.get("pubmed").get("1") is not None
    assert library.manifest("pubmed").waiting == ("p2.xml.gz",)


WHOLE = gzip.compress(b"".join(b'{"id": "%d", "content": "gnu %d"}\n' % (n, n * n) for n in range(300)), mtime=0)
BROKEN = {
    "no gzip": b"plain text",
    "cut short": WHOLE[: len(WHOLE) // 2],
    "bytes changed within": WHOLE[:40] + b"\xff" * 40 + WHOLE[80:],
    "another checksum": WHOLE[:-8] + bytes(4) + WHOLE[-4:],
}


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".xml.gz"])
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_an_archive_that_cannot_be_unpacked_is_named(tmp_path: Path, suffix: str, broken: bytes) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / f"part-07{suffix}").write_bytes(broken)
    with pytest.raises(UserError, match=r"^part-07\S+ is damaged \(.+\); fetch it again and add it again$"):
        add_corpus(tmp_path / "lib", "broken", files, **TERMS)


@pytest.mark.parametrize(
    ("written", "title", "text"),
    [
        ("---\ntitle: Potassium\n---\n\nIt kills.\n", "Potassium", "It kills."),
        ("---\n---\n# Potassium\n", "Potassium", "# Potassium"),
        ("---\ntitle: Potassium\nIt kills.\n", "a.md", "--- title: Potassium It kills."),
        ("It kills.\n---\ntitle: Potassium\n---\n", "a.md", "It kills. --- title: Potassium ---"),
    ],
    ids=["with a title", "empty", "without its end", "below the top"],
)
def test_front_matter_is_no_text(written: str, title: str, text: str) -> None:
    document = plain_document(written, "a.md")
    assert (document.title, document.text) == (title, text)


def test_pages_of_a_folder_are_documents(tmp_path: Path) -> None:
    files = tmp_path / "pages"
    (files / "deep").mkdir(parents=True)
    (files / "a.md").write_text(
        "---\ntitle: Potassium\ndate: 2022-02\n---\n# Other heading\nHigh potassium\u200b kills.\n"
    )
    (files / "deep" / "b.html").write_text(
        "<title>Sodium page</title><p style='display:none'>secret order</p><p>Low sodium confuses.</p>"
    )
    (files / "empty.txt").write_text(" \n")
    (files / "picture.png").write_bytes(b"not text")
    added = add_corpus(tmp_path / "lib", "local", files, **TERMS)
    assert (added.files, added.manifest.documents) == (3, 2)
    corpus = Library(tmp_path / "lib").get("local")
    potassium, sodium = corpus.get("a.md"), corpus.get("deep/b.html")
    assert potassium is not None
    assert (potassium.title, potassium.published) == ("Potassium", date(2022, 2, 28))
    assert "potassium kills" in potassium.text
    assert sodium is not None
    assert (sodium.title, sodium.text) == ("Sodium page", "Low sodium confuses.")
    assert corpus.address(sodium) == "corpus://local/deep/b.html"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"name": "Bad Name"}, "small letters"),
        ({"name": "handbook"}, "ships with wardround"),
        ({"licence": ""}, "needs --licence"),
        ({"date": "June"}, "written like 2024-01-31"),
        ({"place": "nowhere"}, "the file or folder .* is missing"),
    ],
)
def test_wrong_use_is_one_clear_line(tmp_path: Path, words: dict[str, str], said: str) -> None:
    lines(tmp_path / "a.jsonl", {"id": "1", "content": "x"})
    given = {"name": "n", "place": "a.jsonl", **TERMS, **words}
    with pytest.raises(UserError, match=said):
        add_corpus(
            tmp_path / "lib",
            given["name"],
            tmp_path / given["place"],
            licence=given["licence"],
            date=given["date"],
        )


@pytest.mark.parametrize(
    ("line", "said"),
    [("{", "line 2 is not JSON"), ("[]", "no JSON object"), ('{"id": "1"}', "no text"), ('{"content": "x"}', "no id")],
)
def test_a_line_that_is_no_document_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "0", "content": "x"}\n' + line + "\n")
    with pytest.raises(UserError, match=said):
        add_corpus(tmp_path / "lib", "n", tmp_path / "a.jsonl", **TERMS)


def test_a_removed_corpus_is_gone(tmp_path: Path) -> None:
    add_corpus(tmp_path / "lib", "n", lines(tmp_path / "a.jsonl", {"id": "1", "content": "x"}), **TERMS)
    remove_corpus(tmp_path / "lib", "n")
    assert Library(tmp_path / "lib").names == ("handbook",)
    with pytest.raises(UserError, match="no corpus 'n'"):
        remove_corpus(tmp_path / "lib", "n")
    with pytest.raises(UserError, match="cannot be removed"):
        remove_corpus(tmp_path / "lib", "handbook")


_ADD = """
import sys, time
from pathlib import Path
import wardround.tools.knowledge.library as adding
adding._DOCUMENTS_AT_ONCE = 1
write, step = adding.write_manifest, int(sys.argv[3])
def halting(folder, manifest):
    global step
    step -= 1
    if step == 0:
        print("here", flush=True)
        while not Path(sys.argv[4]).exists():
            time.sleep(0.002)
    write(folder, manifest)
adding.write_manifest = halting
adding.add_corpus(Path(sys.argv[1]), "n", Path(sys.argv[2]), licence="invented", date="2024-06-30")
"""


def halted(folder: Path, files: Path, step: int) -> int:
    """Start adding in a process that halts before it writes a manifest for the so-manieth time, and wait for that."""
    printed = folder / "printed"
    words = [str(folder / "lib"), str(files), str(step), str(folder / "go-on")]
    adding = commands().start_program(_ADD, words, str(printed))
    wait_for(lambda: printed.exists() and printed.read_text() == "here\n", adding)
    return adding


@pytest.mark.parametrize("step", [1, 2, 4])
def test_a_kill_between_commit_and_manifest_loses_and_doubles_nothing(tmp_path: Path, step: int) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for name in ("a", "b", "c"):
        lines(files / f"{name}.jsonl", {"id": name, "content": "sodium"}, {"id": f"{name}2", "content": "sodium"})
    kill(halted(tmp_path, files, step))
    added = add_corpus(tmp_path / "lib", "n", files, **TERMS)
    assert added.unchanged == max(0, step - 2)
    assert added.manifest.documents == 6
    assert added.manifest.waiting == ()
    assert sorted(ids(tmp_path / "lib", "n", "sodium")) == ["a", "a2", "b", "b2", "c", "c2"]


def test_while_one_adds_another_is_told(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    lines(files / "a.jsonl", {"id": "a", "content": "sodium"})
    adding = halted(tmp_path, files, 2)
    with pytest.raises(UserError, match="another process"):
        add_corpus(tmp_path / "lib", "n", files, **TERMS)
    (tmp_path / "go-on").touch()
    assert commands().status(adding) == 0
    assert Library(tmp_path / "lib").get("n").get("a") is not None


def test_the_handbook_ships_and_answers() -> None:
    handbook = Library().get("handbook")
    assert handbook.manifest.documents >= 6
    assert handbook.search("low sodium", 1)[0].document.title == "Hyponatraemia"
