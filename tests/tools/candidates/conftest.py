"""The two CCS spaces as they are where a store brings no code titles."""

from __future__ import annotations

from typing import Literal, get_args

import pytest

from wardround.clinical.codes import load_ccs, load_ccs_words
from wardround.tools.candidates import CandidateSpace

Kind = Literal["diagnoses", "procedures"]


@pytest.fixture(scope="session")
def ccs_spaces() -> dict[str, CandidateSpace]:
    return {
        kind: CandidateSpace(
            name=f"{kind}_ccs_candidates", labels=load_ccs(kind).label_set(), descriptions=load_ccs_words(kind)
        )
        for kind in get_args(Kind)
    }
