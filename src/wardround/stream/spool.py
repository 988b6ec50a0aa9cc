"""A pipe as a folder of lines: what comes is written down first, so that a killed stream finds it again."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from wardround.core import private_folder

_BLOCK = 1 << 16


@dataclass(slots=True)
class Spool:
    """Copies a file descriptor into ``folder``, a file for every time it is started, until there is no more."""

    descriptor: int
    folder: Path
    _ended: threading.Event = field(default_factory=threading.Event)
    _error: list[OSError] = field(default_factory=list)

    def start(self) -> None:
        """Begin, beside whatever else is done."""
        private_folder(self.folder)
        path = self.folder / f"{len(list(self.folder.glob('*.jsonl'))):06d}.jsonl"
        threading.Thread(target=self._copy, args=(path,), daemon=True).start()

    def ended(self) -> bool:
        """Whether all that will come is there. OSError: it could not be read or written."""
        if self._error:
            raise self._error[0]
        return self._ended.is_set()

    def _copy(self, path: Path) -> None:
        try:
            self._copy_blocks(path)
        except OSError as error:
            self._error.append(error)
        finally:
            self._ended.set()

    def _copy_blocks(self, path: Path) -> None:
        """Write what comes; a last line without an end gets one, since nothing more will come."""
        last = b"\n"
        with path.open("xb", buffering=0) as target:
            while block := os.read(self.descriptor, _BLOCK):
                last = block[-1:]
                while block:  # a disk that is nearly full takes a part
                    block = block[target.write(block) :]
            if last != b"\n":
                target.write(b"\n")
