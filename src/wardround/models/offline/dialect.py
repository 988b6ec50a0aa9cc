"""The plans ask in MIMIC-IV's names. On records of MIMIC-III the same statements are asked in its names."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from wardround.models.offline.queries import Ask

MIMICIII = "mimiciii"
_MARK = "noteevents"
"""A table that MIMIC-III has and MIMIC-IV has not."""
_TABLES = {"procedureevents": "procedureevents_mv"}
_RENAMED = {
    "transfers": "SELECT *, curr_careunit AS careunit FROM transfers",
    "prescriptions": "SELECT *, startdate AS starttime FROM prescriptions",
    "microbiologyevents": "SELECT *, spec_type_desc AS test_name FROM microbiologyevents",
    "labevents": "SELECT *, NULL AS ref_range_lower, NULL AS ref_range_upper FROM labevents",
    "procedureevents": "SELECT * FROM procedureevents_mv",
}
_FROM = re.compile(rf"\bFROM ({'|'.join(_RENAMED)})\b")


def dialect_of(tables: Collection[str]) -> str:
    """Return whose names the chart's tables have; empty for MIMIC-IV's."""
    return MIMICIII if _MARK in tables else ""


def with_aliases(tables: Collection[str]) -> list[str]:
    """Return the tables, with the name that the plans know for each that has another."""
    return [*tables, *(ours for ours, theirs in _TABLES.items() if theirs in tables)]


def translated(ask: Ask, dialect: str) -> Ask:
    """Return the call in the names of a dialect."""
    query = ask.arguments.get("sql_query")
    if dialect != MIMICIII or not isinstance(query, str):
        return ask
    text = _FROM.sub(lambda found: f"FROM ({_RENAMED[found[1]]}) AS {found[1]}", query)
    return replace(ask, arguments={**ask.arguments, "sql_query": text})
