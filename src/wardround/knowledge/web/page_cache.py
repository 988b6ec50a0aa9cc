"""Pages and results as they were when they were fetched, by what they hold: a run can be played again without a web.

A folder: ``asked/<hash of the request>.json`` says what was asked, when, and which content answered;
``content/<hash>.json.gz`` is that content. The same content is kept once; a request keeps its first answer.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wardround.core import content_hash, private_folder


class PageCache:
    """Safe for several threads and processes: files are written whole under their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        private_folder(folder / "asked")
        private_folder(folder / "content")

    def get(self, *request: str) -> Mapping[str, Any] | None:
        """Return what answered a request, None where it was never asked."""
        try:
            asked = json.loads(self._asked(request).read_bytes())
            body = gzip.decompress(self._content(asked["content"]).read_bytes())
        except (OSError, ValueError, KeyError):
            return None
        if hashlib.sha256(body).hexdigest() != asked["content"]:
            return None
        answer: Mapping[str, Any] = json.loads(body)
        return answer

    def put(self, *request: str, answer: Mapping[str, Any]) -> None:
        """Keep what answered a request, unless something is kept already."""
        body = json.dumps(answer, sort_keys=True, ensure_ascii=False).encode()
        name = hashlib.sha256(body).hexdigest()
        _write(self._content(name), gzip.compress(body, mtime=0))
        told = {"request": request, "content": name, "fetched": datetime.now(UTC).isoformat(timespec="seconds")}
        _write(self._asked(request), json.dumps(told, indent=1).encode())

    def _asked(self, request: tuple[str, ...]) -> Path:
        return self.folder / "asked" / f"{content_hash(list(request))}.json"

    def _content(self, name: str) -> Path:
        return self.folder / "content" / f"{name}.json.gz"


def _write(path: Path, body: bytes) -> None:
    """Give a finished file its name, unless there is one."""
    if path.exists():
        return
    part = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    part.write_bytes(body)
    os.replace(part, path)
