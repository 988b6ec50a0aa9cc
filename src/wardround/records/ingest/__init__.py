"""Ingest: rows are distributed over buckets, then each bucket becomes a shard with clocks, row ids and labels."""

from wardround.records.ingest.clocks import ClockSettings, ShardClocks, rule_columns
from wardround.records.ingest.finalise import dated_rows
from wardround.records.ingest.ingest import ingest_database
from wardround.records.ingest.joins import CodeLabels
from wardround.records.ingest.plan import Lineage
from wardround.records.ingest.reuse import PEOPLE_OF, SAME_PERSON

__all__ = [
    "PEOPLE_OF",
    "SAME_PERSON",
    "ClockSettings",
    "CodeLabels",
    "Lineage",
    "ShardClocks",
    "dated_rows",
    "ingest_database",
    "rule_columns",
]
