"""Drugs to labels: ATC names where the user has added an ATC map, else a normalised drug name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.codes.drug_names import normalise_drug_name
from wardround.codes.labels import normalise_label
from wardround.codes.user_codes import read_user_codes


@dataclass(frozen=True, slots=True, kw_only=True)
class DrugGrouper:
    """Drug names to labels. Empty maps mean kind "drug_name"."""

    by_name: Mapping[str, str]
    by_stem: Mapping[str, str]
    by_ndc: Mapping[str, str]

    @property
    def kind(self) -> Literal["atc", "drug_name"]:
        """Which labels `label` gives."""
        return "atc" if self.by_name or self.by_ndc else "drug_name"

    def label(self, drug_name: str | None, ndc: str | None = None) -> str | None:
        """The ATC name of a prescription, by exact name, then NDC, then normalised name; or the normalised name."""
        name = drug_name or ""
        stem = normalise_drug_name(name)
        if self.kind == "drug_name":
            return stem
        found = self.by_name.get(normalise_label(name)) or self.by_ndc.get(_plain_ndc(ndc) or "")
        return found or (self.by_stem.get(stem) if stem else None)


def load_drugs(user_codes: Path | None) -> DrugGrouper:
    """The grouper that the tables under ``user_codes`` allow."""
    names = {row[0]: row[1] for row in read_user_codes("atc-names", user_codes) or []}
    drugs = read_user_codes("drug-atc", user_codes) or []
    ndcs = read_user_codes("ndc-atc", user_codes) or []
    by_name = {normalise_label(drug): names.get(code, code) for drug, code in drugs}
    by_ndc = {plain: names.get(code, code) for ndc, code in ndcs if (plain := _plain_ndc(ndc))}
    stems: dict[str, set[str]] = {}
    for drug, code in drugs:
        stem = normalise_drug_name(drug)
        if stem:
            stems.setdefault(stem, set()).add(names.get(code, code))
    by_stem = {stem: next(iter(found)) for stem, found in stems.items() if len(found) == 1}
    return DrugGrouper(by_name=by_name, by_stem=by_stem, by_ndc=by_ndc)


def _plain_ndc(ndc: str | None) -> str | None:
    """An NDC as 11 digits; None for nothing and for the zeros that MIMIC writes where it knows none."""
    digits = "".join(character for character in ndc or "" if character.isdigit())
    return digits.zfill(11) if digits.strip("0") else None
