"""The candidate spaces of a benchmark on disk, each a file that the manifest names by its hash.

A command opens its benchmark many times over: a file that was read and checked once is not read again while it stays
as it is, by what the file system says of it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from wardround.core import RecordError, content_hash
from wardround.tools.candidates import CandidateSpace

_KEPT = 64
"""So many spaces stay in memory: those of two large benchmarks."""


def save_space(space: CandidateSpace, folder: Path) -> str:
    """Write a space and return the hash of its file."""
    path = _path(folder, space.name)
    path.parent.mkdir(exist_ok=True)
    space.save(path)
    return content_hash(path.read_bytes())


def load_space(folder: Path, name: str, sha256: str) -> CandidateSpace:
    """Return a space; RecordError where its file is missing or has another hash."""
    path = _path(folder, name).absolute()
    try:
        facts = path.stat()
    except FileNotFoundError:
        raise _another(path) from None
    return _checked(path, sha256, (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns))


@lru_cache(maxsize=_KEPT)
def _checked(path: Path, sha256: str, identity: tuple[int, ...]) -> CandidateSpace:
    if content_hash(path.read_bytes()) != sha256:
        raise _another(path)
    return CandidateSpace.load(path)


def _another(path: Path) -> RecordError:
    return RecordError(f"{path} is not the candidate space that the manifest describes")


def _path(folder: Path, name: str) -> Path:
    return folder / "spaces" / f"{name}.space"
