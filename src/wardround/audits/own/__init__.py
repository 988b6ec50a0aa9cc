"""Audits of a source of your own: what a second person says could be known when, beside what its spec says.

``questions.py`` asks, ``answers.py`` reads the answers as a swap table, ``plain_copy.py`` writes the files that the
swap changes, ``early_cells.py`` compares the answers with what a store shows, ``by_roles.py`` says what must not be
seen before what by the roles of a spec. They take names of tables, columns and keys from the spec, and no clock.
"""

from wardround.audits.own.findings import count_early_cells, known_by_roles, write_plain
from wardround.audits.own.knowledge_table import answered_by, knowledge_questions, pipeline_table, read_knowledge

__all__ = [
    "answered_by",
    "count_early_cells",
    "knowledge_questions",
    "known_by_roles",
    "pipeline_table",
    "read_knowledge",
    "write_plain",
]
