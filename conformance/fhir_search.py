"""Searches of a FHIR server in memory (Medplum) beside SQL on our charts, on the same resources: equal sets of ids.

There is no FHIR server of ours: what is compared is what our reading of a bulk export made of the resources. Charts are
as of a moment after everything, so that only the reading can differ, not the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from conformance.node import NodeTools, node_tools
from conformance.outcomes import Scenario, SuiteResult
from conformance.place import Place
from wardround.records import Store
from wardround.synth import time_zone_of
from wardround.tools import Environment

_SERVER = Path(__file__).with_name("fhir_searches.mjs")
_PEOPLE = 4
_AFTER_EVERYTHING = datetime(2999, 1, 1)
_OFFSET = time_zone_of("fhir")
_CODE_SYSTEMS = "http://mimic.mit.edu/fhir/mimic/CodeSystem/"
"""Of the synthetic export; a chart shows a code system without it."""
_SQL_ROWS = 1_000
"""The SQL tool shows so many at once."""
_OBSERVED = ("labs", "microbiology", "susceptibilities", "vital_signs", "observations")
_ALL_OBSERVED = " UNION ALL ".join(
    "SELECT coalesce(component_of, observation_id) AS id, code, code_system, effective_time AS time, "
    f"encounter_id FROM {table}"
    for table in _OBSERVED
)
_NOT_ASKED = {
    "Observation by status, MedicationRequest by status": "a status is as at export; when it became so is not said, "
    "so no chart shows it",
    "Observation by quantity": "the server in memory answers no search by quantity",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of search: what is asked of the server, and of our chart. ``{...}`` is filled per person."""

    name: str
    search: str
    sql: str
    ordered: bool = False


_WINDOW = "date=ge{since}&date=lt{until}"
_SELECTED = f"SELECT DISTINCT id FROM ({_ALL_OBSERVED})"
_OF_CODE = "code = '{code}' AND code_system = '{system}'"
KINDS = (
    Kind(name="Patient by id", search="Patient?_id={key}", sql="SELECT patient_id FROM patients"),
    Kind(name="Encounter by subject", search="Encounter?subject={who}", sql="SELECT encounter_id FROM encounters"),
    Kind(
        name="Encounter by subject and date, which overlaps a period",
        search="Encounter?subject={who}&date=ge{since}",
        sql="SELECT encounter_id FROM encounters WHERE coalesce(end_time, start_time) >= '{since_here}'",
    ),
    Kind(name="Condition by subject", search="Condition?subject={who}", sql="SELECT condition_id FROM conditions"),
    Kind(
        name="Condition by encounter",
        search="Condition?encounter=Encounter/{encounter}",
        sql="SELECT condition_id FROM conditions WHERE encounter_id = '{encounter}'",
    ),
    Kind(name="Procedure by subject", search="Procedure?subject={who}", sql="SELECT procedure_id FROM procedures"),
    Kind(name="Observation by subject", search="Observation?subject={who}", sql=_SELECTED),
    Kind(
        name="Observation by subject and code with its system",
        search="Observation?subject={who}&code={token}",
        sql=f"{_SELECTED} WHERE {_OF_CODE}",
    ),
    Kind(
        name="Observation by code within a window of time",
        search="Observation?subject={who}&code={token}&" + _WINDOW,
        sql=f"{_SELECTED} WHERE {_OF_CODE} AND time >= '{{since_here}}' AND time < '{{until_here}}'",
    ),
    Kind(
        name="Observation by encounter",
        search="Observation?encounter=Encounter/{encounter}",
        sql=f"{_SELECTED} WHERE encounter_id = '{{encounter}}'",
    ),
    Kind(
        name="Observation by code, sorted by date, the latest first",
        search="Observation?subject={who}&code={token}&_sort=-date",
        sql=f"SELECT id FROM ({_ALL_OBSERVED}) WHERE {_OF_CODE} ORDER BY time DESC",
        ordered=True,
    ),
    Kind(
        name="the latest Observation of a code",
        search="Observation?subject={who}&code={token}&_sort=-date&_count=1",
        sql=f"SELECT id FROM ({_ALL_OBSERVED}) WHERE {_OF_CODE} ORDER BY time DESC LIMIT 1",
    ),
    Kind(
        name="MedicationRequest by subject",
        search="MedicationRequest?subject={who}",
        sql="SELECT request_id FROM medication_requests",
    ),
    Kind(
        name="MedicationRequest by when it was written",
        search="MedicationRequest?subject={who}&authoredon=ge{since}&authoredon=lt{until}",
        sql="SELECT request_id FROM medication_requests "
        "WHERE authored_time >= '{since_here}' AND authored_time < '{until_here}'",
    ),
    Kind(
        name="MedicationAdministration by subject",
        search="MedicationAdministration?subject={who}",
        sql="SELECT administration_id FROM medication_administrations",
    ),
    Kind(
        name="MedicationAdministration by context",
        search="MedicationAdministration?context=Encounter/{encounter}",
        sql="SELECT administration_id FROM medication_administrations WHERE encounter_id = '{encounter}'",
    ),
    Kind(
        name="AllergyIntolerance by patient",
        search="AllergyIntolerance?patient={who}",
        sql="SELECT allergy_id FROM allergies",
    ),
    Kind(
        name="Immunization by patient",
        search="Immunization?patient={who}",
        sql="SELECT immunization_id FROM immunizations",
    ),
    Kind(name="Specimen by subject", search="Specimen?subject={who}", sql="SELECT specimen_id FROM specimens"),
    Kind(
        name="ImagingStudy by subject", search="ImagingStudy?subject={who}", sql="SELECT study_id FROM imaging_studies"
    ),
    Kind(
        name="DocumentReference by subject",
        search="DocumentReference?subject={who}",
        sql="SELECT document_id FROM documents",
    ),
)


def run_fhir_search(place: Place) -> Iterator[SuiteResult]:
    """Ask both the same, of some people."""
    tools = node_tools(place)
    store = Store.open(place.resource_store)
    people = [_Person.of(store, int(subject)) for subject in store.subjects[:_PEOPLE]]
    server, resources = _answers(tools, place, [one.search(kind) for kind in KINDS for one in people])
    scenarios = [_compared(kind, people, server) for kind in KINDS]
    scenarios += [Scenario(name=name, verdict="not applicable", why=why) for name, why in _NOT_ASKED.items()]
    yield SuiteResult(
        name="FHIR searches equal a server's",
        version=f"@medplum/fhir-router {tools.version('@medplum/fhir-router')}, FHIR R4",
        by=f"Medplum's router and memory, {resources:,} resources of {len(store.subjects)} people",
        scenarios=scenarios,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Person:
    """One person's chart, and what their searches are filled with."""

    chart: Environment
    filled: Mapping[str, str]

    @classmethod
    def of(cls, store: Store, subject: int) -> _Person:
        chart = Environment(store.chart(subject, _AFTER_EVERYTHING), max_result_tokens=10_000_000)
        key = str(store.subject_key(subject))
        code, system = _first_row(
            chart, "SELECT code, code_system FROM labs WHERE value IS NOT NULL GROUP BY 1, 2 ORDER BY count(*) DESC, 1"
        )
        times = _column(chart, "SELECT effective_time FROM labs ORDER BY effective_time")
        (encounter,) = _first_row(chart, "SELECT encounter_id FROM labs WHERE encounter_id IS NOT NULL")
        since, until = times[len(times) // 4], times[3 * len(times) // 4]
        return cls(
            chart=chart,
            filled={
                "key": key,
                "who": f"Patient/{key}",
                "code": code,
                "system": system,
                "token": quote(f"{_CODE_SYSTEMS}{system}|{code}"),
                "encounter": encounter,
                "since": quote(_instant(since)),
                "until": quote(_instant(until)),
                "since_here": since,
                "until_here": until,
            },
        )

    def search(self, kind: Kind) -> str:
        return kind.search.format(**self.filled)

    def rows(self, kind: Kind) -> Sequence[str]:
        return _column(self.chart, kind.sql.format(**self.filled))

    def times(self, ids: Sequence[str]) -> Sequence[str]:
        told = _column(self.chart, f"SELECT id, time FROM ({_ALL_OBSERVED})")
        by_id = dict(line.split(" | ", 1) for line in told)
        return [by_id.get(one, "") for one in ids]


def _compared(kind: Kind, people: Sequence[_Person], server: Mapping[str, Sequence[str]]) -> Scenario:
    """Compare one kind of search for everybody; in an ordered one, the times in order too: ties have none."""
    found = 0
    for one in people:
        theirs = [name.partition("/")[2] for name in server[one.search(kind)]]
        ours = one.rows(kind)
        found += len(theirs)
        same = one.times(theirs) == one.times(ours) if kind.ordered else True
        if not same or sorted(theirs) != sorted(ours):
            return Scenario(name=kind.name, verdict="failed", why=_difference(one.search(kind), ours, theirs))
    return Scenario(name=kind.name, verdict="passed", why=f"{found:,} resources in {len(people)} searches")


def _difference(search: str, ours: Sequence[str], theirs: Sequence[str]) -> str:
    missing, more = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
    return f"{search}: {len(theirs)} there, {len(ours)} here; not here {missing[:4]}, only here {more[:4]}"


def _answers(tools: NodeTools, place: Place, searches: Sequence[str]) -> tuple[Mapping[str, Sequence[str]], int]:
    """Have the server answer them all."""
    asked, answered = place.path("fhir-searches.json"), place.path("fhir-answers.json")
    answered.unlink(missing_ok=True)
    asked.write_text(json.dumps(sorted(set(searches))))
    done = tools.run(str(_SERVER), str(tools.modules), str(place.resources), str(asked), str(answered))
    if not answered.exists():
        raise RuntimeError(f"the server did not answer: {done.stderr.strip()[-400:]}")
    told = json.loads(answered.read_text())
    return told["found"], told["resources"]


def _first_row(chart: Environment, sql: str) -> Sequence[str]:
    return [cell.strip() for cell in _column(chart, sql)[0].split(" | ")]


def _column(chart: Environment, sql: str) -> Sequence[str]:
    """The lines of a result below its head, page after page."""
    lines: list[str] = []
    while len(lines) % _SQL_ROWS == 0:
        paged = f"SELECT * FROM ({sql}) LIMIT {_SQL_ROWS} OFFSET {len(lines)}"
        result = chart.call("run_sql_query", {"sql_query": paged})
        if result.is_error:
            raise RuntimeError(f"{sql}: {result.text}")
        page = result.text.splitlines()[2:]
        lines += page
        if not page:
            break
    return lines


def _instant(time: str) -> str:
    return f"{time.replace(' ', 'T')}{_OFFSET}"
