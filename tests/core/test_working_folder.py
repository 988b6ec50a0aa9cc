"""Temporary files of the tests lie in memory for as long as the tests run, and nowhere else is anything changed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from effort import LONG
from working_folder import working_folder

pytestmark = pytest.mark.skipif(LONG, reason="at length the files of tests lie on the disk")


def test_files_lie_there_and_are_gone_in_the_end(tmp_path: Path) -> None:
    variables = {"PATH": os.environ["PATH"]}
    before = tempfile.gettempdir()
    with working_folder(tmp_path, room=1, variables=variables) as folder:
        assert folder is not None
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
        with tempfile.NamedTemporaryFile() as file:
            assert Path(file.name).parent == folder
        said = subprocess.run(["mktemp", "-u"], env=variables, capture_output=True, text=True, check=True).stdout
        assert Path(said.strip()).parent == folder
        (folder / "left").touch()
    assert not folder.exists()
    assert "TMPDIR" not in variables
    assert tempfile.gettempdir() == before


def test_what_killed_runs_left_is_removed_and_what_others_use_is_not(tmp_path: Path) -> None:
    left = tmp_path / "wardround-tests-left"
    left.mkdir()
    with working_folder(tmp_path, room=1, variables={}) as used:
        assert used is not None
        assert not left.exists()
        with working_folder(tmp_path, room=1, variables={}) as other:
            assert other != used
            assert used.exists()


def test_a_folder_that_was_asked_for_stays(tmp_path: Path) -> None:
    with working_folder(tmp_path, room=1, variables={"TMPDIR": "/elsewhere"}) as folder:
        assert folder is None


def test_without_room_they_lie_where_they_always_did(tmp_path: Path) -> None:
    for parent, room in ((tmp_path, 2**60), (tmp_path / "none", 1)):
        with working_folder(parent, room=room, variables={}) as folder:
            assert folder is None
