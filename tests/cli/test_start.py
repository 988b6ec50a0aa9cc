"""What the start of a command imports: nothing for the version or written help, nothing heavy for any parser."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

from forking import commands
from wardround.cli import main
from wardround.cli.main import COMMANDS

RECORDS = {"numpy", "pyarrow", "httpx2"}
HEAVY = {
    "chromadb",
    "gguf",
    "lightgbm",
    "mcp",
    "onnxruntime",
    "pandas",
    "pydicom",
    "scipy",
    "sentence_transformers",
    "sklearn",
    "starlette",
    "tantivy",
    "torch",
    "trafilatura",
    "transformers",
    "trl",
    "uvicorn",
    "xllamacpp",
}
ASKED = """
import contextlib, io, json, os, sys

class Listening:
    "Finds nothing; notes what is asked for, installed or not."
    asked = set()

    def find_spec(self, name, path=None, target=None):
        self.asked |= {name, name.partition(".")[0]}

sys.meta_path.insert(0, Listening())
from wardround.cli import main

def asked_by(columns, *words):
    os.environ["COLUMNS"] = columns
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(words)
    return sorted(Listening.asked)

print(json.dumps([asked_by(*words) for words in json.loads(sys.argv[1])]))
"""
"""A program that runs commands one after the other and prints which packages were asked for up to each."""


def test_no_help_imports_what_only_work_needs(tmp_path: Path) -> None:
    helps = [[name, "--help"] for name in sorted(COMMANDS)]
    written = [["80", *words] for words in (["--version"], ["--help"], *helps, ["memory", "build", "--help"])]
    parsed = [["60", *words] for words in (*helps, ["list", "agents"])]  # narrower than what is written
    arguments = [sys.executable, "-c", ASKED, json.dumps([*written, *parsed])]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, check=True)
    packages = list(map(set, json.loads(done.stdout)))
    assert "wardround.cli.main" in packages[0]
    assert not packages[1] & {"argparse", "wardround.core"}  # the list of commands comes at once
    assert not packages[len(written) - 1] & (RECORDS | {"argparse"})
    asked = {" ".join(words[1:]): found for words, found in zip(parsed, packages[len(written) :], strict=True)}
    assert asked["run --help"] > RECORDS  # so the program hears what is imported
    assert "wardround.synth" not in asked["run --help"]
    assert "wardround.synth" in asked["synth --help"]
    assert {words: heavy for words, packages in asked.items() if (heavy := packages & HEAVY)} == {}


KEPT = """
import gc, sys
from wardround.cli import main
sys.argv = ["wardround", "list", "presets"]
before = gc.get_freeze_count()
main()
sys.stdout.write(f"{gc.get_freeze_count() > before} {gc.isenabled()}")
"""


def test_only_the_process_of_a_command_keeps_what_is_loaded_out_of_the_search_for_garbage(tmp_path: Path) -> None:
    """In another program, where much else lives, it would keep garbage for good."""
    said = tmp_path / "said"
    process = commands().start_program(KEPT, [], out=str(said))
    assert commands().status(process) == 0
    assert said.read_text().endswith("True True")
    before = gc.get_freeze_count()
    assert main(["list", "presets"]) == 0
    assert gc.get_freeze_count() <= before  # less where something of it has ended
