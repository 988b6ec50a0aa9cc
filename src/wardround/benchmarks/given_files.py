"""Files of a user's own that a build reads: a manifest names them by name and hash, never by the words in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.core import UserError, content_hash

_SHOWN_DIGITS = 12


def name_of_file(path: Path) -> dict[str, str]:
    """Return a file's name and the hash of its bytes."""
    return {"name": path.name, "sha256": content_hash(path.read_bytes())}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFiles:
    """The files that somebody has who builds a benchmark again. Found by what is in them."""

    paths: tuple[Path, ...] = ()

    def find(self, named: Mapping[str, str]) -> Path:
        """Return the file of that hash. UserError: none of the given files is it."""
        for path in self.paths:
            if name_of_file(path)["sha256"] == named["sha256"]:
                return path
        wanted = f"{named['name']} (sha256 {named['sha256'][:_SHOWN_DIGITS]}...)"
        raise UserError(f"it was built with the file {wanted}: name yours with --given; none named so is that file")

    def find_all(self, named: Sequence[Mapping[str, str]]) -> tuple[Path, ...]:
        """Return the files of those hashes, in that order."""
        return tuple(self.find(one) for one in named)
