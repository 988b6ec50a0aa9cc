"""Drafting a source spec: a look at a folder's files, and a TOML file that says what is guessed and what is asked."""

from wardround.records.drafts.draft import NOT_TAKEN, draft_spec

__all__ = [
    "NOT_TAKEN",
    "draft_spec",
]
