"""The default encoder: the same everywhere, near for near texts, blind to numbers that mean nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import often
from wardround.core import UserError
from wardround.tools.retrieval import LexicalEncoder, open_encoder

ENCODER = LexicalEncoder()
PROGRAM = """
import hashlib
from wardround.tools.retrieval import LexicalEncoder
print(hashlib.sha256(LexicalEncoder().encode(["Creatinine 4.2 mg/dL, oliguria", "Élan für µg"]).tobytes()).hexdigest())
"""


def similarity(one: str, other: str) -> float:
    first, second = ENCODER.encode([one, other])
    return float(first @ second)


def test_a_text_has_one_vector_in_every_process() -> None:
    here = ENCODER.encode(["Creatinine 4.2 mg/dL, oliguria", "Élan für µg"])
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True)
        assert said.stdout.decode().strip() == hashlib.sha256(here.tobytes()).hexdigest()


def test_vectors_do_not_change_between_versions() -> None:
    """A bank made today is searched tomorrow: another vector needs another VERSION."""
    vector = ENCODER.encode(["acute renal failure"])[0]
    places = np.flatnonzero(np.abs(vector) > 0.4)
    assert ENCODER.identity == "lexical-1-1024"
    assert places.tolist() == PLACES_OF_ACUTE_RENAL_FAILURE


PLACES_OF_ACUTE_RENAL_FAILURE = [101, 798, 981]


def test_near_texts_are_near() -> None:
    assert similarity("acute renal failure", "acute renal failure") == pytest.approx(1.0, abs=1e-6)
    misspelt = similarity("cholecystitis", "cholecystitus")
    assert misspelt > 0.25
    assert misspelt > 3 * abs(similarity("cholecystitis", "pneumothorax"))
    assert similarity("acute renal failure", "renal failure, acute") == pytest.approx(1.0, abs=1e-6)


def test_identifiers_and_function_words_weigh_nothing() -> None:
    assert similarity("sodium low 10001234", "sodium low") == pytest.approx(1.0, abs=1e-6)
    assert similarity("the sodium is low", "sodium low") == pytest.approx(1.0, abs=1e-6)
    assert similarity("sodium 126", "sodium 141") < 1.0


def test_a_word_said_often_does_not_drown_the_others() -> None:
    assert similarity("glucose " * 500 + "sepsis", "sepsis") > 0.1


@settings(max_examples=often(66, 200), deadline=None)
@given(st.lists(st.text(max_size=60), max_size=5))
def test_every_text_has_a_unit_vector_or_none(texts: list[str]) -> None:
    vectors = ENCODER.encode(texts)
    assert vectors.shape == (len(texts), 1024)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    assert all(abs(length - 1) < 1e-5 or length == 0 for length in lengths)


@settings(max_examples=often(16, 50), deadline=None)
@given(st.text(min_size=1, max_size=40), st.lists(st.text(max_size=40), max_size=4))
def test_a_vector_does_not_depend_on_the_other_texts(text: str, others: list[str]) -> None:
    alone = ENCODER.encode([text])[0]
    among = ENCODER.encode([*others, text])[-1]
    assert alone.tobytes() == among.tobytes()


def test_dimensions_by_name() -> None:
    encoder = open_encoder("lexical/256")
    assert (encoder.name, encoder.dimensions, encoder.identity) == ("lexical/256", 256, "lexical-1-256")
    assert encoder.encode(["sepsis"]).shape == (1, 256)
    with pytest.raises(UserError, match="at least 16"):
        open_encoder("lexical/3")


def test_unknown_encoders_are_named() -> None:
    with pytest.raises(UserError, match="Did you mean lexical"):
        open_encoder("lexicall")
    with pytest.raises(UserError, match="encoder_url"):
        open_encoder("embeddings/bge-m3")
