"""The end of ``make demo``: one episode that seeks its evidence in a record, a handbook and a chest film. No network.

python scripts/demo_seeking.py demo/seeking
python scripts/demo_seeking.py demo/seeking --hospital hospital --store store     # made with wardround synth --films

Rules play it (examples/seeking_policy.py), no language model, through the same loop and the same tools.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

from wardround.cli.main import main as wardround
from wardround.core import how_to_install

POLICY = Path(__file__).resolve().parents[1] / "examples" / "seeking_policy.py"
NEEDED = ("tantivy", "pydicom", "PIL")
"""Modules of the extra ``[demo]``: corpora, and films as DICOM files and pictures."""


def main() -> int:
    """Play the episode and print where its page is. Returns the exit status of the first step that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where all is written; what lies there is removed")
    parser.add_argument("--hospital", type=Path, help="raw files with films; without it, 20 patients are made")
    parser.add_argument("--store", type=Path, help="the store of that hospital")
    given = parser.parse_args()
    if not all(map(find_spec, NEEDED)):
        print(f"the evidence-seeking episode is left out: it needs the extra [demo]: {how_to_install('demo')}")
        return 0
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    os.environ["WARDROUND_HOME"] = str(given.folder / "home")  # the user's own corpora and models stay out of it
    hospital, store = given.hospital or given.folder / "hospital", given.store or given.folder / "store"
    making = [] if given.hospital else _making(hospital, store)
    for words in (*making, *_playing(given.folder, hospital, store)):
        if status := _quietly(words):
            return status
    (page,) = (given.folder / "run" / "report" / "episodes").glob("*.html")
    print(f"an episode that read a record, a handbook page and a chest film: {page}")
    return 0


def _making(hospital: Path, store: Path) -> list[list[str]]:
    return [
        ["synth", str(hospital), "--patients", "20", "--seed", "7", "--films"],
        ["ingest", "mimiciv", str(hospital), "--store", str(store)],
    ]


def _playing(folder: Path, hospital: Path, store: Path) -> list[list[str]]:
    bench, run, plugin = str(folder / "bench"), str(folder / "run"), ["--plugin", str(POLICY)]
    where = ["--benchmark", bench, "--store", str(store), "--set", f"images.source={hospital / 'cxr' / 'files'}"]
    which = ["--task", "clinseek-mm.finding_enumeration", "--limit", "1", "--workers", "1"]
    who = ["--agent", "react", "--model", "seeking-rules", "--set", "run.toolset=clinseek"]
    return [
        ["bench", "build", "clinseek-mm", "--store", str(store), "--out", bench, "--reports"],
        ["run", *plugin, *where, *which, *who, "--out", run],
        ["report", *plugin, run],
    ]


def _quietly(words: list[str]) -> int:
    """Run one command as a person would; its tables, of a single episode, are shown only where it fails."""
    said = StringIO()
    with redirect_stdout(said):
        status = wardround(words)
    if status:
        print(said.getvalue())
    return status


if __name__ == "__main__":
    sys.exit(main())
