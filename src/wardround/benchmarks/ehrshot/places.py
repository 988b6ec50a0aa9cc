"""What EHRSHOT's tasks need of a source's roles: stays, intensive care, deaths, coded rows, reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wardround.core import UserError
from wardround.records import MomentRole, RowRole, SourceSpec, SpanRole, list_sources, load_source_spec, unplayed
from wardround.records.specs.roles import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """One source. ``not_the_record`` are patterns of codes that are no event of the record (a birth); ``unavailable``
    says, by pattern, of which tasks the source can never tell the labels and why."""

    source: str
    stays: SpanRole
    icu_stays: SpanRole | None
    deaths: tuple[MomentRole, ...]
    labs: tuple[RowRole, ...]
    diagnoses: tuple[RowRole, ...]
    reports: RowRole | None
    not_the_record: tuple[str, ...]
    hierarchy: str | None
    unavailable: Mapping[str, str]

    def refuses(self, task: str) -> str | None:
        """Say why this source can never tell the labels of a task, None if it can."""
        return refusal(self.unavailable, task)


def places_of(spec: SourceSpec) -> Places:
    """Return where a source keeps what the tasks are about. UserError: nothing in it is a stay in hospital."""
    roles = spec.roles
    if roles.admission is None:
        raise UserError(
            f"no EHRSHOT task can be asked of source {spec.name!r}: {unplayed('admission')}; see docs/roles.md"
        )
    return Places(
        source=spec.name,
        stays=roles.admission,
        icu_stays=roles.stay,
        deaths=roles.death,
        labs=tuple(role for role in roles.lab if role.is_coded),
        diagnoses=tuple(role for role in roles.diagnosis if role.is_coded),
        reports=next((role for role in roles.note if role.id), None),
        not_the_record=roles.not_the_record,
        hierarchy=roles.hierarchy,
        unavailable=roles.unavailable,
    )


def load_places(source: str) -> Places:
    """Return the places of a source that comes with wardround. UserError lists those."""
    if source not in known_sources():
        raise UserError(f"no source {source!r} comes with wardround; there are {', '.join(known_sources())}")
    return places_of(load_source_spec(source))


def known_sources() -> tuple[str, ...]:
    """The sources that come with wardround."""
    return list_sources()
