"""Where things lie in a store, and the names of the clock columns beside a row.

    manifest.json             written last: a folder without it never opens; it holds the hashes of the files below
    spec/*.toml               the spec the store was made with
    subjects.npy              every subject id, sorted
    subject_keys.arrow        what the source calls each of them, where it names them by text
    dictionaries/<name>.arrow
    quarantine/<table>.jsonl
    origin/                   what the store was made of, so that a newer release can take from it what is the same
        notes.json            the hash of every raw file, and what was counted of every part
        00012.arrow           in which order each subject's rows stood in the files
        changes.arrow         whose rows differ from the earlier store's, where the store was made from one
    shards/00012/             all rows of some subjects
        index.arrow           one batch per table: where each subject's rows lie, with the checksum of every message
        <table>.arrows        an Arrow IPC stream, uncompressed: many small subjects to a batch
        <table>.arrows.zst    the same, one zstd frame per message: about one subject to a batch
    building/                 only while ingesting

Clock columns are never null: ``datetime.min`` is always, ``datetime.max`` is never. The event time of a static row is
``datetime.min``. A decompressed ``.arrows.zst`` is an Arrow stream, so any Arrow tool reads both kinds.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wardround.core import to_microseconds

STORE_VERSION = 1
MANIFEST = "manifest.json"
SUBJECTS = "subjects.npy"
SUBJECT_KEYS = "subject_keys.arrow"
INDEX = "index.arrow"
SPEC_FOLDER = "spec"
ORIGIN = "origin"
ORIGIN_NOTES = "origin/notes.json"
CHANGES = "origin/changes.arrow"
EVENT = "_event"
AVAILABLE = "_available"
PUBLISHED = "_published"
PENDING = "_pending"
GROUP = "_group"
UNTIL = "_until"
"""When a row stopped to hold: a later version was known, or it was withdrawn. Only where a table can be amended."""
VERSION = "_version"
"""Which version of its row it is, 0 first."""
CLOCKS = (EVENT, AVAILABLE, PUBLISHED, PENDING, UNTIL, VERSION)
LATE = "_late:"
DICTIONARY = "_dictionary:"
NEVER_TIME = to_microseconds(datetime.max)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def shard_folder(store: Path, shard: int) -> Path:
    """Return the folder of one shard."""
    return store / "shards" / f"{shard:05d}"


def building_folder(store: Path) -> Path:
    """Return the folder of unfinished work."""
    return store / "building"


def dictionary_file(name: str) -> str:
    """Return where a dictionary lies in a store."""
    return f"dictionaries/{name}.arrow"


def is_unfinished(store: Path) -> bool:
    """Whether the folder holds an ingest that was interrupted."""
    return building_folder(store).is_dir()


def bucket_numbers(subjects: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each subject: a fixed multiplicative hash."""
    mixed = (subjects.astype(np.uint64) * _GOLDEN) >> np.uint64(33)
    return (mixed % np.uint64(count)).astype(np.int64)
