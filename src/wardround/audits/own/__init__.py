"""Audits of a source of your own: what a second person says could be known when, beside what its spec says.

``questions.py`` asks, ``answers.py`` reads the answers as a swap table, ``plain_copy.py`` writes the files that the
swap changes, ``early_cells.py`` compares the answers with what a store shows, ``by_roles.py`` says what must not be
seen before what by the roles of a spec. They take names of tables, columns and keys from the spec, and no clock.
"""

from wardround.audits.own.answers import answered_by, read_knowledge
from wardround.audits.own.by_roles import known_by_roles
from wardround.audits.own.early_cells import count_early_cells
from wardround.audits.own.plain_copy import write_plain
from wardround.audits.own.questions import knowledge_questions

__all__ = ["answered_by", "count_early_cells", "knowledge_questions", "known_by_roles", "read_knowledge", "write_plain"]
