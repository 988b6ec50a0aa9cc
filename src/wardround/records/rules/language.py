"""Time rules: the small language in which a source spec says when something happened or became known.

    COLUMN                  a time column of the row; a date-typed column reads as 23:59:59 of its day
    always | never          known from the start | at no time
    max(r, ..) min(r, ..)   null if any part is null
    first(r, ..) last(r, ..) the first part that is not null | the largest of those that are not
    given(r, s, t)          s where r is not null, else t
    until(r, s)             r where it is not after s, else null
    known(KEY, TABLE)       when the row of TABLE whose primary key equals this row's KEY cell became available
    ref(KEY, TABLE, COLUMN) a time cell of that row, but not before the row itself became available
    cell(KEY, TABLE, COLUMN) when a late cell of that row became known; null if the cell is empty
    at(KEY, TABLE, r)       r of that row, but not before the row itself became available
    earliest(TABLE, KEY, r) latest(TABLE, KEY, r)
                            the least or largest r of the rows of TABLE whose KEY cell is this row's primary key; null
                            if none has one. Theirs is the time that they have in the end, known by now or not
    when(COLUMN, 'A', .., r, s) r where the row's text or int COLUMN is one of the quoted values ('' is an empty cell,
                            of a float too; 'A*' a text that begins with A), else s
    when(COLUMN, {LIST}, ..)  the quoted values of a named list of the spec's [source.lists]
    lag(r, SETTING)         r plus a timedelta of the ingest settings
    shift(r, MINUTES)       r plus a whole number of minutes, negative for earlier
    end_of_day(r)           23:59:59 of the day of r
    dated(r, DAY)           r, but 23:59:59 of its day where r is exactly midnight (some sources write so a day without
                            a time); DAY where r is null, and not before the start of DAY
    median_delay(FROM, TO)  FROM plus the table's median of TO - FROM over other subjects
    following(r, COLUMN, 'A', ..) the next r of the subject's rows in the table whose COLUMN holds one of the values,
                            not before this row's own; null if there is none, or if one that holds a value written
                            '!A' comes first
    closed(r, COLUMN, 'A', 'B') for a row whose COLUMN is A and a name: the r at which all of the subject's rows of A
                            and that name have one of B and that name; null if they never have, and for other rows
    around(TABLE, r, START, END) the latest END of the subject's rows of TABLE whose START is not after r, where it is
                            later than r, else r; null if such a row has no END: what it names may still go on. TABLE
                            may be the row's own

A rule is evaluated over all rows at once, as microseconds since 1970 in int64; ``NO_TIME`` stands for null. Where the
columns and the other tables come from is the frame's business (`clocks.py`).

A function is one class (`own_row.py`, `other_tables.py`), registered in ``RULES`` (`rule.py`).
"""

from wardround.records.rules.other_tables import (
    Among,
    Around,
    Closed,
    Following,
    Known,
    LateCell,
    MedianDelay,
    Reference,
    There,
)
from wardround.records.rules.own_row import (
    ALWAYS,
    NEVER,
    Choice,
    Column,
    Combined,
    Constant,
    Dated,
    EndOfDay,
    Given,
    Lag,
    Shift,
    Until,
)
from wardround.records.rules.rule import (
    ALWAYS_TIME,
    NO_TIME,
    RULES,
    Arguments,
    Checks,
    Frame,
    Rule,
    Times,
    evaluate,
    walk,
    walk_everywhere,
)

__all__ = [
    "ALWAYS",
    "ALWAYS_TIME",
    "NEVER",
    "NO_TIME",
    "RULES",
    "Among",
    "Arguments",
    "Around",
    "Checks",
    "Choice",
    "Closed",
    "Column",
    "Combined",
    "Constant",
    "Dated",
    "EndOfDay",
    "Following",
    "Frame",
    "Given",
    "Known",
    "Lag",
    "LateCell",
    "MedianDelay",
    "Reference",
    "Rule",
    "Shift",
    "There",
    "Times",
    "Until",
    "evaluate",
    "walk",
    "walk_everywhere",
]
