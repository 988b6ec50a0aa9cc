"""``wardround corpus``, ``images`` and ``models``: text, images and weights that stand beside the records."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import Any

from wardround.cli.parser import Command, port
from wardround.cli.terminal import add_json_option, print_json, print_rows
from wardround.core import TerminalProgress, UserError, corpora_home, imaging_models_home, printable
from wardround.models.local import LOCAL_MODELS, LocalModel, model_of_file, serving
from wardround.tools.imaging.mimic_cxr import prepare_mimic_cxr
from wardround.tools.imaging.weights import ModelStore, find_known, known_models
from wardround.tools.knowledge import FORMATS, HANDBOOK, KnowledgeSettings, Library, add_corpus, remove_corpus

# ``wardround corpus``: add, list, search or remove corpora of medical text.


CORPUS_EXAMPLES = """
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


def configure_corpus(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser(
        "add", help="read files into a corpus; again after a kill, it goes on", examples=CORPUS_EXAMPLES
    )
    add.add_argument("name", help="what to call it; its tool is retrieve_<name>")
    add.add_argument("files", type=Path, help="a file, or a folder of files")
    add.add_argument("--licence", default="", help="under which licence or terms you have it (a new one needs it)")
    add.add_argument("--date", default="", metavar="YYYY-MM-DD", help="the day it is of (a new one needs it)")
    add.add_argument("--title", default="", help="what it is, in words")
    add.add_argument("--format", choices=FORMATS.names, help="what the files are (default: by their names)")
    listing = actions.add_parser("list", help="list corpora", examples=CORPUS_EXAMPLES)
    search = actions.add_parser("search", help="search a corpus", examples=CORPUS_EXAMPLES)
    search.add_argument("name", help="which corpus")
    search.add_argument("query", help="what to look up")
    search.add_argument("--limit", type=int, default=5, help="how many documents")
    search.add_argument("--published-until", metavar="YYYY-MM-DD", help="nothing that was published after this day")
    remove = actions.add_parser("remove", help="delete a corpus", examples=CORPUS_EXAMPLES)
    remove.add_argument("name", help="which corpus")
    for action in (listing, search):
        add_json_option(action)
    for action in (add, listing, search, remove):
        action.add_argument("--library", type=Path, default=None, help="folder of the corpora (default: your own)")


def run_corpus(arguments: argparse.Namespace) -> int:
    """Run the action."""
    library = arguments.library or corpora_home()
    if arguments.action == "add":
        return _add_corpus(arguments, library)
    if arguments.action == "search":
        return _search(arguments, Library(library))
    if arguments.action == "list":
        return _list_corpora(arguments, Library(library))
    remove_corpus(library, arguments.name)
    print(f"removed {arguments.name}")
    return 0


def _add_corpus(arguments: argparse.Namespace, library: Path) -> int:
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


def _list_corpora(arguments: argparse.Namespace, library: Library) -> int:
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
        print_json(
            [
                {
                    "address": corpus.address(hit.document),
                    "title": hit.document.title,
                    "published": None if hit.document.published is None else hit.document.published.isoformat(),
                    "score": hit.score,
                    "text": hit.document.text,
                    "source": hit.document.address,
                }
                for hit in hits
            ]
        )
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


# ``wardround images``: make tables of a release of images, to ingest with its records.


IMAGES_EXAMPLES = """
  wardround images prepare mimic-cxr-jpg-2.0.0 --notes mimic-iv-note/note/radiology.csv.gz --out prepared/cxr
  wardround ingest mimiciv mimic-iv-2.2 prepared --store store
  wardround run --benchmark bench --store store --set images.source=mimic-cxr-jpg-2.0.0 \\
      --set run.tools=image.image_visualizer --out run
"""


def configure_images(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="read the tables and reports of MIMIC-CXR", examples=IMAGES_EXAMPLES)
    prepare.add_argument("release", type=Path, help="folder of MIMIC-CXR or MIMIC-CXR-JPG as downloaded")
    prepare.add_argument("--notes", type=Path, help="radiology.csv.gz of MIMIC-IV-Note: when reports were done")
    prepare.add_argument("--out", type=Path, required=True, help="folder of the three tables; call it .../cxr")


def run_images(arguments: argparse.Namespace) -> int:
    """Prepare the tables and print what was made."""
    found = prepare_mimic_cxr(arguments.release, arguments.out, notes=arguments.notes)
    for table, count in found.rows.items():
        print(f"{table}: {count:,} rows")
    for reason, count in found.left_out.items():
        print(f"{reason}: {count:,}")
    print(f"tables: {arguments.out}; ingest its parent folder beside MIMIC-IV's")
    return 0


ADD_EXAMPLES = """
  wardround models add densenet121-res224-all densenet.onnx
  wardround models add chestx-det-pspnet pspnet.onnx --sha256 0123...
  wardround models add chexpert-mimic-cxr-impression checkpoints/impression
      `wardround models list` says where weights are published; examples/convert_chest_weights.py makes graphs of them
"""
LIST_EXAMPLES = """
  wardround models list
  wardround models list --json
"""
VERIFY_EXAMPLES = """
  wardround models verify
  wardround models verify densenet121-res224-all
"""


def configure_imaging(actions: Any) -> None:
    """Declare the actions beside ``serve``."""
    listing = actions.add_parser(
        "list", help="imaging weights: here or missing, where published", examples=LIST_EXAMPLES
    )
    add_json_option(listing)
    add = actions.add_parser("add", help="take imaging weights in that you have downloaded", examples=ADD_EXAMPLES)
    add.add_argument("name", help="which (wardround models list)")
    add.add_argument("file", type=Path, help="an ONNX graph (.onnx), or a checkpoint's folder (safetensors)")
    add.add_argument("--sha256", help="what the file's SHA-256 has to be")
    verify = actions.add_parser("verify", help="check that weights are what was added", examples=VERIFY_EXAMPLES)
    verify.add_argument("name", nargs="?", help="which; all without a name")
    for action in (listing, add, verify):
        action.add_argument("--folder", type=Path, help="folder of the weights (default: your own)")


def run_imaging(arguments: argparse.Namespace) -> int:
    """Run the action."""
    store = ModelStore(arguments.folder or imaging_models_home())
    if arguments.action == "add":
        return _add(store, arguments)
    return _verify(store, arguments.name) if arguments.action == "verify" else _list(store, as_json=arguments.json)


def _list(store: ModelStore, *, as_json: bool) -> int:
    rows = []
    for name in known_models():
        known, here = find_known(name), store.find(name)
        rows.append(
            {
                "model": name,
                "for": known.kind,
                "state": "endpoint" if known.kind == "grounding" else "missing" if here is None else "here",
                "trained on": ", ".join(known.seen),
                "terms": known.licence,
                "published": known.address,
            }
        )
    if as_json:
        print_json(rows)
    else:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
        print(f"folder: {store.root}; runs take it as --set images.models={store.root}")
    return 0


def _add(store: ModelStore, arguments: argparse.Namespace) -> int:
    model = store.add(arguments.name, arguments.file, sha256=arguments.sha256)
    print(f"{model.known.name}: {model.known.licence}; trained on {', '.join(model.known.seen)}")
    print(f"SHA-256 {model.facts['sha256']}; added to {store.root}")
    print(f"use it with --set images.models={store.root}")
    return 0


def _verify(store: ModelStore, name: str | None) -> int:
    found = [model for wanted in ([name] if name else known_models()) if (model := store.find(wanted)) is not None]
    if not found:
        known = "" if name is None else f" of {name}, published at {find_known(name).address}"
        raise UserError(f"there are no weights{known} in {store.root}; add them with wardround models add")
    wrong = {model.known.name: store.verify(model) for model in found}
    for model_name, what in wrong.items():
        print(f"{model_name}: {what or 'as it was added'}")
    return 1 if any(wrong.values()) else 0


# ``wardround models``: serve a small language model on this machine, and manage weights of image tools.


MODELS_EXAMPLES = """
  wardround models serve smollm2
  wardround models serve smollm2 --port 8189 --threads 1
  wardround models list
  wardround models serve --weights tuned/model.gguf
"""


def configure_models(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    serve = actions.add_parser("serve", help="serve a model on loopback until Ctrl-C", examples=MODELS_EXAMPLES)
    serve.add_argument("name", nargs="?", choices=sorted(LOCAL_MODELS), help="which model")
    serve.add_argument("--weights", type=Path, help="a .gguf file instead, such as one of 'wardround train sft'")
    serve.add_argument("--window", type=int, default=8192, help="context tokens of the weights in a file")
    serve.add_argument("--port", type=port, default=0, help="port on 127.0.0.1; 0 takes a free one")
    serve.add_argument("--threads", type=int, help="threads that compute (default: one for each core)")
    configure_imaging(actions)


def run_models(arguments: argparse.Namespace) -> int:
    """Run the action."""
    return _serve(arguments) if arguments.action == "serve" else run_imaging(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    """Serve, and print the base URL; a signal to stop is this command's normal end."""
    model = _asked(arguments)
    try:
        with serving(model, port=arguments.port, threads=arguments.threads) as url:
            print(
                f"{model.title}; window {model.context_tokens:,} tokens. Use it with --model openai/{model.name} "
                f"--base-url {url} --context-tokens {model.context_tokens}; Ctrl-C stops it",
                file=sys.stderr,
                flush=True,
            )
            print(url, flush=True)  # last: its reader may stop this process at once
            threading.Event().wait()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    return 0


def _asked(arguments: argparse.Namespace) -> LocalModel:
    if (arguments.name is None) == (arguments.weights is None):
        raise UserError("give either the name of a model or --weights FILE (wardround models serve --help)")
    if arguments.weights is not None:
        return model_of_file(arguments.weights, context_tokens=arguments.window)
    return LOCAL_MODELS[arguments.name]


CORPUS = Command(CORPUS_EXAMPLES, configure_corpus, run_corpus)
IMAGES = Command(IMAGES_EXAMPLES, configure_images, run_images)
MODELS = Command(MODELS_EXAMPLES, configure_models, run_models)
