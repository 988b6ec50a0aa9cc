"""Draft a source spec from the files of a folder: a TOML file with guesses, and questions for a person."""

from wardround.records.drafts.draft import NOT_TAKEN, draft_spec

__all__ = [
    "NOT_TAKEN",
    "draft_spec",
]
