"""What an export of the same hospital would have held at an earlier moment: the clocks of FHIR told over resources.

Written from the page records/sources/fhir/clocks.md, not from the spec or the flattener, so that a fault in one shows
against the other. Lags are the defaults: a day for results, a week for cultures, none for coding.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from wardround.records.sources.fhir.values import codes_of, concept, moment, part, parts

Resource = dict[str, Any]
RESULT, CULTURE, STOP = timedelta(days=1), timedelta(days=7), timedelta(hours=1)
BEDSIDE = {"vital-signs", "exam", "social-history", "survey", "activity"}


def export_as_of(resources: Iterable[Resource], as_of: datetime) -> list[Resource]:
    """Return the resources that were there, without what was not known of them."""
    past = _Past({(each["resourceType"], each["id"]): each for each in resources}, as_of)
    left = [left for each in past.resources.values() if (left := past.left_of(each)) is not None]
    return [past.without_what_was_added(each) for each in left]


ADDED = {"note": "time", "reaction": "onset", "series": "started", "presentedForm": "creation"}
"""Elements whose parts have a time of their own, and its name."""


def _is_susceptibility(body: Resource) -> bool:
    return (concept(part(body, "code")).system or "").endswith("antibiotic")


class _Past:
    def __init__(self, resources: Mapping[tuple[str, str], Resource], as_of: datetime) -> None:
        self.resources = resources
        self.as_of = as_of

    def left_of(self, body: Resource) -> Resource | None:
        """Return what is left of a resource; None if it was not there."""
        rule = getattr(self, f"_{body['resourceType'].lower()}", None)
        return copy.deepcopy(body) if rule is None else rule(copy.deepcopy(body))

    def without_what_was_added(self, body: Resource) -> Resource:
        """Leave out the parts that say themselves that they came later, and an update that did."""
        for element, name in ADDED.items():
            body[element] = [item for item in parts(body, element) if self._is_dated_by_now(item, name)]
        body["content"] = [
            item for item in parts(body, "content") if self._is_dated_by_now(item["attachment"], "creation")
        ]
        if not self._passed(moment(part(body, "meta"), "lastUpdated")):
            body.pop("meta", None)
        return {name: element for name, element in body.items() if element != []}

    def _is_dated_by_now(self, item: Resource, name: str) -> bool:
        return name not in item or self._passed(moment(item, name))

    def _settled(self, body: Resource, names: Iterable[str], end: datetime | None = None) -> Resource:
        """Leave out state words that were not settled: by an end, if there is one, and by the last update."""
        updated = moment(part(body, "meta"), "lastUpdated")
        if end is not None:
            return self._without(body, names, max(end, updated or end))
        return self._without(body, names, updated)

    def _passed(self, when: datetime | None) -> bool:
        return when is not None and when <= self.as_of

    def _encounter_of(self, body: Resource) -> Resource:
        named = str(part(body, "encounter").get("reference", "")).partition("/")[2]
        return self.resources.get(("Encounter", named), {})

    def _end_of_encounter(self, body: Resource) -> datetime | None:
        found = self._encounter_of(body)
        end, start = self._over(found), moment(part(found, "period"), "start")
        return None if end is None else max(end, start or end)

    def _over(self, encounter: Resource) -> datetime | None:
        """Return when it was known that a stay had ended: one that ended in death not before the death."""
        end = moment(part(encounter, "period"), "end")
        ways = {code for _, code in concept(part(part(encounter, "hospitalization"), "dischargeDisposition")).codes}
        death = next(
            (moment(each, "deceasedDateTime") for (kind, _), each in self.resources.items() if kind == "Patient"), None
        )
        return max(end, death) if end and death and "exp" in ways else end

    def _patient(self, body: Resource) -> Resource:
        return self._without(body, ["deceasedDateTime"], moment(body, "deceasedDateTime"))

    def _without(self, body: Resource, names: Iterable[str], when: datetime | None) -> Resource:
        if not self._passed(when):
            for name in names:
                body.pop(name, None)
        return body

    def _encounter(self, body: Resource) -> Resource | None:
        period = body["period"]
        start, end = moment(period, "start"), self._over(body)
        if not self._passed(start or end):
            return None
        places = []
        for place in parts(body, "location"):
            inside = part(place, "period")
            came, left = moment(inside, "start"), moment(inside, "end")
            if self._passed(came or (end and max(end, start or end))):
                self._without(inside, ["end"], left)
                places.append(place)
        body["location"] = places
        self._settle_or_drop(body, ["status"], end)
        body["diagnosis"] = [item for item in parts(body, "diagnosis") if self._is_listed(part(item, "condition"))]
        if not self._passed(end):
            period.pop("end", None)
            body.pop("status", None)
            part(body, "hospitalization").pop("dischargeDisposition", None)
        return self._without(body, ["class", "diagnosis", "length", "reasonCode", "serviceType", "type"], end)

    def _is_listed(self, condition: Resource) -> bool:
        """Whether a diagnosis of an encounter may be named: its condition is there."""
        key = str(condition.get("reference", "")).partition("/")[2]
        return ("Condition", key) in self.resources and self._is_there("Condition", condition["reference"])

    def _condition(self, body: Resource) -> Resource | None:
        recorded, onset = moment(body, "recordedDate"), moment(body, "onsetDateTime")
        end = self._end_of_encounter(body)
        known = recorded or (end if "encounter-diagnosis" in codes_of(body, "category") else onset)
        if known is None or not self._passed(known) or not self._passed(onset or recorded or known):
            return None
        self._settled(body, ["verificationStatus"])
        return self._without(body, ["abatementDateTime", "clinicalStatus"], moment(body, "abatementDateTime"))

    def _observation(self, body: Resource) -> Resource | None:
        members = parts(body, "hasMember")
        body["hasMember"] = [item for item in members if self._is_there("Observation", item["reference"])]
        is_known = self._is_known(body)
        self._settled(body, ["status"])
        return body if is_known else None

    def _is_known(self, body: Resource) -> bool:
        """Whether an observation's result was there. What an amended one said before its last update nobody knows."""
        updated = moment(part(body, "meta"), "lastUpdated")
        if body.get("status") in ("amended", "corrected", "appended") and updated and not self._passed(updated):
            return False
        effective, issued = moment(body, "effectiveDateTime"), moment(body, "issued")
        groups = codes_of(body, "category")
        if effective is None or _is_susceptibility(body):
            lag = timedelta(0)
        elif "MB" in groups:
            lag = CULTURE
        elif groups & BEDSIDE and "laboratory" not in groups:
            lag = timedelta(0)
        else:
            lag = RESULT
        known = issued or (effective and effective + lag)
        member = next((item["reference"].partition("/")[2] for item in parts(body, "hasMember")), "")
        first = self.resources.get(("Observation", member), {})
        if issued is None and lag == CULTURE and _is_susceptibility(first):
            late = moment(first, "issued") or moment(first, "effectiveDateTime")
            known = max([each for each in (known, late, moment(first, "effectiveDateTime")) if each], default=None)
        return self._passed(known) and self._passed(effective or known)

    def _is_there(self, kind: str, reference: str) -> bool:
        found = self.resources.get((kind, reference.partition("/")[2]))
        if found is None or kind == "Observation":
            return found is not None and self._is_known(found)
        return self.left_of(found) is not None

    def _diagnosticreport(self, body: Resource) -> Resource | None:
        effective, issued = moment(body, "effectiveDateTime"), moment(body, "issued")
        known = issued or (effective and effective + (CULTURE if "MB" in codes_of(body, "category") else RESULT))
        body["result"] = [item for item in parts(body, "result") if self._is_there("Observation", item["reference"])]
        self._settled(body, ["status"])
        return body if known and self._passed(known) and self._passed(effective or known) else None

    def _procedure(self, body: Resource) -> Resource | None:
        period = part(body, "performedPeriod")
        at = moment(body, "performedDateTime")
        start, end = at or moment(period, "start"), at or moment(period, "end")
        known = start or end
        if concept(part(body, "code")).system in ("ICD9Proc", "ICD10PCS"):
            over = self._end_of_encounter(body)
            known = max(known, over) if known and over else None
        if not self._passed(known) or not self._passed(start or known):
            return None
        self._without(period, ["end"], end)
        self._settle_or_drop(body, ["status"], end if at is None and start else self._settled_at(body, at or end))
        return self._without(body, ["outcome", "complication"], end)

    def _settled_at(self, body: Resource, at: datetime | None) -> datetime | None:
        """Return when the status of what took no time was settled: at the end of its stay, if no update says."""
        if at is None or moment(part(body, "meta"), "lastUpdated"):
            return at
        over = self._end_of_encounter({"encounter": body.get("context") or body.get("encounter") or {}})
        return over and max(at, over)

    def _settle_or_drop(self, body: Resource, names: list[str], end: datetime | None) -> None:
        """Leave out what has an end that has not come, or none."""
        if end is None:
            self._without(body, names, None)
        self._settled(body, names, end)

    def _medicationrequest(self, body: Resource) -> Resource | None:
        if not self._passed(moment(body, "authoredOn")):
            return None
        validity = part(part(body, "dispenseRequest"), "validityPeriod")
        stop = moment(validity, "end")
        self._settle_or_drop(body, ["status"], stop and stop + STOP)
        if stop is None or not self._passed(stop + STOP):
            validity.pop("end", None)
        return body

    def _medicationadministration(self, body: Resource) -> Resource | None:
        period, at = part(body, "effectivePeriod"), moment(body, "effectiveDateTime")
        end = at or moment(period, "end")
        if not self._passed(at or moment(period, "start") or end):
            return None
        lasted = at is None and "start" in period
        self._settle_or_drop(body, ["status"], end if lasted else self._settled_at(body, end))
        self._without(period, ["end"], end)
        return self._without(body, ["dosage"], end)

    def _medicationdispense(self, body: Resource) -> Resource | None:
        handed, prepared = moment(body, "whenHandedOver"), moment(body, "whenPrepared")
        order = next((item["reference"] for item in parts(body, "authorizingPrescription")), "")
        if handed or prepared:
            known = self._passed(prepared or handed)
        else:
            over = self._end_of_encounter({"encounter": body.get("context") or body.get("encounter") or {}})
            ordered = self._is_there("MedicationRequest", order)
            known = body["status"] == "completed" and ordered and over is not None and self._passed(over)
        self._without(body, ["whenPrepared"], prepared)
        self._without(body, ["whenHandedOver"], handed)
        if handed or prepared:
            self._settle_or_drop(body, ["status"], self._settled_at(body, handed))
        return body if known else None

    def _medicationstatement(self, body: Resource) -> Resource | None:
        period = part(body, "effectivePeriod")
        end = moment(period, "end")
        if not self._passed(moment(body, "dateAsserted") or moment(period, "start") or end):
            return None
        self._without(period, ["end"], end)
        self._settle_or_drop(body, ["status"], end)
        return body

    def _immunization(self, body: Resource) -> Resource | None:
        given, recorded = moment(body, "occurrenceDateTime"), moment(body, "recorded")
        self._settled(body, ["status"])
        return body if self._passed(recorded or given) and self._passed(given or recorded) else None

    def _allergyintolerance(self, body: Resource) -> Resource | None:
        onset, recorded = moment(body, "onsetDateTime"), moment(body, "recordedDate")
        if not self._passed(recorded or onset) or not self._passed(onset or recorded):
            return None
        self._settled(body, ["verificationStatus"])
        return self._without(body, ["lastOccurrence"], moment(body, "lastOccurrence"))

    def _specimen(self, body: Resource) -> Resource | None:
        taken, received = moment(part(body, "collection"), "collectedDateTime"), moment(body, "receivedTime")
        return self._without(body, ["receivedTime"], received) if self._passed(taken or received) else None

    def _documentreference(self, body: Resource) -> Resource | None:
        period = part(part(body, "context"), "period")
        written, over = moment(body, "date"), moment(period, "end")
        if "start" in period and over is None:
            return None
        return body if self._passed(max([each for each in (written, over) if each], default=None)) else None

    def _imagingstudy(self, body: Resource) -> Resource | None:
        series = parts(body, "series")
        if series and not any(self._is_dated_by_now(item, "started") for item in series):
            body.pop("modality", None)  # the list of the series' modalities
        return body if self._passed(moment(body, "started")) else None
