"""MEDS: CPU per event and peak memory of reading a data set and of writing one.

    python benchmarks/meds_speed.py                        # a synthetic hospital, out and in again
    python benchmarks/meds_speed.py --meds FOLDER          # a data set of yours, in and out again
    python benchmarks/meds_speed.py --patients 500 2000    # twice, to see that memory does not grow with the input

Every step runs in a process of its own; its peak memory is what is not backed by a file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from wardround.exports.meds import ExportSettings, export_meds
from wardround.records import IngestSettings, Store, ingest
from wardround.synth import synthesize

_MEMORY = 256 << 20


def step(name: str, source: Path, target: Path) -> dict[str, float]:
    """Do one step here and measure it."""
    settings = IngestSettings(memory_bytes=_MEMORY)
    watch = Watch()
    start = time.process_time()
    if name.startswith("export"):
        mode = ExportSettings(time="event" if name.endswith("event") else "known")
        count = export_meds(Store.open(source), target, settings=mode).counts.events
    else:
        count = sum(ingest(name.removeprefix("ingest "), source, target, settings=settings).rows.values())
    seconds = time.process_time() - start
    return {"events": count, "seconds": seconds, "us": seconds / count * 1e6, "peak": watch.peak_mb()}


class Watch(threading.Thread):
    """Looks every few milliseconds how much memory is the process's own: mapped files are not."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._peak_kb = 0
        self.start()

    def run(self) -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            own = [int(line.split()[1]) for line in lines if line.startswith("RssAnon")]
            self._peak_kb = max(self._peak_kb, *own, 0)
            time.sleep(0.005)

    def peak_mb(self) -> float:
        """Return the largest value seen."""
        return self._peak_kb / 1024


def measured(name: str, source: Path, target: Path) -> None:
    """Do one step in a process of its own and print what it took."""
    command = [sys.executable, __file__, "--step", name, str(source), str(target)]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(
        f"{name:<16}{found['events']:>12,.0f} events {found['seconds']:>8.2f} s CPU {found['us']:>7.2f} us/event"
        f" {found['peak']:>7.0f} MB peak {size / found['events']:>7.1f} B/event"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, nargs="+", default=[500])
    parser.add_argument("--meds", type=Path)
    parser.add_argument("--step", nargs=3)
    arguments = parser.parse_args()
    if arguments.step:
        name, source, target = arguments.step
        print(json.dumps(step(name, Path(source), Path(target))))
        return
    with tempfile.TemporaryDirectory(prefix="wardround-meds-") as scratch:
        folder = Path(scratch)
        if arguments.meds:
            measured("ingest meds", arguments.meds, folder / "store")
            measured("export", folder / "store", folder / "out")
            return
        for patients in arguments.patients:
            home = folder / str(patients)
            synthesize(home / "hospital", patients=patients, seed=1)
            print(f"{patients:,} patients, bound of {_MEMORY >> 20} MiB")
            measured("ingest mimiciv", home / "hospital", home / "store")
            measured("export", home / "store", home / "meds")
            measured("export event", home / "store", home / "plain")
            measured("ingest meds", home / "meds", home / "again")


if __name__ == "__main__":
    main()
