"""MEDS 0.4 as a source: its spec, and descriptions for codes without one. MEDS export is in
:mod:`wardround.exports`."""

from wardround.records.sources.meds.descriptions import DescriptionCounts, describe_codes

__all__ = ["DescriptionCounts", "describe_codes"]
