"""Bad input answers with one clear line and a non-zero exit.

Most words go to the command's own ``main`` in this process (starting it anew costs a second each time); what a process
alone has - its exit status, a pipe, a full disk - goes through the real command.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forking import run_command
from wardround.cli import main

Done = subprocess.CompletedProcess[str]


def in_its_own_process(*words: object) -> Done:
    command = [sys.executable, "-m", "wardround", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def wardround(*words: object) -> Done:
    """The same in this process."""
    command = [*map(str, words)]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            status = main(command)
        except SystemExit as ending:  # how argparse ends
            status = int(ending.code or 0)
    return subprocess.CompletedProcess(command, status, out.getvalue(), err.getvalue())


def refused(*words: object) -> str:
    """Run a command that must fail; return its one line."""
    return one_line(wardround(*words))


def one_line(done: Done) -> str:
    """Return the one line of a command that failed."""
    assert done.returncode == 2, done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("wardround: ")
    return lines[0]


@pytest.fixture
def hospital(synthetic_hospital: Path, tmp_path: Path) -> Path:
    """A small copy of the synthetic hospital to spoil."""
    folder = tmp_path / "hospital"
    (folder / "hosp").mkdir(parents=True)
    for name in ("patients", "admissions", "labevents", "d_labitems"):
        shutil.copy(synthetic_hospital / "hosp" / f"{name}.csv.gz", folder / "hosp")
    return folder


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "nowhere" in refused("ingest", "mimiciv", tmp_path / "nowhere", "--store", tmp_path / "store")


@pytest.mark.parametrize("moment", ["01/31/2150", "1/2/2150", "", "2150-13-45 99:00", "yesterday"])
@pytest.mark.parametrize("what", [("tables", "--out", "chart"), ("bundles",)])
def test_a_time_that_is_none(what: tuple[str, ...], moment: str) -> None:
    line = refused("export", *what, "--store", "store", "--subject", "1", "--as-of", moment)
    assert "--as-of" in line
    assert "2150-01-31 08:00" in line


def test_a_sample_whose_time_is_none() -> None:
    line = refused(
        "audit",
        "pipeline",
        "--raw",
        ".",
        "--sample",
        "1,soon",
        "--run",
        "x {raw} {out} {samples}",
        "--read",
        "rows:{out}/f.csv,key=stay_id",
    )
    assert "SUBJECT,TIME" in line


@pytest.mark.parametrize("port", ["99999", "-1", "http"])
def test_a_port_that_is_none(port: str) -> None:
    assert "0 to 65535" in refused("view", "run", f"--port={port}")


def test_an_option_of_another_action_says_whose_it_is() -> None:
    assert "memory evolve" in refused("memory", "list", "bank", "--bank", "other")


def test_a_folder_without_any_known_table(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "table" in refused("ingest", "mimiciv", tmp_path / "empty", "--store", tmp_path / "store")


def test_an_unknown_source(tmp_path: Path) -> None:
    assert "mimiciv" in refused("ingest", "mimicv", tmp_path, "--store", tmp_path / "store")


def test_a_wrong_schema_names_the_columns(hospital: Path, tmp_path: Path) -> None:
    (hospital / "hosp" / "labevents.csv.gz").unlink()
    (hospital / "hosp" / "labevents.csv").write_text("who,what\n1,2\n")
    line = refused("ingest", "mimiciv", hospital, "--store", tmp_path / "store")
    assert "labevents" in line
    assert "subject_id" in line


def test_a_truncated_gzip_names_the_file(hospital: Path, tmp_path: Path) -> None:
    file = hospital / "hosp" / "labevents.csv.gz"
    file.write_bytes(file.read_bytes()[:-2000])
    assert "labevents.csv.gz" in refused("ingest", "mimiciv", hospital, "--store", tmp_path / "store")


def test_broken_rows_are_set_aside_and_counted(hospital: Path, tmp_path: Path) -> None:
    file = hospital / "hosp" / "labevents.csv.gz"
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    lines[10] = lines[10].replace(lines[10].split(",")[0], "no-number", 1)
    lines[20] += ",one,too,many"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    done = wardround("ingest", "mimiciv", hospital, "--store", tmp_path / "store")
    assert done.returncode == 1, done.stderr
    assert "set aside 2 broken rows (labevents 2)" in done.stdout
    assert "rows: labevent_id is no int 1; expected 16 cells, found 19 1" in done.stdout
    kept = (tmp_path / "store" / "quarantine" / "labevents.jsonl").read_text()
    assert "no-number" in kept
    assert "one,too,many" in kept


def test_what_is_missing_empty_or_unreadable_is_said_loudly(hospital: Path, tmp_path: Path) -> None:
    (hospital / "hosp" / "admissions.csv.gz").unlink()
    (hospital / "hosp" / "omr.csv.gz").write_bytes(b"")
    file = hospital / "hosp" / "d_labitems.csv.gz"
    header, first, *lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    lines = [line.replace(",Blood,", ",Bl\xf6d,") for line in lines]
    file.write_bytes(gzip.compress("\n".join([header, first, *lines]).encode("latin-1")))
    broken = sum("\xf6" in line for line in lines)
    done = wardround("ingest", "mimiciv", hospital, "--store", tmp_path / "store")
    assert done.returncode == 1, done.stderr
    assert broken > 10
    assert f"WARNING: set aside {broken} broken rows (d_labitems {broken})" in done.stdout
    assert f"d_labitems: {broken} of {len(lines) + 1} rows: not UTF-8 text {broken}" in done.stdout
    assert "WARNING: admissions is missing, so no chart shows" in done.stdout
    assert "hadm_id of labevents" in done.stdout
    assert "WARNING: empty files, treated as missing: hosp/omr.csv.gz" in done.stdout


def test_a_store_that_is_none(tmp_path: Path) -> None:
    assert "ingest" in refused("bench", "build", "agentehr", "--store", tmp_path, "--out", tmp_path / "bench")


def test_an_unknown_model_and_agent(synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path) -> None:
    new = ("run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run")
    assert "offlin" in refused(*new, "--model", "offlin")
    assert "react" in refused(*new, "--agent", "raect")
    assert "diagnoses" in refused(*new, "--task", "diagnosis")
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_folders_in_each_others_place(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    new = ("run", "--out", tmp_path / "run", "--benchmark")
    assert "not that of a store" in refused(*new, synthetic_benchmark_path, "--store", synthetic_benchmark_path)
    assert "no benchmark" in refused(*new, synthetic_store_path, "--store", synthetic_store_path)
    assert "no run" in refused("report", synthetic_benchmark_path)
    assert "no run" in refused("report", synthetic_store_path)


def test_values_out_of_range(synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path) -> None:
    new = ("run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run")
    assert "limit must be at least 1" in refused(*new, "--limit", "-1")
    assert "--workers" in refused(*new, "--workers", "0")
    assert "invalid int value" in refused(*new, "--epochs", "many")
    assert not (tmp_path / "run").exists()


def test_an_audit_of_nothing_is_not_called_clean(synthetic_store_path: Path, synthetic_benchmark_path: Path) -> None:
    leaks = ("audit", "leaks", "--store", synthetic_store_path, "--benchmark", synthetic_benchmark_path)
    assert "--limit" in refused(*leaks, "--limit", "0")
    assert "diagnoses" in refused(*leaks, "--task", "diagnosis")


def test_an_unreachable_endpoint(synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path) -> None:
    new = ("run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run")
    line = refused(*new, "--model", "openai/any", "--base-url", "http://127.0.0.1:9/v1")
    assert "127.0.0.1:9" in line


def test_an_endpoint_elsewhere_needs_to_be_permitted(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    new = ("run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run")
    line = refused(*new, "--model", "openai/any", "--base-url", "https://models.example/v1")
    assert "--permit-endpoint" in line


def test_a_run_that_is_none(tmp_path: Path) -> None:
    assert "no run" in refused("report", tmp_path)
    assert "no run" in refused("run", "--resume", tmp_path)
    assert "no run" in refused("compare", tmp_path, tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB, where this machine lets us mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a small disk")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_one_line_and_the_next_try_goes_on(synthetic_hospital: Path, small_disk: Path) -> None:
    words = ("ingest", "mimiciv", synthetic_hospital, "--store", small_disk / "store")
    assert "disk is full" in one_line(run_command(*words))
    subprocess.run(["mount", "-o", "remount,size=200m", small_disk], check=True)
    done = wardround(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words", [(), ("nonsense",), ("run",), ("codes",), ("serve", "play"), ("audit", "leaks", "--store", "x")]
)
def test_wrong_use_exits_with_2(words: tuple[str, ...]) -> None:
    assert wardround(*words).returncode == 2


def test_the_command_itself_says_the_same_and_exits_with_2(tmp_path: Path) -> None:
    """What the tests above ask of ``main`` holds of the process that a shell starts."""
    for words in (("ingest", "mimicv", tmp_path, "--store", tmp_path / "store"), ("report", tmp_path)):
        done = in_its_own_process(*words)
        assert one_line(done) == refused(*words)
        assert done.stdout == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m wardround list tables --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "[\n"
    assert done.stderr == ""


def test_resuming_with_other_settings_is_refused(
    synthetic_store_path: Path, synthetic_benchmark_path: Path, tmp_path: Path
) -> None:
    new = ("run", "--benchmark", synthetic_benchmark_path, "--store", synthetic_store_path, "--out", tmp_path / "run")
    assert wardround(*new, "--task", "transfers", "--limit", "1").returncode == 0
    assert "(budget.turns = 100)" in refused("run", "--resume", tmp_path / "run", "--turns", "7")
    assert wardround("run", "--resume", tmp_path / "run", "--limit", "1").returncode == 0
