"""Where image files come from: a folder. What a file is asked by comes from the record, never from a model."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wardround.core import ToolFailure, UserError

MOST_BYTES = 256 * 1024 * 1024
"""The largest file that is read. A film of 14 bits has about 25 MB, a plain CT slice half of one."""
_SUFFIXES = (".dcm", ".png", ".jpg", ".jpeg", "")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
NOT_THERE = "the file of this image is not there; its row and its report are all there is."


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageName:
    """What the record calls an image. ``subject`` is as the source has it; what it does not say is empty."""

    subject: str
    image: str
    study: str = ""
    instance: str = ""


class ImageSource(Protocol):
    """Gives the bytes of an image by what the record calls it."""

    def read(self, name: ImageName) -> bytes:
        """Return a whole file. ToolFailure: it is not there, cannot be had or is too large."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class ImageFolder:
    """A folder of files named by their images, laid out as MIMIC-CXR does or anyhow. Safe to share between threads."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise UserError(f"images: there is no folder {str(root)!r}; name the folder that holds the image files")
        self.root = root
        self._by_name: dict[str, Path] | None = None
        self._looking = threading.Lock()

    def read(self, name: ImageName) -> bytes:
        """Return a file's bytes."""
        path = self._find(name)
        if path is None:
            raise ToolFailure(NOT_THERE)
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ToolFailure(f"the file of this image cannot be read ({error.strerror}).") from error
        if len(data) > MOST_BYTES:
            raise ToolFailure(f"the file of this image is larger than {MOST_BYTES:,} bytes and is not opened.")
        return data

    def close(self) -> None:
        """Nothing is held open."""

    def _find(self, name: ImageName) -> Path | None:
        """The usual place, else wherever a file of that name lies."""
        if not _PLAIN.fullmatch(name.image):
            return None
        for place in _places(self.root, name):
            for suffix in _SUFFIXES:
                path = place / f"{name.image}{suffix}"
                if path.is_file():
                    return path
        return self._anywhere().get(name.image)

    def _anywhere(self) -> dict[str, Path]:
        with self._looking:
            if self._by_name is None:
                files = (path for path in sorted(self.root.rglob("*")) if path.suffix.lower() in _SUFFIXES)
                self._by_name = {path.stem: path for path in files if path.is_file()}
            return self._by_name


def _places(root: Path, name: ImageName) -> Iterator[Path]:
    """MIMIC-CXR: ``files/p10/p10000032/s50414267``."""
    if _PLAIN.fullmatch(name.subject) and _PLAIN.fullmatch(name.study):
        folder = Path(f"p{name.subject[:2]}") / f"p{name.subject}" / f"s{name.study}"
        yield root / folder
        yield root / "files" / folder
    yield root
