"""Candidates: the closed answer spaces of the tasks and the ladder of searches through them."""

from wardround.tools.candidates.build import (
    RoleLabels,
    SeenByGroup,
    build_candidate_spaces,
    drug_grouper,
    naming_columns,
    role_labels,
    seen_space,
    space_name,
)
from wardround.tools.candidates.space import CandidateSpace, LabelEncoder, LabelMatch

__all__ = [
    "CandidateSpace",
    "LabelEncoder",
    "LabelMatch",
    "RoleLabels",
    "SeenByGroup",
    "build_candidate_spaces",
    "drug_grouper",
    "naming_columns",
    "role_labels",
    "seen_space",
    "space_name",
]
