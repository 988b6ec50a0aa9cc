"""An OpenAI-compatible ``/embeddings`` endpoint as an encoder. The data-use guard decides whether it may be asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np

from wardround.core import ProviderError
from wardround.models.guard import DataUseGuard, is_loopback, parse_endpoint
from wardround.models.retry import RETRIED_STATUSES, Attempts, Fault, RetryPolicy, retry_after_seconds
from wardround.models.wire import error_text
from wardround.retrieval.encoder import Vectors, unit_rows

_SHORTEST_CUT_CHARACTERS = 200


class EndpointEncoder:
    """A served embedding model. Redirects are never followed; loopback traffic ignores proxies of the environment.

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
        (guard or DataUseGuard()).check(base_url)
        url = parse_endpoint(base_url)
        self.base_url = str(url).rstrip("/")
        self.name = f"embeddings/{model}"
        self.identity = f"{self.name}@{self.base_url}"
        self.max_tokens = max_tokens
        self._model = model
        self._dimensions = dimensions
        self._policy = policy or RetryPolicy(attempt_seconds=120.0)
        self._batch = batch
        self._api_key = api_key
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._client = httpx2.Client(
            headers=headers, timeout=self._policy.attempt_seconds, trust_env=not is_loopback(url)
        )

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
        """Close the connections."""
        self._client.close()

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        attempts = Attempts(self._policy, f"{self.name} at {self.base_url}")
        while True:
            attempts.start()
            answer = self._post({"model": self._model, "input": list(texts), "encoding_format": "float"})
            if not isinstance(answer, Fault):
                found = _vectors(answer, len(texts), self._dimensions)
                if not isinstance(found, Fault):
                    return found
                answer = found
            time.sleep(attempts.wait_after(answer))

    def _post(self, body: dict[str, Any]) -> Any:
        try:
            response = self._client.post(f"{self.base_url}/embeddings", json=body)
        except httpx2.TimeoutException:
            return Fault(kind="timeout", message=f"no reply within {self._policy.attempt_seconds:g} s")
        except httpx2.ConnectError as error:
            return Fault(kind="connect", message=f"cannot connect ({error})", patient=True)
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            return Fault(kind="dropped", message=f"the connection broke ({error})")
        if not response.is_success:
            return self._refused(response)
        try:
            return response.json()
        except ValueError:
            return Fault(kind="malformed", message="the reply is not JSON")

    def _refused(self, response: httpx2.Response) -> Fault:
        status = response.status_code
        try:
            said = error_text(response.json())
        except ValueError:
            said = response.text[:_SHORTEST_CUT_CHARACTERS]
        if self._api_key:
            said = said.replace(self._api_key, "***")
        return Fault(
            kind=f"status {status}",
            message=f"{status} {response.reason_phrase}{': ' + said if said else ''}",
            status=status,
            final=status not in RETRIED_STATUSES,
            patient=status < 500,
            retry_after=retry_after_seconds(response.headers.get("retry-after")),
        )


def _vectors(body: Any, expected: int, dimensions: int | None) -> list[list[float]] | Fault:
    """The vectors of a reply in the order of the texts, or what is wrong with it."""
    try:
        entries = sorted(body["data"], key=lambda entry: int(entry["index"]))
        vectors = [[float(value) for value in entry["embedding"]] for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        return Fault(kind="malformed", message=f"the reply holds no embeddings ({error!r})")
    lengths = {len(vector) for vector in vectors}
    if [int(entry["index"]) for entry in entries] != list(range(expected)) or len(lengths) != 1 or 0 in lengths:
        return Fault(kind="malformed", message=f"{expected} texts were sent, {len(vectors)} vectors came back")
    if dimensions is not None and lengths != {dimensions}:
        raise ProviderError(f"the endpoint gives vectors of {lengths.pop()} numbers, not {dimensions} as before")
    return vectors
