"""Rules, corrections and traps planted into a synthetic hospital."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypedDict, cast

from wardround.clinical.protocols.conditions import AtValue
from wardround.clinical.protocols.index import CompiledRule, compile_rule
from wardround.clinical.protocols.rules import GlobalProtocol
from wardround.core import UserError, derive_seed
from wardround.synth.dialects.source import HospitalTables, Row, copy_csv, later, midnight, moment, write_csv

# MIMIC-IV's tables have no versions, so that they lie in a table of their own, which a form with versions writes out.


CORRECTED_AFTER = timedelta(minutes=130)
"""The delay from a result to its planted correction."""
_RANGE = 2**63


def drawn_corrections(
    stay: Row, results: Sequence[Row], meets: Callable[[float], bool], *, value: float, share: float, seed: str
) -> Iterator[Row]:
    """Yield corrections of a share of the results of one test that meet a rule, each before the next sample is drawn:
    the result, its corrected value, and since when."""
    for row, after in zip(results, [*results[1:], None], strict=True):
        known = moment(row["storetime"]) + CORRECTED_AFTER
        ends = stay["outtime"] if after is None else min(stay["outtime"], after["charttime"], after["storetime"])
        fits = stay["intime"] <= row["storetime"] and row["charttime"] <= row["storetime"]
        if not (fits and meets(float(row["valuenum"])) and known < moment(ends)):
            continue
        if derive_seed(seed, row["labevent_id"], "correction") / _RANGE < share:
            yield {"labevent_id": row["labevent_id"], "valuenum": f"{value:g}", "storetime": str(known)}


# Rules planted into a synthetic hospital: after a result that meets a condition, an action follows at a known rate.
#
# A copy of the hospital is written with rows added: the order, test or procedure in the hour after the result was
# known, and ``planted.json``, which says of every planted row which rule it obeys, when an action was forbidden, and
# when a result no longer met the rule that the one before it had met (a flip): for scoring, never for an agent. Flips
# occur without planting; if a share of them is requested, results that turn the evidence are planted too.


KEY = "planted.json"
_PLANTED_RANGE = 2**63
_TABLES = ("poe", "pharmacy", "prescriptions", "labevents", "procedureevents")
_GIVEN = timedelta(hours=6)
"""How long a planted drug runs."""
_FORBIDDEN_FOR = timedelta(hours=24)
"""How long a result forbids an action."""
_TURNED_AFTER, _REPORTED_AFTER = timedelta(minutes=70), timedelta(minutes=20)
"""The delays of a planted flip: from the availability of the turned result to the sample, and to its report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRule:
    """After ``lab`` above or below a threshold, an action follows in a share ``rate`` of the cases, at most once in
    ``rest_hours``. While a result meets ``forbidden`` (lab, relation, threshold) of the last day it never does."""

    id: str
    lab: str
    relation: Literal[">", "<"]
    threshold: float
    verb: Literal["start", "order", "perform"]
    name: str
    rate: float
    rest_hours: float = 12.0
    forbidden: tuple[tuple[str, Literal[">", "<"], float], ...] = ()

    def holds(self, value: float) -> bool:
        """Return whether a result meets the condition."""
        return _meets(value, self.relation, self.threshold)


@dataclass(slots=True, kw_only=True)
class _Planted:
    """Rows that are added, by table, and the key of them."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in _TABLES})
    key: list[dict[str, str]] = field(default_factory=list)
    forbidden: list[dict[str, str]] = field(default_factory=list)
    flips: list[dict[str, str]] = field(default_factory=list)
    turned: set[str] = field(default_factory=set)
    corrected: dict[str, Row] = field(default_factory=dict)
    number: int = 0


def plant_rules(
    hospital: Path,
    folder: Path,
    rules: Sequence[PlantedRule],
    *,
    seed: int = 0,
    flips: float = 0.0,
    corrections: float = 0.0,
) -> int:
    """Write a copy of a hospital, in plain CSV files, with rules planted; return how many rows obey one. ``flips``: the
    share of results that meet a rule after which another result no longer does; ``corrections``: the share of them that
    are corrected and then do not, of tests that forbid nothing.

    The same seed, hospital and rules give the same rows. UserError: a lab, drug or procedure that the hospital has not.
    """
    source = HospitalTables(hospital)
    names = _Names.of(source)
    for rule in rules:
        names.check(rule)
    planted = _Planted()
    stays = [row for row in source.rows("icustays") if row["outtime"]]
    labs = _results_by_stay(source)
    for stay in stays if flips else ():
        for rule in rules:
            _plant_flips(stay, labs.get(stay["hadm_id"], []), rule, names, planted, seed=seed, share=flips)
    forbidding = {lab.lower() for rule in rules for lab, _, _ in rule.forbidden}
    for stay in stays if corrections else ():
        for rule in rules:
            if rule.lab.lower() not in forbidding:
                _plant_corrections(
                    stay, labs.get(stay["hadm_id"], []), rule, names, planted, seed=seed, share=corrections
                )
    for stay in stays:
        inside = [row for row in labs.get(stay["hadm_id"], []) if stay["intime"] <= row["storetime"] < stay["outtime"]]
        _plant_stay(stay, labs.get(stay["hadm_id"], []), rules, names, planted, seed)
        for rule in rules:
            planted.forbidden += _forbidden_times(stay, inside, rule, names)
            planted.flips += _flips(stay, inside, rule, names, planted)
    for path in sorted(hospital.glob("*/*.csv*")):
        table = path.name.partition(".")[0]
        copy, added = folder / path.parent.name / f"{table}.csv", planted.rows.get(table, ())
        if added:
            rows = [*source.rows(table), *added]
            write_csv(copy, rows, list(rows[0]))
        else:
            copy_csv(path, copy)
    if planted.corrected:
        corrected = list(planted.corrected.values())
        write_csv(folder / "hosp" / "corrections.csv", corrected, list(corrected[0]))
    key = {"rules": [rule.id for rule in rules], "rows": planted.key}
    text = json.dumps(key | {"forbidden": planted.forbidden, "flips": planted.flips}, indent=1)
    (folder / KEY).write_text(text + "\n", encoding="utf-8")
    return len(planted.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What the hospital's dictionaries know, by name, and one order of each drug to copy."""

    labs: Mapping[str, str]
    items: Mapping[str, str]
    orders: Mapping[str, tuple[Row, Row]]

    @classmethod
    def of(cls, source: HospitalTables) -> _Names:
        pharmacy = {row["pharmacy_id"]: row for row in source.rows("pharmacy")}
        orders: dict[str, tuple[Row, Row]] = {}
        for row in source.rows("prescriptions"):
            if row["pharmacy_id"] in pharmacy:
                orders.setdefault(row["drug"].lower(), (row, pharmacy[row["pharmacy_id"]]))
        return cls(
            labs={row["label"].lower(): row["itemid"] for row in source.rows("d_labitems") if row["fluid"] == "Blood"},
            items={row["label"].lower(): row["itemid"] for row in source.rows("d_items")},
            orders=orders,
        )

    def check(self, rule: PlantedRule) -> None:
        """Raise UserError for an unknown name."""
        known = {"start": self.orders, "order": self.labs, "perform": self.items}[rule.verb]
        missing = [lab for lab in (rule.lab, *(lab for lab, _, _ in rule.forbidden)) if lab.lower() not in self.labs]
        if rule.name.lower() not in known:
            missing.append(rule.name)
        if missing:
            raise UserError(f"planted rule {rule.id!r}: this hospital knows no {missing[0]!r}; more patients may")


def _results_by_stay(source: HospitalTables) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in source.rows("labevents"):
        if row["valuenum"] and row["storetime"]:
            found.setdefault(row["hadm_id"], []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["storetime"], row["labevent_id"]))
    return found


def _plant_stay(
    stay: Row, results: Sequence[Row], rules: Sequence[PlantedRule], names: _Names, planted: _Planted, seed: int
) -> None:
    for rule in rules:
        rested: datetime | None = None
        for row in _cases(stay, results, rule, names):
            known = max(moment(row["storetime"]), moment(row["charttime"]))
            if rested is not None and known < rested:
                continue
            if derive_seed(seed, rule.id, row["labevent_id"]) / _PLANTED_RANGE >= rule.rate:
                continue
            minutes = 5 + derive_seed(seed, rule.id, row["labevent_id"], "minute") % 45
            when = known.replace(minute=0, second=0) + timedelta(hours=1, minutes=minutes)
            if when < moment(stay["outtime"]):
                _add(stay, rule, when, names, planted)
                rested = when + timedelta(hours=rule.rest_hours)


def _cases(stay: Row, results: Sequence[Row], rule: PlantedRule, names: _Names) -> Iterator[Row]:
    """Yield the results of a stay in intensive care after which a rule's action may follow."""
    item = names.labs[rule.lab.lower()]
    for row in results:
        inside = stay["intime"] <= row["storetime"] < stay["outtime"]
        if not (inside and row["itemid"] == item and rule.holds(float(row["valuenum"]))):
            continue
        against = [(names.labs[lab.lower()], how, bound) for lab, how, bound in rule.forbidden]
        if not any(_is_forbidden(row, results, *one) for one in against):
            yield row


def _plant_flips(
    stay: Row, results: list[Row], rule: PlantedRule, names: _Names, planted: _Planted, *, seed: int, share: float
) -> None:
    """Add results that turn the evidence of a rule, each before the next sample of its kind."""
    own = _of_lab(results, names.labs[rule.lab.lower()])
    for row, after in zip(own, [*own[1:], None], strict=True):
        when = moment(row["storetime"]) + _TURNED_AFTER
        ends = stay["outtime"] if after is None else min(stay["outtime"], after["charttime"], after["storetime"])
        fits = stay["intime"] <= row["storetime"] and row["charttime"] <= row["storetime"]
        if not (fits and rule.holds(float(row["valuenum"])) and when + _REPORTED_AFTER < moment(ends)):
            continue
        if derive_seed(seed, rule.id, row["labevent_id"], "flip") / _PLANTED_RANGE < share:
            results.append(_turned(row, rule, when, planted))
    results.sort(key=lambda row: (row["storetime"], row["labevent_id"]))


def _plant_corrections(
    stay: Row, results: Sequence[Row], rule: PlantedRule, names: _Names, planted: _Planted, *, seed: int, share: float
) -> None:
    """Correct results that meet a rule to its threshold, which does not meet it. The first correction of a result is
    final."""
    own = _of_lab(results, names.labs[rule.lab.lower()])
    drawn = drawn_corrections(stay, own, rule.holds, value=rule.threshold, share=share, seed=f"{seed}|{rule.id}")
    for correction in drawn:
        planted.corrected.setdefault(correction["labevent_id"], correction)


def _turned(row: Row, rule: PlantedRule, when: datetime, planted: _Planted) -> Row:
    """Plant a result at the threshold, which does not meet the rule."""
    planted.number += 1
    number, value = str(900_000_000_000 + planted.number), f"{rule.threshold:g}"
    named = {"labevent_id": number, "specimen_id": number, "valuenum": value, "value": value, "flag": ""}
    turned = row | named | {"charttime": str(when), "storetime": str(when + _REPORTED_AFTER)}
    planted.rows["labevents"].append(turned)
    planted.turned.add(number)
    return turned


def _forbidden_times(stay: Row, results: Sequence[Row], rule: PlantedRule, names: _Names) -> Iterator[dict[str, str]]:
    """Yield when a rule's action is forbidden: a day from each result that forbids it."""
    for lab, how, bound in rule.forbidden:
        for row in _of_lab(results, names.labs[lab.lower()]):
            if _meets(float(row["valuenum"]), how, bound):
                ends = str(moment(row["storetime"]) + _FORBIDDEN_FOR)
                yield _flip_row(stay, rule) | {"from": row["storetime"], "to": ends}


def _flips(
    stay: Row, results: Sequence[Row], rule: PlantedRule, names: _Names, planted: _Planted
) -> Iterator[dict[str, str]]:
    """Yield when a result became available that no longer meets a rule which the previous result met, until when
    nothing else was measured, and whether it was planted. An earlier sample that is reported later turns nothing."""
    own = _of_lab(results, names.labs[rule.lab.lower()])
    ends = [*(row["storetime"] for row in own[1:]), stay["outtime"]]
    for row, until in zip(own, ends, strict=True):
        correction = planted.corrected.get(row["labevent_id"])
        if correction and rule.holds(float(row["valuenum"])) and not rule.holds(float(correction["valuenum"])):
            yield _flip_row(stay, rule) | {"known": correction["storetime"], "until": until, "by": "corrected"}
    for (before, after), until in zip(pairwise(own), ends[1:], strict=True):
        in_order = before["charttime"] <= after["charttime"]
        read = planted.corrected.get(before["labevent_id"], before)["valuenum"]
        if in_order and rule.holds(float(read)) and not rule.holds(float(after["valuenum"])):
            by = "planted" if after["labevent_id"] in planted.turned else "itself"
            yield _flip_row(stay, rule) | {
                "known": max(after["storetime"], after["charttime"]),
                "until": until,
                "by": by,
            }


def _of_lab(results: Sequence[Row], item: str) -> list[Row]:
    return [row for row in results if row["itemid"] == item]


def _flip_row(stay: Row, rule: PlantedRule) -> dict[str, str]:
    return {"rule": rule.id, "name": rule.name, "subject_id": stay["subject_id"], "stay_id": stay["stay_id"]}


def _is_forbidden(row: Row, results: Sequence[Row], item: str, how: str, bound: float) -> bool:
    day_before = str(moment(row["storetime"]) - _FORBIDDEN_FOR)
    recent = (
        result
        for result in results
        if result["itemid"] == item and day_before <= result["storetime"] <= row["storetime"]
    )
    return any(_meets(float(one["valuenum"]), how, bound) for one in recent)


def _meets(value: float, relation: str, threshold: float) -> bool:
    return value > threshold if relation == ">" else value < threshold


def _orders(who: Row, order: str, start: str, stop: str) -> list[Row]:
    """Return the order of a drug and the one that stops it."""
    kind = {"order_type": "Medications", "order_status": "Inactive"}
    sequence, ending = order.rpartition("-")[2], f"{order}9"
    new = {"poe_id": order, "poe_seq": sequence, "ordertime": start, "transaction_type": "New"}
    end = {"poe_id": ending, "poe_seq": f"{sequence}9", "ordertime": stop, "transaction_type": "D/C"}
    return [who | kind | new | {"discontinued_by_poe_id": ending}, who | kind | end | {"discontinue_of_poe_id": order}]


def _add(stay: Row, rule: PlantedRule, when: datetime, names: _Names, planted: _Planted) -> None:
    planted.number += 1
    who = {"subject_id": stay["subject_id"], "hadm_id": stay["hadm_id"]}
    start, number = str(when), str(900_000_000_000 + planted.number)
    if rule.verb == "start":
        prescription, pharmacy = names.orders[rule.name.lower()]
        order, stop = f"{stay['subject_id']}-{900_000 + planted.number}", str(when + _GIVEN)
        link = who | {"pharmacy_id": number, "poe_id": order, "starttime": start, "stoptime": stop}
        planted.rows["pharmacy"].append(pharmacy | link | {"entertime": start, "verifiedtime": start})
        planted.rows["prescriptions"].append(prescription | link | {"poe_seq": str(900_000 + planted.number)})
        planted.rows["poe"] += _orders(who, order, start, stop)
    elif rule.verb == "order":
        result = {"labevent_id": number, "specimen_id": number, "itemid": names.labs[rule.name.lower()]}
        known = {"charttime": start, "storetime": str(when + timedelta(minutes=40)), "valuenum": "1", "value": "1"}
        planted.rows["labevents"].append(who | result | known)
    else:
        done = {"stay_id": stay["stay_id"], "itemid": names.items[rule.name.lower()], "orderid": number}
        times = {"starttime": start, "endtime": str(when + timedelta(minutes=1)), "storetime": start, "value": "1"}
        planted.rows["procedureevents"].append(who | done | times | {"linkorderid": number, "valueuom": "None"})
    planted.key.append({"rule": rule.id, "subject_id": stay["subject_id"], "stay_id": stay["stay_id"], "time": start})


# A protocol as rules to plant: each obeyed as often as its precision says.


_VERBS = ("start", "order", "perform")


def planted_rules(protocol: GlobalProtocol) -> tuple[PlantedRule, ...]:
    """Return the rules to plant, one for each action; rules that say ``avoid`` forbid the others' actions while they
    hold. UserError: a trigger that is not one laboratory value above or below a number."""
    compiled = [compile_rule(rule) for rule in protocol.rules]
    avoided = [one for one in compiled if any(action.verb == "avoid" for action in one.actions)]
    return tuple(
        PlantedRule(
            id=one.rule.id,
            **_condition(one),
            verb=cast(Literal["start", "order", "perform"], action.verb),
            name=action.name,
            rate=1.0 if one.rule.precision is None else one.rule.precision,
            forbidden=tuple(_forbids(other) for other in avoided if _avoids(other, action.name)),
        )
        for one in compiled
        for action in one.actions
        if action.verb in _VERBS
    )


def _avoids(rule: CompiledRule, name: str) -> bool:
    return any(action.verb == "avoid" and action.names(name) for action in rule.actions)


def _forbids(rule: CompiledRule) -> tuple[str, Literal[">", "<"], float]:
    condition = _condition(rule)
    return condition["lab"], condition["relation"], condition["threshold"]


class _Condition(TypedDict):
    lab: str
    relation: Literal[">", "<"]
    threshold: float


def _condition(rule: CompiledRule) -> _Condition:
    node = rule.trigger.node
    if not isinstance(node, AtValue) or node.relation not in (">", "<"):
        raise UserError(f"rule {rule.rule.id!r} cannot be planted: its trigger must be one test, such as 'Lactate > 2'")
    return {"lab": node.concept, "relation": node.relation, "threshold": node.threshold}


# Traps: records that reveal the future to a careless reader. Each kind occurs in real data: a discharge at the midnight
# before the death, stop times that are rounded or planned, statuses without a stop, final rates. The writers of the
# other forms add the traps of their sources.


_SEVENTH = 7


def plant_traps(hospital: Path, folder: Path) -> Path:
    """Write a copy of a hospital, in plain CSV files, with the traps planted."""
    source = HospitalTables(hospital)
    changed = {
        **_trapped_deaths(source),
        **_trapped_drug_orders(source),
        "inputevents": [  # the rate as it came out, not as it was set
            row | {"rate": f"{float(row['rate']) * 1.31:.3f}"} if row["rate"] else row
            for row in source.rows("inputevents")
        ],
        "hcpcsevents": _early_services(source),
    }
    for path in sorted(hospital.glob("*/*.csv*")):
        table = path.name.partition(".")[0]
        before = source.rows(table)
        header = list(before[0]) if before else ["subject_id"]
        write_csv(folder / path.parent.name / f"{table}.csv", changed.get(table, before), header)
    return folder


def _trapped_deaths(source: HospitalTables) -> Mapping[str, list[Row]]:
    """Let every fifth person die in the last stay; every other of them leaves at the midnight before."""
    last: dict[str, Row] = {}
    for row in source.rows("admissions"):
        if row["subject_id"] not in last or row["admittime"] > last[row["subject_id"]]["admittime"]:
            last[row["subject_id"]] = row
    dying = {row["hadm_id"] for place, row in enumerate(last.values()) if place % 5 == 2 or row["deathtime"]}
    died: dict[str, str] = {}
    admissions = []
    for row in source.rows("admissions"):
        if row["hadm_id"] not in dying:
            admissions.append(row)
            continue
        death = row["deathtime"] or row["dischtime"]
        before = midnight(death)
        leaves = before if before > row["admittime"] and len(died) % 2 == 0 else row["dischtime"]
        died[row["subject_id"]] = death
        ending = {"deathtime": death, "dischtime": leaves, "discharge_location": "DIED", "hospital_expire_flag": "1"}
        admissions.append(row | ending)
    patients = [
        row | {"dod": died[row["subject_id"]][:10]} if row["subject_id"] in died else row
        for row in source.rows("patients")
    ]
    return {"admissions": admissions, "patients": patients}


def _trapped_drug_orders(source: HospitalTables) -> Mapping[str, list[Row]]:
    """Plan some stops long before the order that really stops the drug, and leave some drugs without a stop."""
    stopped = {row["poe_id"]: row["discontinued_by_poe_id"] for row in source.rows("poe")}
    ordered = {row["poe_id"]: row["ordertime"] for row in source.rows("poe")}
    stops: dict[str, str] = {}
    pharmacy = []
    for place, row in enumerate(source.rows("pharmacy")):
        stop = row["stoptime"]
        by = ordered.get(stopped.get(row["poe_id"], ""), "")
        if stop and by and place % 2 == 0:
            early = later(row["starttime"], hours=2)
            stop = f"{early[:13]}:00:00" if moment(early) < moment(by) else stop
        elif place % _SEVENTH == 3:
            stop = ""
        stops[row["pharmacy_id"]] = stop
        pharmacy.append(row | {"stoptime": stop})
    prescriptions = [
        row | {"stoptime": stops.get(row["pharmacy_id"], row["stoptime"])} for row in source.rows("prescriptions")
    ]
    return {"pharmacy": pharmacy, "prescriptions": prescriptions}


def _early_services(source: HospitalTables) -> list[Row]:
    """Bill a service on the day of admission in every third stay."""
    made = list(source.rows("hcpcsevents"))
    stays_with_service = {row["hadm_id"] for row in made}
    for row in list(source.rows("admissions"))[::3]:
        if row["hadm_id"] not in stays_with_service:
            day = {"chartdate": row["admittime"][:10], "hcpcs_cd": "G0378", "seq_num": "1"}
            service = {"short_description": "Hospital observation per hr"}
            made.append({"subject_id": row["subject_id"], "hadm_id": row["hadm_id"]} | day | service)
    return made
