"""``wardround models``: serve a small language model; list, add and verify imaging weights."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path
from typing import Any

from wardround.cli.output import add_json_option, print_json, print_rows
from wardround.cli.parser import port
from wardround.core import UserError, imaging_models_home
from wardround.models.local import LOCAL_MODELS, LocalModel, model_of_file, serving
from wardround.tools.imaging.weights import ModelStore, find_known, known_models

ADD_EXAMPLES = """
  wardround models add densenet121-res224-all nih-pc-chex-mimic_ch-google-openi-kaggle-densenet121-d121-tw-lr001-rot45-tr15-sc15-seed0-best.pt
  wardround models add chestx-det-pspnet pspnet_chestxray_best_model_4.pth --sha256 0123...
  wardround models add chexpert-mimic-cxr-impression checkpoints/impression
      the file is read without running what is in it, and becomes a graph once; `wardround models list` says where it is published
"""  # noqa: E501 - names of files as they are published
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
    add.add_argument("file", type=Path, help="the checkpoint (.pt, .pth), a graph (.onnx), or a checkpoint's folder")
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
    rows = [_row(store, name) for name in known_models()]
    if as_json:
        print_json(rows)
    else:
        print_rows(tuple(rows[0]), [tuple(row.values()) for row in rows])
        print(f"folder: {store.root}; runs take it as --set images.models={store.root}")
    return 0


def _row(store: ModelStore, name: str) -> dict[str, str]:
    known, here = find_known(name), store.find(name)
    state = "endpoint" if known.kind == "grounding" else "missing" if here is None else "here"
    seen = ", ".join(known.seen)
    return {
        "model": name,
        "for": known.kind,
        "state": state,
        "trained on": seen,
        "terms": known.licence,
        "published": known.address,
    }


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


EXAMPLES = """
  wardround models serve smollm2
  wardround models serve smollm2 --port 8189 --threads 1
  wardround models list
  wardround models serve --weights tuned/model.gguf
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    serve = actions.add_parser("serve", help="serve a model on loopback until Ctrl-C", examples=EXAMPLES)
    serve.add_argument("name", nargs="?", choices=sorted(LOCAL_MODELS), help="which model")
    serve.add_argument("--weights", type=Path, help="a .gguf file instead, such as one of 'wardround train sft'")
    serve.add_argument("--window", type=int, default=8192, help="context tokens of the weights in a file")
    serve.add_argument("--port", type=port, default=0, help="port on 127.0.0.1; 0 takes a free one")
    serve.add_argument("--threads", type=int, help="threads that compute (default: one for each core)")
    configure_imaging(actions)


def run(arguments: argparse.Namespace) -> int:
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
