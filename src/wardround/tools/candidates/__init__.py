"""Candidates: the closed answer spaces of the tasks and the ladder of searches through them."""

from wardround.tools.candidates.build import build_candidate_spaces, space_name
from wardround.tools.candidates.match import LabelMatch
from wardround.tools.candidates.role_labels import RoleLabels, drug_grouper, role_labels
from wardround.tools.candidates.space import CandidateSpace, LabelEncoder

__all__ = [
    "CandidateSpace",
    "LabelEncoder",
    "LabelMatch",
    "RoleLabels",
    "build_candidate_spaces",
    "drug_grouper",
    "role_labels",
    "space_name",
]
