"""The live stream: it comes to the states of the batch, whatever the commits, and tells everything once under kills."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from effort import often
from forking import commands, kill, wait_for
from wardround.agents.stays.router import RuleMemory
from wardround.cli import main as wardround
from wardround.clinical.bundles import PatientState, batch_states, states, store_bundles, subject_bundles
from wardround.core import UserError
from wardround.records import Store, load_source_spec
from wardround.stream import FollowSettings, coded_responder, follow, write_replay
from wardround.stream.follow import states_of
from wardround.stream.watching import damage_of_stream, watched_ledger

Once = Callable[[str, Callable[[Path], object]], Path]
"""Makes a thing once for all processes of the suite."""

KILLS = often(10, 20)
FEW = 400
"""Entries in memory: a fraction of one patient's."""
RULES = """
schema = 1
name = "ward"
[[rule]]
id = "KIDNEY"
category = "RENAL"
trigger = "creatinine is high OR potassium > 4.5"
actions = ["start furosemide", "order creatinine", "avoid ibuprofen"]
suspects = "kidney injury"
[[rule]]
id = "LATER"
category = "RENAL"
trigger = "problem kidney injury AND hours since stay > 6"
actions = ["order potassium", "start heparin"]
[[rule]]
id = "RHYTHM"
category = "CARDIAC"
trigger = "heart rate > 90"
actions = ["start metoprolol", "order troponin"]
"""
SPEC = load_source_spec("mimiciv")
AT_ONCE = FollowSettings(once=True, finish=True)
ROW = (
    '{"row_id":"l:1","subject_id":7,"charttime":"2150-01-01 08:00:00","label":"Lactate","valuenum":%s,'
    '"valueuom":"mmol/L"}'
)


def line(value: float, known: str, more: str = "") -> str:
    return '{"table":"labevents","row":' + ROW % value + f',"known":"{known}"{more}}}'


@pytest.fixture(scope="module")
def lines(synthetic_store: Store, once: Once) -> Path:
    """The lines of a tenth of the synthetic hospital's patients, in two files."""

    def make(folder: Path) -> None:
        write_replay(synthetic_store, folder / "all")
        chosen = {f'"subject_id":{subject},' for subject in synthetic_store.subjects.tolist()[::10]}
        text = [
            each for file in sorted((folder / "all").iterdir()) for each in file.read_text().splitlines(keepends=True)
        ]
        some = [each for each in text if each.startswith('{"clock"') or any(subject in each for subject in chosen)]
        some = [one for one, after in pairwise([*some, ""]) if not (one.startswith('{"c') and after.startswith('{"c'))]
        (folder / "lines").mkdir()
        for name, part in (("a", some[: len(some) // 2]), ("b", some[len(some) // 2 :])):
            (folder / "lines" / f"{name}.jsonl").write_text("".join(part), encoding="utf-8")

    return once("stream-lines", make) / "lines"


@pytest.fixture(scope="module")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of three rules that often hold."""
    path = tmp_path_factory.mktemp("protocol") / "ward.toml"
    path.write_text(RULES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def undisturbed(lines: Path, protocol: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream to which nothing happened, all of it in memory."""
    folder = tmp_path_factory.mktemp("undisturbed") / "live"
    report = follow(SPEC, lines, folder, settings=AT_ONCE, responder=coded_responder(protocol))
    assert report.lines > 1_000
    assert (report.late, report.refused) == (0, 0)
    return folder


def test_live_states_are_the_states_of_the_batch(synthetic_store: Store, undisturbed: Path, protocol: Path) -> None:
    live = states_of(SPEC, undisturbed, responder=coded_responder(protocol))
    compared = []
    for stream in store_bundles(synthetic_store):
        batch = batch_states(stream)
        for subject in sorted(set(np.unique(stream.subjects).tolist()) & live.keys()):
            assert replace(live[subject], history=(), evicted={}) == batch.of(subject)
            compared.append(subject)
    assert sorted(live) == sorted(compared)


def test_what_the_roles_foretell_is_told_with_every_bundle(
    synthetic_store: Store, undisturbed: Path, protocol: Path
) -> None:
    told: dict[int, list[dict[str, Any]]] = {}
    for each in map(json.loads, (undisturbed / "bundles.jsonl").read_text().splitlines()):
        told.setdefault(each["subject"], []).append(each)
    respond, audited = coded_responder(protocol), 0
    for subject in sorted(told)[:30]:
        memory, bundles = RuleMemory(), list(subject_bundles(synthetic_store, subject))
        for bundle, state, live in zip(bundles, states(bundles), told[subject], strict=True):
            assert dict(respond(bundle.events, state, memory)).items() <= live.items()
            audited += bool(live["audit"]["fired"])
    assert audited > 10


@pytest.mark.parametrize(("lines_per_commit", "entries"), [(7, 1_000_000), (100_000, 0), (31, 90)])
def test_neither_commits_nor_what_is_in_memory_changes_what_is_told(
    lines: Path, tmp_path: Path, lines_per_commit: int, entries: int
) -> None:
    some = tmp_path / "some"
    some.mkdir()
    text = (lines / "a.jsonl").read_bytes().splitlines(keepends=True)[:400]
    (some / "a.jsonl").write_bytes(b"".join(text))
    told = []
    for name, settings in (
        ("own", AT_ONCE),
        ("other", replace(AT_ONCE, lines_per_commit=lines_per_commit, entries_in_memory=entries)),
    ):
        follow(SPEC, some, tmp_path / name, settings=settings)
        told.append((tmp_path / name / "bundles.jsonl").read_bytes())
    assert told[0] == told[1]
    assert told[0].count(b"\n") > 20


def test_everything_is_told_once_however_often_it_is_killed(
    lines: Path, undisturbed: Path, protocol: Path, tmp_path: Path
) -> None:
    """The folder grows by a piece for every kill, cut anywhere: a process that waits for more can always be killed. It
    keeps next to nothing in memory, and reads its patients back from snapshots and lines all the time."""
    text = b"".join((lines / name).read_bytes() for name in ("a.jsonl", "b.jsonl"))
    source, told, dice = tmp_path / "lines", tmp_path / "live" / "bundles.jsonl", random.Random(5)
    source.mkdir()
    words = ["stream", "follow", "--source", "mimiciv", "--lines", str(source), "--out", str(told.parent)]
    words += ["--lines-per-commit", "50", "--entries-in-memory", str(FEW), "--protocol", str(protocol)]
    cuts = [len(text) * each // (KILLS + 1) for each in range(KILLS + 2)]
    forks = commands()
    for start, end in pairwise(cuts[:-1]):
        before = told.stat().st_size if told.exists() else 0
        with (source / "a.jsonl").open("ab") as target:
            target.write(text[start:end])
        process = forks.start(words)
        wait_for(lambda: told.exists() and told.stat().st_size > before, process)  # noqa: B023
        kill(process)
        if dice.random() < 0.5:
            damaged(told, dice)
    (source / "a.jsonl").write_bytes(text)
    assert wardround([*words, "--once", "--finish"]) == 0
    assert told.read_bytes() == (undisturbed / "bundles.jsonl").read_bytes()


FULL = """
import resource, signal, sys
from wardround.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""
"""No file grows beyond so many bytes: a write that would fails as on a full disk, or takes a part."""


def test_a_full_disk_is_one_line_and_loses_nothing(
    lines: Path, undisturbed: Path, protocol: Path, tmp_path: Path
) -> None:
    """The room grows from start to start, until there is enough."""
    words = ["stream", "follow", "--source", "mimiciv", "--once", "--finish", "--lines-per-commit", "200"]
    words += ["--protocol", str(protocol), "--lines", str(lines), "--out", str(tmp_path)]
    rooms = iter(1 << power for power in range(13, 40, 3))
    told, path, starts = [0], tmp_path / "bundles.jsonl", 0
    while (ended := with_room(next(rooms), words)).returncode:
        starts += 1
        assert_says_that_the_disk_is_full(ended)
        told.append(path.stat().st_size if path.exists() else 0)
    assert starts > 2
    assert told == sorted(told)
    assert path.read_bytes() == (undisturbed / "bundles.jsonl").read_bytes()


def test_a_full_disk_is_one_line_for_what_comes_through_a_pipe_too(lines: Path, tmp_path: Path) -> None:
    words = ["stream", "follow", "--source", "mimiciv", "--lines", "-", "--out", str(tmp_path)]
    assert_says_that_the_disk_is_full(with_room(1 << 17, words, (lines / "a.jsonl").read_text(encoding="utf-8")))


def with_room(size: int, words: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command while no file may have more bytes."""
    command = [sys.executable, "-B", "-c", FULL, str(size), *words]
    return subprocess.run(command, capture_output=True, text=True, input=text, check=False)


def assert_says_that_the_disk_is_full(ended: subprocess.CompletedProcess[str]) -> None:
    progress = "stream  "  # what takes more than two seconds says how far it is
    said = [line for line in ended.stderr.splitlines() if not line.startswith(progress)]
    assert (ended.returncode, len(said)) == (2, 1), ended.stderr
    assert "free some space and run the same command again" in said[0]


def damaged(told: Path, dice: random.Random) -> None:
    """Leave a file as a loss of power may: without its end, with a hole, or with what was never committed."""
    text, lost = told.read_bytes(), dice.randrange(1, 2_000)
    told.write_bytes(dice.choice((text + b"torn", text[:-lost], text[: -2 * lost] + bytes(lost) + text[-lost:])))


def test_two_partitions_tell_what_one_tells(lines: Path, undisturbed: Path, protocol: Path, tmp_path: Path) -> None:
    told: list[bytes] = []
    for partition in range(2):
        settings = replace(AT_ONCE, partition=partition, partitions=2)
        folder = tmp_path / str(partition)
        assert follow(SPEC, lines, folder, settings=settings, responder=coded_responder(protocol)).bundles
        told += (tmp_path / str(partition) / "bundles.jsonl").read_bytes().splitlines()
    assert sorted(told) == sorted((undisturbed / "bundles.jsonl").read_bytes().splitlines())


def test_what_cannot_be_read_is_set_aside_and_a_line_without_an_end_waits(tmp_path: Path) -> None:
    source, good = tmp_path / "lines", line(4.5, "2150-01-01 09:00:00")
    source.mkdir()
    bad = ['{"table":"labevents"}', "no json", '{"table":"nowhere","row":{}}', line(4.5, "soon")]
    other = good.replace("l:1", "l:2")
    (source / "a.jsonl").write_text("\n".join([*bad, good, other[:40]]), encoding="utf-8")
    report = follow(SPEC, source, tmp_path / "live", settings=FollowSettings(once=True))
    assert (report.lines, report.refused) == (1, len(bad))
    with (source / "a.jsonl").open("a", encoding="utf-8") as target:
        target.write(other[40:] + "\n")
    report = follow(SPEC, source, tmp_path / "live", settings=AT_ONCE)
    assert (report.recovered, report.lines, report.bundles) == (1, 1, 1)
    with pytest.raises(UserError, match="was finished"):
        follow(SPEC, source, tmp_path / "live", settings=AT_ONCE)


def test_a_folder_of_another_stream_is_refused(lines: Path, undisturbed: Path) -> None:
    with pytest.raises(UserError, match="partition 0 of 1, not 0 of 2"):
        follow(SPEC, lines, undisturbed, settings=replace(AT_ONCE, partitions=2))
    with pytest.raises(UserError, match="a stream with protocol"):
        follow(SPEC, lines, undisturbed, settings=AT_ONCE)


def test_a_correction_and_a_withdrawal_are_followed_at_once(tmp_path: Path) -> None:
    source = tmp_path / "lines"
    source.mkdir()
    told = [
        line(9.5, "2150-01-01 09:00:00"),
        line(1.5, "2150-01-01 11:00:00", ',"revision":1'),
        line(1.5, "2150-01-01 13:00:00", ',"withdrawn":true'),
    ]
    seen = []
    for count in (1, 2, 3):
        (source / "a.jsonl").write_text("\n".join(told[:count]) + "\n", encoding="utf-8")
        follow(SPEC, source, tmp_path / str(count), settings=FollowSettings(once=True))
        seen.append(lactates(states_of(SPEC, tmp_path / str(count))[7]))
    assert seen == [[9.5], [1.5], []]


def test_a_patient_is_stored_after_a_day_of_bundles_however_often_it_is_started(tmp_path: Path) -> None:
    """So that never more than 24 bundles are read again: with one start for each hour as with one for all."""
    source, stored = tmp_path / "lines", {}
    source.mkdir()
    times = [f"2150-01-{1 + hour // 24:02d} {hour % 24:02d}:10:00" for hour in range(27)]
    text = [line(1.0, time).replace("l:1", f"l:{place}") for place, time in enumerate(times)]
    for count in range(1, len(text) + 1):
        (source / "a.jsonl").write_text("\n".join(text[:count]) + "\n", encoding="utf-8")
        assert follow(SPEC, source, tmp_path / "often", settings=FollowSettings(once=True)).bundles == count - 1
        with watched_ledger(tmp_path / "often") as ledger:
            stored[count - 1] = bool(ledger.snapshots([7]))
    assert [bundles for bundles, is_stored in stored.items() if is_stored] == [24, 25, 26]
    follow(SPEC, source, tmp_path / "once", settings=FollowSettings(once=True))
    with watched_ledger(tmp_path / "once") as ledger:
        assert ledger.snapshots([7])


def test_which_damage_of_a_stream_is_told(tmp_path: Path) -> None:
    """A changed line is; an end that a kill cut off, or what was not committed yet, is not."""
    source, live = tmp_path / "lines", tmp_path / "live"
    source.mkdir()
    several = [line(hour, f"2150-01-01 {hour:02d}:10:00").replace("l:1", f"l:{hour}") for hour in range(8, 12)]
    (source / "a.jsonl").write_text("\n".join(["no json", *several]) + "\n", encoding="utf-8")
    follow(SPEC, source, live, settings=AT_ONCE)
    path, aside = live / "bundles.jsonl", live / "quarantine.jsonl"
    told, set_aside = path.read_bytes(), aside.read_bytes()
    assert told.count(b"\n") == 4
    for damaged_told, damaged_aside, said in (
        (told, set_aside, []),
        (told[:-5], set_aside, []),
        (told + b"more\n", set_aside, []),
        (told.replace(b'"events":1', b'"events":2', 1), set_aside, ["1 lines of bundles.jsonl do not match"]),
        (told.replace(b'"events":1', b'"events":2'), set_aside, ["4 lines of bundles.jsonl do not match"]),
        (told, set_aside[:-5], []),
        (told, b"", []),
        (told, set_aside.replace(b"json", b"JSON"), ["quarantine.jsonl differs"]),
    ):
        path.write_bytes(damaged_told)
        aside.write_bytes(damaged_aside)
        found = damage_of_stream(live)
        assert len(found) == len(said)
        assert all(words in one for words, one in zip(said, found, strict=True))


def lactates(state: PatientState) -> list[float]:
    trend = state.trend("Lactate")
    return [] if trend is None else [reading.value for reading in trend.readings]
