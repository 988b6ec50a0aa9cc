"""Encoders of the sentence-transformers library, by name or folder. Extra: ``wardround[encoders]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wardround.core import UserError, import_extra
from wardround.retrieval.encoder import Vectors, unit_rows


class SentenceEncoder:
    """A downloaded model: a folder, or a name the library knows (it may then fetch it from its hub).

    ``prompt`` is put before every text where a model asks for one.
    """

    def __init__(self, model: str, *, prompt: str = "", device: str | None = None, batch: int = 32) -> None:
        self.name = f"sentence-transformers/{model}"
        self._model = _load(model, device)
        self._prompt = prompt
        self._batch = batch
        measured = np.asarray(self._model.encode([""], show_progress_bar=False))
        self.dimensions = int(measured.shape[1])
        self.identity = f"{self.name}#{_revision(model)}#{prompt}" if prompt else f"{self.name}#{_revision(model)}"

    @property
    def max_tokens(self) -> int | None:
        """The model's own limit; the library cuts longer texts without a word."""
        limit = self._model.max_seq_length
        return None if limit is None else int(limit)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        prompted = [self._prompt + text for text in texts]
        return unit_rows(
            self._model.encode(prompted, batch_size=self._batch, convert_to_numpy=True, show_progress_bar=False)
        )


def _load(model: str, device: str | None) -> Any:
    library = import_extra("sentence_transformers", "encoders", what=f"sentence-transformers/{model}")
    try:
        return library.SentenceTransformer(model, device=device)
    except (OSError, ValueError) as error:
        raise UserError(
            f"cannot load the encoder {model!r} ({str(error).splitlines()[0]}); give the folder of a downloaded model"
        ) from error


def _revision(model: str) -> str:
    """Names a local model by the size and time of its weights: another file in the same folder is another encoder."""
    folder = Path(model)
    if not folder.is_dir():
        return "hub"
    files = sorted(file for file in folder.rglob("*") if file.suffix in (".safetensors", ".bin"))
    return ",".join(f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files) or "folder"
