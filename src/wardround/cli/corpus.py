"""``wardround corpus``: add, list, search or remove corpora of medical text."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from wardround.cli.output import add_json_option, print_json, print_rows
from wardround.core import TerminalProgress, corpora_home, printable
from wardround.tools.knowledge import FORMATS, HANDBOOK, Hit, KnowledgeSettings, Library, add_corpus, remove_corpus

EXAMPLES = """
  wardround corpus add pubmed baseline/ --licence "NLM terms" --date 2026-01-15
      XML.gz files with revisions and deletions; update files are added later by the same name
  wardround corpus add textbooks textbooks/chunk/ --licence "as supplied" --date 2024-05-01
      JSON lines in the shape of MedRAG: id, title, content
  wardround corpus add local_guidelines guidelines/ --licence "in-house" --date 2026-06-30
      a folder of HTML, PDF and Markdown files
  wardround corpus list
  wardround corpus search handbook "low sodium" --published-until 2026-12-31
  wardround corpus remove textbooks
  wardround run --benchmark bench --store store --set run.tools=retrieve_pubmed,retrieve_handbook --out run
      agents search them with retrieve_<name> (pubmed, textbooks, statpearls, wikipedia, handbook) or retrieve_corpus
"""
_SHOWN_CHARACTERS = 240


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="read files into a corpus; again after a kill, it goes on", examples=EXAMPLES)
    add.add_argument("name", help="what to call it; its tool is retrieve_<name>")
    add.add_argument("files", type=Path, help="a file, or a folder of files")
    add.add_argument("--licence", default="", help="under which licence or terms you have it (a new one needs it)")
    add.add_argument("--date", default="", metavar="YYYY-MM-DD", help="the day it is of (a new one needs it)")
    add.add_argument("--title", default="", help="what it is, in words")
    add.add_argument("--format", choices=FORMATS.names, help="what the files are (default: by their names)")
    listing = actions.add_parser("list", help="list corpora", examples=EXAMPLES)
    search = actions.add_parser("search", help="search a corpus", examples=EXAMPLES)
    search.add_argument("name", help="which corpus")
    search.add_argument("query", help="what to look up")
    search.add_argument("--limit", type=int, default=5, help="how many documents")
    search.add_argument("--published-until", metavar="YYYY-MM-DD", help="nothing that was published after this day")
    remove = actions.add_parser("remove", help="delete a corpus", examples=EXAMPLES)
    remove.add_argument("name", help="which corpus")
    for action in (listing, search):
        add_json_option(action)
    for action in (add, listing, search, remove):
        action.add_argument("--library", type=Path, default=None, help="folder of the corpora (default: your own)")


def run(arguments: argparse.Namespace) -> int:
    """Run the action."""
    library = arguments.library or corpora_home()
    if arguments.action == "add":
        return _add(arguments, library)
    if arguments.action == "search":
        return _search(arguments, Library(library))
    if arguments.action == "list":
        return _list(arguments, Library(library))
    remove_corpus(library, arguments.name)
    print(f"removed {arguments.name}")
    return 0


def _add(arguments: argparse.Namespace, library: Path) -> int:
    progress = TerminalProgress()
    added = add_corpus(
        library,
        arguments.name,
        arguments.files,
        licence=arguments.licence,
        date=arguments.date,
        title=arguments.title,
        format_name=arguments.format,
        report=progress,
    )
    progress.close()
    unchanged = f", {added.unchanged:,} files were there already" if added.unchanged else ""
    gone = f", {added.withdrawn:,} deletions" if added.withdrawn else ""
    print(f"{arguments.name}: {added.documents:,} documents of {added.files:,} files{gone}{unchanged}")
    print(
        f"it holds {added.manifest.documents:,} documents; look into it: wardround corpus search {arguments.name} WORDS"
    )
    return 0


def _list(arguments: argparse.Namespace, library: Library) -> int:
    rows: list[dict[str, Any]] = []
    for name in library.names:
        manifest = library.manifest(name)
        waiting = f"unfinished: add it again ({len(manifest.waiting):,} files wait)" if manifest.waiting else ""
        shipped = "ships with wardround" if name == HANDBOOK else waiting
        rows.append({"corpus": name, **manifest.facts(), "title": manifest.title, "note": shipped})
    if arguments.json:
        print_json(rows)
        return 0
    shown = ("corpus", "documents", "date", "licence", "title", "note")
    print_rows(shown, [tuple(f"{row[key]:,}" if key == "documents" else row[key] for key in shown) for row in rows])
    return 0


def _search(arguments: argparse.Namespace, library: Library) -> int:
    until = KnowledgeSettings(published_until=arguments.published_until).until
    corpus = library.get(arguments.name)
    hits = corpus.search(arguments.query, arguments.limit, until=until)
    if arguments.json:
        print_json([_row(corpus.address(hit.document), hit) for hit in hits])
        return 0
    for hit in hits:
        text = " ".join(hit.document.text.split())
        print(
            printable(
                f"{hit.score:.2f}  {hit.document.title}  ({hit.document.published}, {corpus.address(hit.document)})"
            )
        )
        print(printable(f"      {text[:_SHOWN_CHARACTERS]}{'...' if len(text) > _SHOWN_CHARACTERS else ''}"))
    if not hits:
        print("no document holds one of these words")
    return 0


def _row(address: str, hit: Hit) -> dict[str, Any]:
    document = hit.document
    published = None if document.published is None else document.published.isoformat()
    return {
        "address": address,
        "title": document.title,
        "published": published,
        "score": hit.score,
        "text": document.text,
        "source": document.address,
    }
