"""The six plans: what to read in which order, and how an answer is made of what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wardround.models.offline.beliefs import Beliefs
from wardround.models.offline.conversation import Result
from wardround.models.offline.notes import Known, Note
from wardround.models.offline.plan import (
    PLACE,
    STAY,
    TABLES,
    Ask,
    Step,
    by_time,
    hour_of,
    names_found,
    number,
    rows_of,
    search_step,
    since,
    sql,
    stay_hours,
    tally,
    thinking,
    thoughts_on,
    together,
)
from wardround.models.offline.rules import load_rules, names


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to finish with."""

    labels: tuple[str, ...]
    evidence: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A task: how its candidate table is called, its steps, and its answer. ``answer`` takes a small shift of its
    threshold, so that repeated episodes with other seeds differ."""

    task: str
    steps: tuple[Step, ...]
    answer: Callable[[Known, float], Answer]


def _settled(beliefs: Beliefs, *, least: float, most: int, fewest: int = 1) -> Answer:
    labels = beliefs.best(least=least, most=most, fewest=fewest)
    evidence = {label: rows for label in labels if (rows := beliefs.rows(label))}
    return Answer(labels=tuple(labels), evidence=evidence)


def _believe_thoughts(known: Known, beliefs: Beliefs) -> None:
    named = names_found(known)
    for note in known.of("thought"):
        beliefs.add(named.get(note.value, note.value), note.amount, note.rows)


# Diagnoses


def _complaint(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for result in results:
        for row in result.rows:
            text = row.get("chiefcomplaint") or row.get("text") or ""
            rows = tuple(filter(None, [row.get("row_id")]))
            found += thoughts_on("diagnoses", "word", text, rows)
            if row.get("chiefcomplaint"):
                found.append(Note(kind="complaint", value=text, rows=rows))
    return found


def _abnormal(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for row in rows_of(results):
        total = max(number(row, "n", 1), 1)
        for direction in ("high", "low"):
            share = number(row, direction) / total
            if share >= 0.34:
                rows = tuple(filter(None, [row.get("row_id")]))
                found.append(
                    Note(kind="lab", value=f"{row.get('label', '')} {direction}", amount=round(share, 2), rows=rows)
                )
    return found


def _past(known: Known, beliefs: Beliefs) -> None:
    chronic, acute = names("diagnoses", "chronic"), names("diagnoses", "acute")
    for note in known.of("past"):
        label = note.value.lower()
        if any(word in label for word in acute):
            weight = 0.15
        elif any(word in label for word in chronic):
            weight = 0.75
        else:
            weight = 0.35
        beliefs.add(note.value, min(weight + 0.1 * (note.amount - 1), 0.9), note.rows)


def _by_age(known: Known) -> list[Note]:
    age = float(known.first("age", "60").rstrip("+"))
    return [
        Note(kind="thought", value=thought, amount=weight)
        for least, thought, weight in load_rules()["diagnoses"]["age"]
        if age >= least
    ]


def _diagnoses(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    _past(known, beliefs)
    known.add(_by_age(known))
    _believe_thoughts(known, beliefs)
    return _settled(beliefs, least=0.42 + shift, most=18, fewest=3)


_LABS_ABNORMAL = Step(
    name="abnormal results of this stay",
    ask=lambda known: (
        [
            sql(
                f"""SELECT label, COUNT(*) AS n, SUM(valuenum > ref_range_upper) AS high, SUM(valuenum < ref_range_lower) AS
            low, MAX(row_id) AS row_id FROM labevents WHERE charttime >= '{since(known)}' AND flag = 'abnormal'
            GROUP BY label ORDER BY n DESC LIMIT 60"""
            )
        ]
        if known.table("labevents")
        else []
    ),
    read=thinking(_abnormal, "diagnoses"),
    otherwise=lambda known: [
        Ask(
            tool="get_records_by_value",
            arguments={"table_name": "labevents", "column_name": "flag", "value": "abnormal"},
        )
    ],
)


def _counts(table: str, column: str, time: str, *, limit: int = 80, hours_before: float = 24, where: str = "") -> Step:
    """A step that counts the values of a column since the admission."""
    return Step(
        name=f"{table} of this stay",
        ask=lambda known: (
            [
                sql(
                    f"""SELECT {column}, COUNT(*) AS n, MAX(row_id) AS row_id FROM {table}
                WHERE {time} >= '{since(known, hours_before=hours_before)}' {where}
                GROUP BY {column} ORDER BY n DESC LIMIT {limit}"""
                )
            ]
            if known.table(table)
            else []
        ),
        read=lambda known, results: [],
        otherwise=lambda known: [by_time(table, since(known, hours_before=hours_before))],
    )


def _reading(step: Step, read: Callable[[Known, Sequence[Result]], list[Note]]) -> Step:
    return Step(name=step.name, ask=step.ask, read=read, otherwise=step.otherwise)


def _drugs(task: str) -> Step:
    return _reading(_counts("prescriptions", "drug", "starttime"), thinking(tally("drug", "drug", most=60), task))


def _care(task: str) -> Step:
    return _reading(_counts("procedureevents", "label", "starttime"), thinking(tally("care", "label"), task))


def _organisms(known: Known, results: Sequence[Result]) -> list[Note]:
    return [
        Note(kind="organism", value=f"{row.get('spec_type_desc', '')} {row.get('org_name', '')}", rows=(row["row_id"],))
        for row in rows_of(results)
        if row.get("org_name") and row.get("row_id")
    ]


DIAGNOSES = Plan(
    task="diagnoses",
    steps=(
        TABLES,
        STAY,
        PLACE,
        Step(
            name="why the patient came",
            ask=lambda known: [
                *([sql("SELECT row_id, substr(text, 1, 6000) AS text FROM admission_note ORDER BY row_id DESC LIMIT 1")]
                  if known.table("admission_note") else []),
                *([sql("SELECT row_id, chiefcomplaint FROM triage ORDER BY row_id DESC LIMIT 3")]
                  if known.table("triage") else []),
            ],
            read=_complaint,
            otherwise=lambda known: [Ask(tool="get_latest_records", arguments={"table_name": "admission_note"})],
        ),
        Step(
            name="diagnoses of earlier stays",
            ask=lambda known: [
                sql(
                    "SELECT ccs_label, COUNT(DISTINCT hadm_id) AS n, MAX(row_id) AS row_id FROM diagnoses_icd "
                    "WHERE ccs_label IS NOT NULL GROUP BY ccs_label ORDER BY n DESC, ccs_label LIMIT 60"
                )
            ] if known.table("diagnoses_icd") else [],
            read=tally("past", "ccs_label", most=60),
            otherwise=lambda known: [by_time("diagnoses_icd")],
        ),
        _LABS_ABNORMAL,
        _drugs("diagnoses"),
        Step(
            name="organisms found",
            ask=lambda known: [
                sql(
                    f"""SELECT spec_type_desc, org_name, MAX(row_id) AS row_id FROM microbiologyevents WHERE
                    charttime >= '{since(known)}' AND org_name IS NOT NULL GROUP BY spec_type_desc, org_name LIMIT 20"""
                )
            ] if known.table("microbiologyevents") else [],
            read=thinking(_organisms, "diagnoses"),
        ),
        _care("diagnoses"),
        search_step("diagnoses", always=lambda known: [note.value for note in _by_age(known)]),
    ),
    answer=_diagnoses,
)  # fmt: skip


# Laboratory tests


def _draws(known: Known, results: Sequence[Result]) -> list[Note]:
    """Labels with the share of draws they were part of; draws at this time of day count double."""
    found = []
    for row in rows_of(results):
        draws, near = max(number(row, "draws"), 1), number(row, "near_draws")
        share = number(row, "n") / draws
        if near >= 2:
            share = (share + 2 * number(row, "near") / near) / 3
        rows = tuple(filter(None, [row.get("row_id")]))
        found.append(Note(kind="lab", value=row.get("label", ""), amount=round(share, 3), rows=rows))
    return [note for note in found if note.value and note.amount >= 0.1]


def _draw_query(known: Known, start: str) -> Ask:
    near = f"MIN(ABS(strftime('%H', charttime) - {hour_of(known):.1f}), 24 - ABS(strftime('%H', charttime) - {hour_of(known):.1f})) <= 2"
    return sql(
        f"""SELECT label, COUNT(DISTINCT charttime) AS n, COUNT(DISTINCT CASE WHEN {near} THEN charttime END) AS near,
        (SELECT COUNT(DISTINCT charttime) FROM labevents WHERE charttime >= '{start}') AS draws,
        (SELECT COUNT(DISTINCT charttime) FROM labevents WHERE charttime >= '{start}' AND {near}) AS near_draws,
        MAX(row_id) AS row_id
        FROM labevents WHERE charttime >= '{start}' GROUP BY label ORDER BY n DESC LIMIT 70"""
    )


def _labevents(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    draws = known.of("lab")
    for note in draws:
        beliefs.add(note.value, note.amount, note.rows)
    if not draws or known.has("draws", "few"):
        for label in names("labevents", "panel"):
            beliefs.add(names_found(known).get(label, label), 0.5)
    return _settled(beliefs, least=0.3 + shift, most=45, fewest=4)


LABEVENTS = Plan(
    task="labevents",
    steps=(
        TABLES,
        STAY,
        PLACE,
        Step(
            name="draws of this stay",
            ask=lambda known: [_draw_query(known, since(known))] if known.table("labevents") else [],
            read=_draws,
            otherwise=lambda known: [by_time("labevents", since(known))],
        ),
        Step(
            name="draws of earlier stays",
            ask=lambda known: [_draw_query(known, "")] if known.table("labevents") and not known.of("lab") else [],
            read=_draws,
        ),
        search_step("labevents", always=lambda known: names("labevents", "panel")),
    ),
    answer=_labevents,
)


# Microbiology


def _cultures(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for row in rows_of(results):
        share = number(row, "n") / max(number(row, "draws"), 1)
        rows = tuple(filter(None, [row.get("row_id")]))
        found.append(Note(kind="test", value=row.get("test_name", ""), amount=round(share, 3), rows=rows))
    return [note for note in found if note.value]


def _microbiology(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("test"):
        beliefs.add(note.value, note.amount * 0.9, note.rows)
    _believe_thoughts(known, beliefs)
    return _settled(beliefs, least=0.3 + shift, most=4)


def _unit_thoughts(task: str) -> Step:
    """No call of its own: what units, services and the admission make one think of is read with PLACE."""
    read = thinking(PLACE.read, task)
    return _reading(PLACE, together(read, lambda known, results: _always(task)))


def _always(task: str) -> list[Note]:
    return [
        Note(kind="thought", value=thought, amount=weight) for thought, weight in load_rules()[task].get("always", [])
    ]


def _culture_query(start: str) -> Ask:
    return sql(
        f"""SELECT test_name, COUNT(DISTINCT charttime) AS n, MAX(row_id) AS row_id,
        (SELECT COUNT(DISTINCT charttime) FROM microbiologyevents WHERE charttime >= '{start}') AS draws
        FROM microbiologyevents WHERE charttime >= '{start}' GROUP BY test_name ORDER BY n DESC LIMIT 30"""
    )


MICROBIOLOGY = Plan(
    task="microbiology",
    steps=(
        TABLES,
        STAY,
        _unit_thoughts("microbiology"),
        Step(
            name="tests sent so far",
            ask=lambda known: [_culture_query("")] if known.table("microbiologyevents") else [],
            read=_cultures,
            otherwise=lambda known: [by_time("microbiologyevents")],
        ),
        _drugs("microbiology"),
        _reading(_LABS_ABNORMAL, thinking(_abnormal, "microbiology")),
        _care("microbiology"),
        search_step("microbiology"),
    ),
    answer=_microbiology,
)


# Prescriptions


def _ordered(known: Known, results: Sequence[Result]) -> list[Note]:
    found = []
    for row in rows_of(results):
        share = number(row, "n") / max(number(row, "draws"), 1)
        rows = tuple(filter(None, [row.get("row_id")]))
        name = row.get("atc_label") or row.get("drug") or ""
        found.append(Note(kind="ordered", value=name, amount=round(share, 3), rows=rows))
    return [note for note in found if note.value]


def _order_query(known: Known, start: str) -> Ask:
    column = "atc_label" if "atc" in known.space else "drug"
    return sql(
        f"""SELECT {column}, COUNT(DISTINCT starttime) AS n, MAX(row_id) AS row_id,
        (SELECT COUNT(DISTINCT starttime) FROM prescriptions WHERE starttime >= '{start}') AS draws
        FROM prescriptions WHERE starttime >= '{start}' AND {column} IS NOT NULL
        GROUP BY {column} ORDER BY n DESC LIMIT 60"""
    )


def _prescriptions(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    named = names_found(known)
    for note in known.of("ordered"):
        beliefs.add(named.get(note.value, note.value), note.amount, note.rows)
    _believe_thoughts(known, beliefs)
    return _settled(beliefs, least=0.2 + shift, most=10, fewest=2)


PRESCRIPTIONS = Plan(
    task="prescriptions",
    steps=(
        TABLES,
        STAY,
        _unit_thoughts("prescriptions"),
        Step(
            name="orders of this stay",
            ask=lambda known: (
                [_order_query(known, since(known, hours_before=12))] if known.table("prescriptions") else []
            ),
            read=_ordered,
            otherwise=lambda known: [by_time("prescriptions", since(known))],
        ),
        Step(
            name="orders of earlier stays",
            ask=lambda known: (
                [_order_query(known, "")] if known.table("prescriptions") and len(known.of("ordered")) < 10 else []
            ),
            read=_ordered,
        ),
        _reading(_LABS_ABNORMAL, thinking(_abnormal, "prescriptions")),
        search_step(
            "prescriptions", always=lambda known: [note.value for note in known.of("ordered") if note.amount >= 0.15]
        ),
    ),
    answer=_prescriptions,
)


# Procedures


def _procedures(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    for note in known.of("past"):
        repeats = any(word in note.value.lower() for word in names("procedures", "repeated"))
        beliefs.add(note.value, min((0.35 if repeats else 0.1) + 0.05 * (note.amount - 1), 0.7), note.rows)
    _believe_thoughts(known, beliefs)
    return _settled(beliefs, least=0.33 + shift, most=4)


PROCEDURES = Plan(
    task="procedures",
    steps=(
        TABLES,
        STAY,
        _unit_thoughts("procedures"),
        Step(
            name="procedures of earlier stays",
            ask=lambda known: (
                [
                    sql(
                        "SELECT ccs_label, COUNT(*) AS n, MAX(row_id) AS row_id FROM procedures_icd WHERE ccs_label IS NOT "
                        "NULL GROUP BY ccs_label ORDER BY n DESC, ccs_label LIMIT 40"
                    )
                ]
                if known.table("procedures_icd")
                else []
            ),
            read=tally("past", "ccs_label"),
            otherwise=lambda known: [by_time("procedures_icd")],
        ),
        Step(
            name="why the patient came",
            ask=DIAGNOSES.steps[3].ask,
            read=lambda known, results: [
                note
                for result in results
                for row in result.rows
                for note in thoughts_on(
                    "procedures",
                    "word",
                    row.get("chiefcomplaint") or row.get("text") or "",
                    tuple(filter(None, [row.get("row_id")])),
                )
            ],
        ),
        _care("procedures"),
        _drugs("procedures"),
        _reading(_LABS_ABNORMAL, thinking(_abnormal, "procedures")),
        search_step("procedures"),
    ),
    answer=_procedures,
)


# Transfers


def _transfers(known: Known, shift: float) -> Answer:
    beliefs = Beliefs()
    named = names_found(known)
    units = [note.value for note in known.of("unit")]
    service = known.first("service")
    here = units[0] if units else ""
    hours = stay_hours(known)
    for pattern_unit, pattern_service, target, weight in load_rules()["transfers"]["next"]:
        if pattern_unit in (here, "*") and pattern_service in (service, "*"):
            beliefs.add(named.get(target, target), weight)
    for note in known.of("unit")[:1]:
        beliefs.add(note.value, 0.3 if hours > 12 else 0.05, note.rows)
    _believe_thoughts(known, beliefs)
    return _settled(beliefs, least=1.1, most=1)


TRANSFERS = Plan(
    task="transfers",
    steps=(
        TABLES,
        STAY,
        PLACE,
        Step(
            name="how ill the patient came",
            ask=lambda known: (
                [sql("SELECT row_id, acuity, chiefcomplaint FROM triage ORDER BY row_id DESC LIMIT 1")]
                if known.table("triage")
                else []
            ),
            read=together(tally("acuity", "acuity"), thinking(tally("complaint", "chiefcomplaint"), "transfers")),
        ),
        Step(
            name="units of earlier stays",
            ask=lambda known: (
                [
                    sql(
                        "SELECT careunit, COUNT(*) AS n, MAX(row_id) AS row_id FROM transfers WHERE careunit IS NOT NULL "
                        "GROUP BY careunit ORDER BY n DESC LIMIT 12"
                    )
                ]
                if known.table("transfers")
                else []
            ),
            read=tally("before", "careunit"),
        ),
        _care("transfers"),
        search_step(
            "transfers",
            always=lambda known: sorted({target for _, _, target, _ in load_rules()["transfers"]["next"]}),
        ),
    ),
    answer=_transfers,
)

PLANS = {plan.task: plan for plan in (DIAGNOSES, LABEVENTS, MICROBIOLOGY, PRESCRIPTIONS, PROCEDURES, TRANSFERS)}


def plan_for(space: str) -> Plan:
    """Return the plan for a candidate table, by how its name begins; diagnoses if it is none of the six."""
    return next((plan for task, plan in PLANS.items() if space.startswith(task)), DIAGNOSES)
