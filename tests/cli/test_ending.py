"""SIGTERM ends a command as Ctrl-C does, and nothing that is printed commands a terminal."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from wardround.cli import main as command_line
from wardround.cli.terminal import _how_to_go_on, printable_output, terminable
from wardround.core import Progress, TerminalProgress, printing


def test_sigterm_is_an_interrupt_with_a_status_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):

        def told(words: object, *, is_process: bool, number: int = number) -> int:
            os.kill(os.getpid(), number)
            threading.Event().wait(60)
            return 0

        monkeypatch.setattr(sys.modules["wardround.cli.main"], "_dispatch", told)
        assert command_line(["run"]) == status
        assert capsys.readouterr().err.strip() == "wardround: interrupted; what was finished is kept"
    assert signal.getsignal(signal.SIGTERM) is before


def told_to_end() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(60)


def test_sigterm_ends_what_ignores_ctrl_c() -> None:
    """A shell starts its background jobs with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with terminable() as came, pytest.raises(KeyboardInterrupt):
            told_to_end()
        assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_sigterm_does_not_cut_the_writing_down_short() -> None:
    with terminable() as came:
        with pytest.raises(KeyboardInterrupt):
            told_to_end()
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM, signal.SIGTERM]


def test_a_reader_that_is_gone_ends_the_command_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``wardround ... | head``: also what was still to be printed when the reader went is no error at exit."""
    read, write = os.pipe()
    os.close(read)

    def told(words: object, *, is_process: bool) -> int:
        print("a line")  # noqa: T201
        sys.stdout.flush()
        return 0

    monkeypatch.setattr(sys.modules["wardround.cli.main"], "_dispatch", told)
    with os.fdopen(write, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert command_line(["runs"]) == 141
        gone.write("the rest")
        gone.flush()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"], ["run", "--help"], ["memory", "build", "-h"]])
def test_help_whose_reader_is_gone_ends_without_a_word(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", encoding="utf-8") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        try:
            status = command_line(words)
        except SystemExit as end:
            status = end.code
        assert status == 141
        gone.write("the rest")
        gone.flush()
    assert capsys.readouterr().err == ""


def test_names_of_files_and_words_of_others_are_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["bench", "show", "run\x1b]0;owned\x07\x9b2J"]) == 2
    said = capsys.readouterr().err
    assert "\\u001b]0;owned\\u0007\\u009b2J" in said
    assert not any((ord(letter) < 32 and letter != "\n") or 0x7F <= ord(letter) < 0xA0 for letter in said)
    with printable_output():
        sys.stdout.write("a\x1b[31m \udcff\n")
    assert capsys.readouterr().out == "a\\u001b[31m \\udcff\n"


def test_the_progress_line_commands_the_terminal_and_its_words_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    progress = TerminalProgress(printing(terminal))
    clock = iter(range(0, 100, 10))
    monkeypatch.setattr("wardround.core.progress.time.monotonic", lambda: next(clock))
    for done in (1, 2):
        progress(Progress(label="episodes", done=done, total=3, note="file\x1b[2J.csv"))
    assert terminal.getvalue().startswith("\r\x1b[2Kepisodes")
    assert terminal.getvalue().count("\x1b") == 1
    assert "file\\u001b[2J.csv" in terminal.getvalue()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run --benchmark bench --out {run}", "; go on with: wardround run --resume {run}"),
        ("run --resume={run} --workers 2", "; go on with: wardround run --resume {run}"),
        ("memory evolve --bank b --out {run}", "; go on with: wardround memory evolve --resume {run} --bank b"),
        ("run --out nowhere", ""),
        ("ingest mimiciv raw --store store", "; give the same command again to go on"),
        ("report {run}", ""),
    ],
)
def test_an_interrupted_command_names_the_one_that_continues_it(tmp_path: Path, words: str, told: str) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    assert _how_to_go_on(words.format(run=tmp_path).split()) == told.format(run=tmp_path)
