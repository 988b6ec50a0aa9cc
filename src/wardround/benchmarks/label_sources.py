"""Where the labels of the six AgentEHR tasks come from (appendix B), one declaration each and per source.

Label spaces: CCS categories for diagnoses and procedures, ATC names (or normalised drug names where no ATC map was
added) for prescriptions, ``d_labitems`` labels, microbiology test names, care units.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from wardround.benchmarks.label_events import LabelSource
from wardround.codes import CodeGrouper, load_ccs, read_user_codes
from wardround.records import Policy, SourceSpec
from wardround.tools.candidates import drug_grouper

_MOVES = frozenset({"admit", "transfer"})
_NO_UNIT = frozenset({"", "UNKNOWN"})
_ICD9_PROCEDURES = "icd9-procedures"


def is_other_source(spec: SourceSpec) -> bool:
    """Whether this is the paper's second database, on which methods are only tested."""
    return spec.name == "mimiciii"


def label_sources(policy: Policy, user_codes: Path | None, spec: SourceSpec) -> dict[str, LabelSource]:
    """Return the source of every task."""
    return (_mimiciii if is_other_source(spec) else _mimiciv)(policy, user_codes, spec)


def _mimiciv(policy: Policy, user_codes: Path | None, spec: SourceSpec) -> dict[str, LabelSource]:
    """MIMIC-IV.

    Under ``known_at`` a reflex test (one the laboratory adds because of a result) is no part of what was asked for: the
    spec of the microbiology table names them. Under ``published`` every test of the moment counts, as in the paper.
    """
    microbiology = spec.tables.get("microbiologyevents")
    reflex = microbiology.pending.reflex_patterns if microbiology and microbiology.pending else ()
    return {
        "diagnoses": LabelSource(
            table="diagnoses_icd",
            columns=("icd_code", "icd_version"),
            label=_ccs_label(load_ccs("diagnoses")),
            by_encounter=True,
        ),
        "labevents": LabelSource(table="labevents", columns=("label",), label=_plain, by_session=True),
        "microbiology": LabelSource(
            table="microbiologyevents",
            columns=("test_name",),
            label=_plain,
            keep_column="test_name",
            keep=_not_any(reflex) if policy == "known_at" else None,
            left_out="row_of_reflex_test",
            clock_column="charttime" if policy == "known_at" else None,
            by_session=True,
        ),
        "prescriptions": LabelSource(
            table="prescriptions", columns=("drug", "ndc"), label=drug_grouper(spec, user_codes).label, by_session=True
        ),
        "procedures": LabelSource(
            table="procedures_icd",
            columns=("icd_code", "icd_version"),
            label=_ccs_label(load_ccs("procedures", user_codes)),
            by_encounter=True,
            from_day_start=True,
        ),
        "transfers": LabelSource(
            table="transfers",
            columns=("careunit",),
            label=_care_unit,
            keep_column="eventtype",
            keep=_is_move,
        ),
    }


def _mimiciii(policy: Policy, user_codes: Path | None, spec: SourceSpec) -> dict[str, LabelSource]:
    """MIMIC-III: ICD-9 only, specimens in place of tests, drug names, five units.

    Procedures have no day: they are dated as diagnoses are, at discharge, and asked for the whole stay (the paper has
    3.64 labels per question, against 2.46 in MIMIC-IV: those of stays). Prescriptions have only a day: what starts on
    one is one question, asked, under ``known_at``, when the day begins.
    """
    return {
        "diagnoses": LabelSource(
            table="diagnoses_icd",
            columns=("icd9_code",),
            label=partial(_ccs_label(load_ccs("diagnoses")), version="9"),
            by_encounter=True,
        ),
        "labevents": LabelSource(table="labevents", columns=("label",), label=_plain, by_session=True),
        "microbiology": LabelSource(
            table="microbiologyevents",
            columns=("spec_type_desc",),
            label=_plain,
            clock_column="charttime" if policy == "known_at" else None,
            by_session=True,
            prompt="microbiology_specimens",
        ),
        "prescriptions": LabelSource(
            table="prescriptions",
            columns=("drug",),
            label=drug_grouper(spec, user_codes).label,
            by_encounter=True,
            from_day_start=True,
            prompt="prescriptions_day",
        ),
        "procedures": LabelSource(
            table="procedures_icd",
            columns=("icd9_code",),
            label=partial(_ccs_label(load_ccs("procedures", user_codes)), version="9"),
            by_encounter=True,
            prompt="procedures_stay",
            wants=None if read_user_codes(_ICD9_PROCEDURES, user_codes) else _ICD9_PROCEDURES,
        ),
        "transfers": LabelSource(
            table="transfers",
            columns=("curr_careunit",),
            label=_care_unit,
            keep_column="eventtype",
            keep=_is_move,
        ),
    }


def _plain(name: str | None) -> str | None:
    return " ".join(name.split()) or None if name else None


def _care_unit(name: str | None) -> str | None:
    unit = _plain(name)
    return None if unit is None or unit.upper() in _NO_UNIT else unit


def _is_move(event_type: str | None) -> bool:
    return event_type is not None and event_type.casefold() in _MOVES


def _not_any(patterns: tuple[str, ...]) -> Callable[[str | None], bool]:
    folded = [pattern.casefold() for pattern in patterns]
    return lambda name: name is None or not any(pattern in name.casefold() for pattern in folded)


def _ccs_label(grouper: CodeGrouper) -> Callable[..., str | None]:
    def label(code: str | None, version: str | None) -> str | None:
        category = grouper.category(code, version) if code and version else None
        return category.label if category else None

    return label
