"""What the pages of the viewer cost over HTTP: milliseconds and kilobytes of each kind, on a run of many episodes.

Run: python benchmarks/viewer_speed.py [--episodes 10000] [--requests 40] [--keep FOLDER]

A few dozen episodes are really played and copied under other names (``report_speed.py``); one more is written of 100
turns of 8,000 characters. Bars of issue 13: p95 <= 200 ms a page, <= 300 KB.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from page_times import print_page_times
from report_speed import multiply, play
from wardround.core import Message, ToolCall, Usage
from wardround.log import LOG_SUFFIX, EpisodeLog, LogReader, ToolRecord
from wardround.models import Reply, Request
from wardround.runs import RunFolder
from wardround.serve.viewer import ViewedRun, ViewerPages, viewer_app
from wardround.serve.viewer.episode import page_counts
from wardround.serve.viewer.run import ORDERS, sample_page

TURNS, CHARACTERS = 100, 8_000
LONG = "9999"
"""The epoch of the long episode."""


def write_long(folder: RunFolder) -> None:
    """Write an episode of long turns beside the others, half of their characters said and half read."""
    with LogReader(folder.logs) as reader:
        entry = next(one for one in reader.episodes() if one.key.startswith("react|"))
    key = entry.key.rpartition("|")[0] + f"|{LONG}"
    draw = random.Random(1)
    words = "".join(draw.choices('abcdefgh <>&"\n', k=CHARACTERS // 2))
    rows = "\n".join(f"labs:{n} | {n / 7:.2f} | mg/dL" for n in range(CHARACTERS // 50))
    with EpisodeLog(folder.logs / f"long{LOG_SUFFIX}") as log:
        recorder = log.begin(key, {**entry.facts, "epoch": int(LONG)})
        messages = (Message(role="user", content="Which tests come next?"),)
        for ordinal in range(TURNS):
            call = ToolCall(id=f"call_{ordinal}", name="run_sql_query", arguments="{}")
            said = Message(role="assistant", content=f"{ordinal} {words}", tool_calls=(call,))
            usage = Usage(input_tokens=600 * (ordinal + 1), output_tokens=2_000)
            reply = Reply(
                message=said, usage=usage, finish_reason="tool_calls", model="m", seconds=1.0, identity="m", cost=0.01
            )
            read = f"labs: {ordinal}\nrow_id | value | unit\n{rows}"
            record = ToolRecord(call=call, result_text=read, rows_total=160, rows_shown=160)
            recorder.turn(Request(messages=messages, episode=key, ordinal=ordinal), reply, [record])
            messages += (said, record.message)
        recorder.finish({**(entry.outcome or {}), "citations": []})


def kinds(run: ViewedRun, requests: int) -> dict[str, Sequence[str]]:
    """Return addresses of each kind of page, drawn by chance."""
    draw = random.Random(1)
    pages = draw.sample(sorted(run.pages), min(requests, len(run.pages)))
    (long,) = [page for page, score in run.pages.items() if score.epoch == int(LONG)]
    tasks = sorted({score.task for score in run.scores})
    after = [(draw.choice(ORDERS), draw.choice(tasks), draw.choice(pages)) for _ in range(requests)]
    samples = [sample_page(run.pages[page].sample) for page in pages]
    turns = [f"/runs/1/{long.replace('.html', f'.turns-{n}.html')}" for n in range(2, page_counts(run, long)[0] + 1)]
    return {
        "runs": ["/"] * requests,
        "a run": ["/runs/1/"] * requests,
        "samples, sorted and filtered": [f"/runs/1/samples.html?sort={o}&task={t}&after={p}" for o, t, p in after],
        "an episode, another each time": [f"/runs/1/{page}" for page in pages],
        "two side by side": [f"/runs/1/samples/{page}" for page in samples],
        "not yet known": [f"/runs/1/{page.replace('.html', '.not-yet-known-1.html')}" for page in pages],
        f"{TURNS} turns of {CHARACTERS:,} characters": [f"/runs/1/{long}", *turns],
    }


def measure(path: Path, requests: int) -> None:
    """Print the table."""
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    run = timed("opening the run", lambda: ViewedRun(path))
    client = TestClient(viewer_app(ViewerPages([run])), base_url="http://127.0.0.1:8765")
    timed("the run's page, first time", lambda: client.get("/runs/1/"))
    print(f"{len(run.scores):,} episodes")
    print_page_times(client, kinds(run, requests))
    text = client.get(kinds(run, 1)[f"{TURNS} turns of {CHARACTERS:,} characters"][0]).text
    assert re.search(r"<table class=\"result\">", text)


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Do something and print what it took."""
    begun, cpu = time.perf_counter(), time.process_time()
    result = work()
    print(f"{name}: {time.perf_counter() - begun:.1f} s, {time.process_time() - cpu:.1f} CPU s")
    return result


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000, help="how many episodes the run has")
    parser.add_argument("--requests", type=int, default=40, help="how many pages of each kind are asked for")
    parser.add_argument("--keep", type=Path, help="where the run is kept, and taken from if it is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = arguments.keep or Path(scratch)
        if not (work / "run" / "manifest.json").is_file():
            work.mkdir(parents=True, exist_ok=True)
            write_long(multiply(play(work, 36), arguments.episodes))
        measure(work / "run", arguments.requests)


if __name__ == "__main__":
    main()
