"""The pictures that exported rows name, as files beside them: ``pictures/<sha256>.png``, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from wardround.core import Picture, private_folder
from wardround.log import LogReader, Trajectory
from wardround.runs import RunFolder
from wardround.training.rows import PICTURES, TrainingRow


def pictures_named(row: TrainingRow) -> set[str]:
    """The hashes of the pictures in a row's messages."""
    return {picture["sha256"] for message in row.messages for picture in message.get("pictures", ())}


def write_row_pictures(
    folders: Sequence[RunFolder], episodes: Collection[str], named: Collection[str], out: Path
) -> int:
    """Write the named pictures of some episodes under ``out``, but those a log has not; return how many."""
    waiting = set(named)
    for picture in _pictures(folders, episodes) if waiting else ():
        if picture.sha256 in waiting and picture.data:
            private_folder(out / PICTURES)
            (out / PICTURES / picture.file_name).write_bytes(picture.data)
            waiting.discard(picture.sha256)
    return len(set(named)) - len(waiting)


def _pictures(folders: Sequence[RunFolder], episodes: Collection[str]) -> Iterator[Picture]:
    for folder in folders:
        with LogReader(folder.logs, may_be_empty=True) as reader:
            for entry in reader.episodes():
                if entry.key in episodes:
                    yield from _shown(reader.trajectory(entry.key))


def _shown(trajectory: Trajectory) -> Iterator[Picture]:
    """Every picture that a prompt of the episode holds."""
    for turn in trajectory.turns:
        for message in turn.prompt:
            yield from message.pictures
