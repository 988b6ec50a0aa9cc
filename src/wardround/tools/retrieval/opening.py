"""Open an encoder by name: lexical, sentence-transformers, or an embeddings endpoint."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from wardround.core import ProviderError, Registry, UserError, find_backend, how_to_install, import_extra, spelling
from wardround.models.endpoint import Attempts, Endpoint, MalformedReply, RetryPolicy
from wardround.models.guard import DataUseGuard
from wardround.tools.retrieval.encoder import CachedEncoder, Encoder, LexicalEncoder, VectorCache, Vectors, unit_rows

# An OpenAI-compatible ``/embeddings`` endpoint as an encoder. The data-use guard decides whether it may be asked.


Result = TypeVar("Result")


class EndpointEncoder:
    """A served embedding model, behind the same client, bounds and masks as a served language model.

    ``dimensions`` is asked for once, by encoding one word, where it is not given. Raises ProviderError after retries.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        guard: DataUseGuard | None = None,
        api_key: str | None = None,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        policy: RetryPolicy | None = None,
        batch: int = 32,
    ) -> None:
        self._endpoint = Endpoint(
            base_url,
            guard=guard or DataUseGuard(),
            api_key=api_key,
            policy=policy or RetryPolicy(attempt_seconds=120.0),
        )
        self.base_url = self._endpoint.base_url
        self.name = f"embeddings/{model}"
        self.identity = f"{self.name}@{self.base_url}"
        self.max_tokens = max_tokens
        self._model = model
        self._dimensions = dimensions
        self._batch = batch
        self._loop = _Loop()

    @property
    def dimensions(self) -> int:
        """The length of a vector; the first call may ask the endpoint."""
        if self._dimensions is None:
            self._dimensions = len(self._ask(["dimensions"])[0])
        return self._dimensions

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text; an empty text is not sent and has the zero vector."""
        rows = np.zeros((len(texts), self.dimensions))
        places = [place for place, text in enumerate(texts) if text.strip()]
        for start in range(0, len(places), self._batch):
            some = places[start : start + self._batch]
            rows[some] = self._ask([texts[place] for place in some])
        return unit_rows(rows) if len(rows) else np.empty((0, self.dimensions), np.float32)

    def close(self) -> None:
        """Close the connections; whoever waits for vectors gets an error."""
        self._loop.close(self._endpoint.close())

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        vectors = self._loop.result(
            self._endpoint.ask(
                "/embeddings",
                json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
                attempts=Attempts(self._endpoint.policy, f"{self.name} at {self.base_url}"),
                read=lambda data: _vectors(data, len(texts)),
            )
        )
        length = len(vectors[0])
        if self._dimensions not in (None, length):
            raise ProviderError(f"the endpoint gives vectors of {length} numbers, not {self._dimensions} as before")
        return vectors


class _Loop:
    """An event loop on a thread of its own, started when first needed: the encoder blocks, its client does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def result(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine there and wait for it. ProviderError: it was closed meanwhile."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="embeddings", daemon=True)
                self._thread.start()
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except asyncio.CancelledError:
            raise ProviderError("the embeddings endpoint was closed while it was asked") from None
        except BaseException:
            future.cancel()
            raise

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """End what still runs, then run one last coroutine, then stop."""
        with self._lock:
            (loop, self._loop), (thread, self._thread) = (self._loop, None), (self._thread, None)
        if loop is None or thread is None:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(_end(last), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end(last: Coroutine[Any, Any, None]) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await last


def _vectors(body: Any, expected: int) -> list[list[float]]:
    """Return the vectors of a reply in the order of the texts. Raises MalformedReply if a vector is missing."""
    try:
        entries = sorted(body["data"], key=lambda entry: int(entry["index"]))
        vectors = [[float(value) for value in entry["embedding"]] for entry in entries]
        places = [int(entry["index"]) for entry in entries]
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise MalformedReply(f"the reply holds no embeddings ({type(error).__name__}: {error})") from None
    lengths = {len(vector) for vector in vectors}
    if places != list(range(expected)) or len(lengths) != 1 or 0 in lengths:
        raise MalformedReply(f"{expected} texts were sent, {len(vectors)} vectors came back")
    return vectors


# Encoders of the sentence-transformers library, by name or folder. Extra: ``wardround[encoders]``.


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


# An encoder by the name a person gives on the command line.


_LEXICAL_FROM_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """An encoder to open: its name, and where and how it runs. Without a guard the strictest one holds: record text
    stays on this machine. ``rest`` is what its name goes on with."""

    name: str = "lexical"
    rest: str = ""
    base_url: str | None = None
    api_key: str | None = None
    guard: DataUseGuard | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderEntry:
    """One kind of encoder by name. ``takes`` is what its name goes on with, ``needs`` what has to be given with it.

    ``cached_from``: shorter texts (in characters) are encoded faster than a cache finds them.
    """

    name: str
    description: str
    open: Callable[[EncoderConfig], Encoder]
    takes: str = ""
    rest_optional: bool = False
    needs: str = ""
    cached_from: int = 0

    @property
    def spelling(self) -> str:
        """How its names are written."""
        return spelling(self)


ENCODERS: Registry[EncoderEntry] = Registry("encoders", one="encoder", of=EncoderEntry)
"""Every kind of encoder there is, by the first part of its names."""


def _lexical(opening: EncoderConfig) -> Encoder:
    if opening.rest and not opening.rest.isdecimal():
        raise UserError(f"the encoder {opening.name!r} is spelt {ENCODERS.get('lexical').spelling}, a number")
    return LexicalEncoder(int(opening.rest)) if opening.rest else LexicalEncoder()


def _served(opening: EncoderConfig) -> Encoder:
    if opening.base_url is None:
        raise UserError(
            f"{opening.name} needs an endpoint: set retrieval.encoder_url (serve: --encoder-url), for example http://127.0.0.1:8000/v1"
        )
    return EndpointEncoder(opening.rest, opening.base_url, guard=opening.guard, api_key=opening.api_key)


for _entry in (
    EncoderEntry(
        name="lexical",
        takes="/<dimensions>",
        rest_optional=True,
        description="Hashed words and trigrams, in 1,024 dimensions or others: no weights, no network, no fitting.",
        open=_lexical,
        cached_from=_LEXICAL_FROM_CHARACTERS,
    ),
    EncoderEntry(
        name="sentence-transformers",
        takes="/<name or folder>",
        description="Any model of the sentence-transformers library (bge-m3, BioLORD-2023, MedCPT, MiniLM).",
        needs=how_to_install("encoders"),
        open=lambda opening: SentenceEncoder(opening.rest, device=opening.device),
    ),
    EncoderEntry(
        name="embeddings",
        takes="/<name>",
        description="A model behind any OpenAI-compatible /embeddings endpoint.",
        needs="retrieval.encoder_url; --permit-endpoint for real records on another machine",
        open=_served,
    ),
):
    ENCODERS.add(_entry.name, _entry)


def list_encoders() -> tuple[EncoderEntry, ...]:
    """Return every registered kind of encoder, in the order to show it."""
    return ENCODERS.registered


def open_encoder(encoder: str | EncoderConfig = "lexical", cache: VectorCache | None = None) -> Encoder:
    """Open an encoder, by its name alone or with options.

    The lexical encoder is faster than a look-up on short texts, so ``cache`` serves it for long ones only (a chunk of
    100 events: 1 ms to encode, 0.02 ms to look up). Raises UserError.
    """
    config = EncoderConfig(name=encoder) if isinstance(encoder, str) else encoder
    entry, rest = find_backend(ENCODERS, config.name)
    opened = entry.open(replace(config, rest=rest))
    return opened if cache is None else CachedEncoder(opened, cache, from_characters=entry.cached_from)
