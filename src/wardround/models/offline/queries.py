"""The SQL of the plans, one function per question. Every statement gives ``row_id``: what it found can be cited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One tool call to make."""

    tool: str
    arguments: Mapping[str, Any]


def sql(query: str) -> Ask:
    """A SQL call."""
    return Ask(tool="run_sql_query", arguments={"sql_query": " ".join(query.split())})


def by_time(table: str, start: str = "") -> Ask:
    """The rows of a table from a time on, without SQL."""
    return Ask(tool="get_records_by_time", arguments={"table_name": table, "start_time": start})


def latest(table: str) -> Ask:
    """The latest rows of a table, without SQL."""
    return Ask(tool="get_latest_records", arguments={"table_name": table})


def last_admission() -> Ask:
    """The stay that is going on."""
    return sql(
        """SELECT row_id, hadm_id, admittime, admission_type, admission_location
        FROM admissions ORDER BY admittime DESC LIMIT 1"""
    )


def last_units() -> Ask:
    """Where the patient was, last place first."""
    return sql("SELECT row_id, careunit, eventtype, intime FROM transfers ORDER BY intime DESC LIMIT 8")


def last_services() -> Ask:
    """Who was in charge, in the columns of ``last_units``."""
    return sql(
        """SELECT row_id, curr_service AS careunit, 'service' AS eventtype, transfertime AS intime
        FROM services ORDER BY transfertime DESC LIMIT 3"""
    )


def admission_note() -> Ask:
    """The latest admission note's text, as far as a result holds it."""
    return sql("SELECT row_id, substr(text, 1, 6000) AS text FROM admission_note ORDER BY row_id DESC LIMIT 1")


def complaints() -> Ask:
    """What triage noted."""
    return sql("SELECT row_id, acuity, chiefcomplaint FROM triage ORDER BY row_id DESC LIMIT 3")


def past_groups(table: str, amount: str) -> Ask:
    """CCS groups of earlier stays, the most frequent first."""
    return sql(
        f"""SELECT ccs_label, {amount} AS n, MAX(row_id) AS row_id FROM {table}
        WHERE ccs_label IS NOT NULL GROUP BY ccs_label ORDER BY n DESC, ccs_label LIMIT 60"""
    )


def counts(table: str, column: str, time: str, start: str = "") -> Ask:
    """How often each value of a column occurs from a time on."""
    return sql(
        f"""SELECT {column}, COUNT(*) AS n, MAX(row_id) AS row_id FROM {table}
        WHERE {time} >= '{start}' GROUP BY {column} ORDER BY n DESC, {column} LIMIT 80"""
    )


def abnormal_labs(start: str) -> Ask:
    """Flagged results by test, and to which side."""
    return sql(
        f"""SELECT label, COUNT(*) AS n, SUM(valuenum > ref_range_upper) AS high,
        SUM(valuenum < ref_range_lower) AS low, MAX(row_id) AS row_id
        FROM labevents WHERE charttime >= '{start}' AND flag = 'abnormal'
        GROUP BY label ORDER BY n DESC, label LIMIT 60"""
    )


def organisms(start: str) -> Ask:
    """What grew."""
    return sql(
        f"""SELECT spec_type_desc, org_name, MAX(row_id) AS row_id FROM microbiologyevents
        WHERE charttime >= '{start}' AND org_name IS NOT NULL GROUP BY spec_type_desc, org_name LIMIT 20"""
    )


def shares(table: str, column: str, time: str, start: str, *, hour: float | None = None) -> Ask:
    """In how many of the moments of a table each value occurs; with ``hour``, also among those at that time of day."""
    near = "0" if hour is None else f"MIN({_apart(time, hour)}, 24 - {_apart(time, hour)}) <= 2"
    return sql(
        f"""SELECT {column}, COUNT(DISTINCT {time}) AS n, COUNT(DISTINCT CASE WHEN {near} THEN {time} END) AS near,
        (SELECT COUNT(DISTINCT {time}) FROM {table} WHERE {time} >= '{start}') AS draws,
        (SELECT COUNT(DISTINCT {time}) FROM {table} WHERE {time} >= '{start}' AND {near}) AS near_draws,
        MAX(row_id) AS row_id
        FROM {table} WHERE {time} >= '{start}' AND {column} IS NOT NULL
        GROUP BY {column} ORDER BY n DESC, {column} LIMIT 70"""
    )


def _apart(time: str, hour: float) -> str:
    return f"ABS(strftime('%H', {time}) - {hour:.1f})"
