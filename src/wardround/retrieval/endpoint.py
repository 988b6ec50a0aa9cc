"""An OpenAI-compatible ``/embeddings`` endpoint as an encoder. The data-use guard decides whether it may be asked."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from wardround.core import ProviderError
from wardround.models.endpoint import Endpoint, MalformedReply
from wardround.models.guard import DataUseGuard
from wardround.models.retry import Attempts, RetryPolicy
from wardround.retrieval.encoder import Vectors, unit_rows

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
    """The vectors of a reply in the order of the texts. Raises MalformedReply where they are not all there."""
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
