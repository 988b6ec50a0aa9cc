"""``wardround models``: serve a small language model on this machine, and see to the weights of image tools."""

from __future__ import annotations

import argparse
import sys
import threading
from pathlib import Path

from wardround.cli.imaging_models import configure_imaging, run_imaging
from wardround.core import UserError
from wardround.models.local import LOCAL_MODELS, LocalModel, model_of_file, serving

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
    serve.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    serve.add_argument("--threads", type=int, help="threads that compute (default: one for each core)")
    configure_imaging(actions)


def run(arguments: argparse.Namespace) -> int:
    """Do the action."""
    return _serve(arguments) if arguments.action == "serve" else run_imaging(arguments)


def _serve(arguments: argparse.Namespace) -> int:
    """Serve, and print the base URL; being told to stop is this command's normal end."""
    model = _asked(arguments)
    try:
        with serving(model, port=arguments.port, threads=arguments.threads) as url:
            print(
                f"{model.title}; window {model.context_tokens:,} tokens. Use it with --model openai/{model.name} "
                f"--base-url {url} --context-tokens {model.context_tokens}; Ctrl-C stops it",
                file=sys.stderr,
                flush=True,
            )
            print(url, flush=True)  # last: whoever reads it may stop us at once
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
