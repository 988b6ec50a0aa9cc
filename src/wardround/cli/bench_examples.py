"""``wardround bench examples``: questions with pictures of EHRXQA's and MedMod's own files, as a manifest."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wardround.benchmarks import Conversion, convert_ehrxqa, convert_medmod, write_examples
from wardround.cli.json_output import print_json
from wardround.core import UserError
from wardround.records import Store

_CONVERTERS: Mapping[str, Callable[[Sequence[Path], Store], Conversion]] = {
    "ehrxqa": convert_ehrxqa,
    "medmod": convert_medmod,
}


def configure_examples(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", choices=tuple(_CONVERTERS), help="whose files")
    parser.add_argument(
        "files", nargs="+", type=Path, help="ehrxqa: train.json, valid.json, test.json; medmod: listfiles of its tasks"
    )
    parser.add_argument("--store", type=Path, required=True, help="folder of the store, with the films' tables")
    parser.add_argument("--out", type=Path, required=True, help="the manifest to write (JSON lines)")


def write_manifest(arguments: argparse.Namespace) -> int:
    """Convert, write, and say how many of each task there are and what was left out."""
    made = _CONVERTERS[arguments.name](arguments.files, Store.open(arguments.store))
    if not made.examples:
        raise UserError(f"no question of these files can be asked of this store; left out: {_counted(made.left_out)}")
    write_examples(made.examples, arguments.out)
    tasks = Counter(one.task for one in made.examples)
    if arguments.json:
        print_json({"examples": dict(tasks), "left_out": dict(made.left_out)})
        return 0
    print(f"{len(made.examples):,} examples: {arguments.out}")
    print(f"  {_counted(tasks)}\n  left out: {_counted(made.left_out)}")
    return 0


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())) or "none"
