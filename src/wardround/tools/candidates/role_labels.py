"""How the rows of a role become labels: categories of codes, drug names, or the names that the rows give themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from wardround.clinical.codes import CodeGrouper, DrugGrouper, load_ccs, load_drugs
from wardround.records import RowRole, SourceSpec

ICD_VERSIONS: Mapping[str, str] = {"icd9": "9", "icd10": "10"}
"""The code systems that have CCS categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLabels:
    """A label from the texts of ``columns``, None if they are empty; ``spelling`` is the label as it was written."""

    columns: tuple[str, ...]
    spelling: Callable[..., str | None]

    def label(self, *cells: str | None) -> str | None:
        """Return the label with single spaces."""
        found = self.spelling(*cells)
        return " ".join(found.split()) or None if found else None


def role_labels(name: str, role: RowRole, spec: SourceSpec, user_codes: Path | None) -> RoleLabels:
    """Return the labelling of rows of a role's table."""
    if role.group == "ccs":
        grouper = load_ccs(ccs_kind(name), user_codes)
        return RoleLabels(
            columns=tuple(filter(None, (role.code, role.system_column))), spelling=_category(role, grouper)
        )
    named = _named(role, naming_columns(role, spec))
    if name != "order":
        return RoleLabels(columns=naming_columns(role, spec), spelling=named)
    columns = (*naming_columns(role, spec), *((role.drug_code,) if role.drug_code else ()))
    return RoleLabels(columns=columns, spelling=_drug(role, named, drug_grouper(spec, user_codes)))


def naming_columns(role: RowRole, spec: SourceSpec) -> tuple[str, ...]:
    """Return the columns that name a row, best first: the role's, else the table's label, else its code."""
    table = spec.tables[role.table]
    return role.label or tuple(filter(None, (table.label,))) or tuple(filter(None, (role.code, table.code)))[:1]


def ccs_kind(name: str) -> Literal["diagnoses", "procedures"]:
    """Return the categories of a role. Raises ValueError if it has none."""
    kinds = {"diagnosis": "diagnoses", "procedure": "procedures"}
    if name not in kinds:
        raise ValueError(f"a {name} has no CCS categories")
    return cast(Literal["diagnoses", "procedures"], kinds[name])


def drug_grouper(spec: SourceSpec, user_codes: Path | None) -> DrugGrouper:
    """Return the grouper of a source's drugs: an added ATC map, but only if the source's spec groups its drugs by
    one."""
    orders = spec.roles.first("order")
    table = spec.tables.get(orders.table) if orders else None
    by_atc = table is not None and table.group is not None and table.group.system == "atc"
    return load_drugs(user_codes if by_atc else None)


def _category(role: RowRole, grouper: CodeGrouper) -> Callable[..., str | None]:
    def spelling(code: str | None, system: str | None = None) -> str | None:
        for named, each, _ in role.readings(code or "", system or ""):
            category = grouper.category(each, ICD_VERSIONS[named]) if named in ICD_VERSIONS else None
            if category is not None:
                return category.label
        return None

    return spelling


def _named(role: RowRole, columns: tuple[str, ...]) -> Callable[..., str | None]:
    """Return the first name that is not empty. A code in one of the role's forms is reduced to the part that the form
    keeps."""
    nothing = {"", *(name.casefold() for name in role.not_labels)}

    def spelling(*cells: str | None) -> str | None:
        for column, cell in zip(columns, cells, strict=False):
            text = cell
            if cell and column == role.code and role.forms:
                text = next((code for _, code, _ in role.readings(cell)), cell)
            if text and text.strip().casefold() not in nothing:
                return text
        return None

    return spelling


def _drug(role: RowRole, named: Callable[..., str | None], grouper: DrugGrouper) -> Callable[..., str | None]:
    def spelling(*cells: str | None) -> str | None:
        return grouper.label(named(*cells), cells[-1] if role.drug_code else None)

    return spelling
