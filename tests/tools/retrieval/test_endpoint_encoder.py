"""An embeddings endpoint over real HTTP: order, faults, the data-use guard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fake_server import Answer, FakeServer, error
from wardround.core import ProviderError, UserError
from wardround.models import DataUseGuard, RetryPolicy
from wardround.tools.retrieval import EncoderConfig, EndpointEncoder, open_encoder

QUICK = RetryPolicy(base_seconds=0.001, attempt_seconds=5.0)


def embedded(body: Any) -> Answer:
    """Vectors that say which text they are of, in reverse order."""
    rows = [{"index": n, "embedding": [float(len(text)), 1.0, 0.0]} for n, text in enumerate(body["input"])]
    return Answer(body=json.dumps({"data": rows[::-1]}).encode())


def test_vectors_come_back_in_the_order_of_the_texts() -> None:
    with FakeServer(embedded) as server:
        encoder = EndpointEncoder("bge-m3", server.url, api_key="k1", batch=2, policy=QUICK)
        vectors = encoder.encode(["a", "bbbb", "", "cc", "ddd"])
        encoder.close()
    assert encoder.dimensions == 3
    assert encoder.identity == f"embeddings/bge-m3@{server.url}"
    lengths = [1, 4, 0, 2, 3]
    expected = [[n / np.hypot(n, 1), 1 / np.hypot(n, 1), 0] if n else [0, 0, 0] for n in lengths]
    assert np.allclose(vectors, expected, atol=1e-6)
    sent = [request.json["input"] for request in server.requests]
    assert sent == [["dimensions"], ["a", "bbbb"], ["cc", "ddd"]]
    assert all(request.path == "/v1/embeddings" for request in server.requests)
    assert server.requests[0].headers["authorization"] == "Bearer k1"


@pytest.mark.parametrize(
    "fault",
    [
        error(429, retry_after=0),
        error(503),
        Answer(drop="before"),
        Answer(body=b"<html>"),
        Answer(body=b'{"data": []}'),
        Answer(body=b'{"data": [{"index": 1, "embedding": [1.0, 0.0, 0.0]}]}'),
    ],
    ids=["busy", "down", "dropped", "no-json", "empty", "other-index"],
)
def test_a_passing_fault_is_asked_again(fault: Answer) -> None:
    good = embedded({"input": ["a"]})
    with FakeServer([fault, good]) as server:
        encoder = EndpointEncoder("m", server.url, dimensions=3, policy=QUICK)
        assert encoder.encode(["a"]).shape == (1, 3)
        encoder.close()
    assert len(server.requests) == 2


def test_a_lasting_fault_is_one_clear_error_without_the_key() -> None:
    with FakeServer([error(401, "bad key secret-key")]) as server:
        encoder = EndpointEncoder("m", server.url, api_key="secret-key", dimensions=3, policy=QUICK)
        with pytest.raises(ProviderError, match=r"embeddings/m at .*401") as caught:
            encoder.encode(["a"])
        encoder.close()
    assert "secret-key" not in str(caught.value)
    assert len(server.requests) == 1


def test_another_length_of_vector_is_refused() -> None:
    with FakeServer(embedded) as server:
        encoder = EndpointEncoder("m", server.url, dimensions=5, policy=QUICK)
        with pytest.raises(ProviderError, match="3 numbers, not 5"):
            encoder.encode(["a"])
        encoder.close()


def test_record_text_stays_on_this_machine_unless_permitted() -> None:
    with pytest.raises(UserError, match="--permit-endpoint"):
        open_encoder(EncoderConfig(name="embeddings/m", base_url="https://embeddings.example/v1"))
    guard = DataUseGuard(sensitivity="credentialed", permitted=("https://embeddings.example/v1",))
    encoder = open_encoder(EncoderConfig(name="embeddings/m", base_url="https://embeddings.example/v1", guard=guard))
    assert encoder.name == "embeddings/m"
    assert isinstance(encoder, EndpointEncoder)
    encoder.close()
