"""One model of a table, and a function for each form of it: text, LaTeX, Markdown, HTML.

Rows of any kind (:class:`TableColumn` says what a column shows of one) become a :class:`Table` of texts with
:func:`table_of`; what is not known of a row is an empty cell, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from markupsafe import Markup, escape

RowT = TypeVar("RowT")
Kind = Literal["text", "number", "interval"]
"""Numbers are aligned right, intervals are not broken over lines."""
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "·": r"$\cdot$",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn(Generic[RowT]):
    """A column: its name, what it shows of a row (None: ``missing``), how a number is written (a format
    specification), and for which rows the table has it at all.

    A list of columns may serve several tables: ``tables`` names those that have the column (empty: all of them),
    ``terminal`` what is different in a terminal (``{"name": "R"}``). ``help`` says what the name means.
    """

    name: str
    value: Callable[[RowT], object]
    format: str = ""
    kind: Kind = "number"
    missing: str = ""
    is_shown: Callable[[Sequence[RowT]], bool] = lambda rows: True
    tables: str = ""
    terminal: Mapping[str, Any] = field(default_factory=dict)
    help: str = ""

    def cell(self, row: RowT) -> str:
        """Return the text of a row's cell."""
        value = self.value(row)
        if isinstance(value, str) and not self.format:
            return value  # Markup stays Markup
        return self.missing if value is None else format(value, self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of texts. ``kinds``: of its columns; empty: a column is of numbers where all its cells are.

    ``caption`` says what the cells are, ``note`` what marks in them mean, ``terms`` what names of columns mean;
    ``name`` is that of its file.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    kinds: Sequence[Kind] = ()
    name: str = ""
    caption: str = ""
    note: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> list[tuple[str, Kind]]:
        """Name and kind of each column."""
        return list(zip(self.header, self.kinds or map(self._kind, range(len(self.header))), strict=True))

    def _kind(self, place: int) -> Kind:
        return "number" if self.rows and all(_is_number(row[place]) for row in self.rows) else "text"


def table_of(rows: Iterable[RowT], columns: Sequence[TableColumn[RowT]]) -> Table:
    """Return the table of some rows with those of the columns that are shown for them."""
    rows = list(rows)
    shown = [column for column in columns if column.is_shown(rows)]
    return Table(
        header=[column.name for column in shown],
        rows=[[column.cell(row) for column in shown] for row in rows],
        kinds=[column.kind for column in shown],
        terms={column.name: column.help for column in shown if column.help},
    )


def columns_of(columns: Iterable[TableColumn[RowT]], table: str, **changes: Any) -> list[TableColumn[RowT]]:
    """Return the columns that a table has ("terminal", "narrow": a terminal of 100 characters; others as the columns
    name them), with ``changes`` to all, such as ``missing="–"``."""
    found = [column for column in columns if table in (column.tables.split() or [table])]
    in_terminal = table in ("terminal", "narrow")
    return [replace(column, **{**changes, **(column.terminal if in_terminal else {})}) for column in found]


def as_text(table: Table, *, has_rule: bool = False) -> str:
    """Return a table as aligned plain text. ``has_rule``: with a line below the header."""
    lines = [table.header, *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    rights = [kind == "number" for _, kind in table.columns]
    texts = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, rights, strict=True)
        ).rstrip()
        for line in lines
    ]
    rule = ["  ".join("-" * width for width in widths)] if has_rule else []
    return "\n".join([texts[0], *rule, *texts[1:]])


def as_latex(table: Table, *, is_plain: bool = False) -> str:
    """Return a table for the package booktabs, or ``is_plain``: with the lines that LaTeX has itself. Its label is
    ``tab:`` and its name."""
    alignment = "".join("r" if kind == "number" else "l" for _, kind in table.columns)
    header, *rows = (" & ".join(map(_in_latex, cells)) + r" \\" for cells in (table.header, *table.rows))
    top, middle, bottom = (r"\hline",) * 3 if is_plain else (r"\toprule", r"\midrule", r"\bottomrule")
    lines = [
        "% needs no package" if is_plain else r"% needs in the preamble: \usepackage{booktabs}",
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{_in_latex(table.caption)}}}",
        *([rf"\label{{tab:{table.name}}}"] if table.name else []),
        rf"\begin{{tabular}}{{{alignment}}}",
        *(top, header, middle, *rows, bottom),
        r"\end{tabular}",
        *([rf"\par\smallskip\footnotesize {_in_latex(table.note)}"] if table.note else []),
        *(r"\end{table}", ""),
    ]
    return "\n".join(lines)


def as_markdown(table: Table) -> str:
    """Return a table as Markdown."""
    header, *rows = ("| " + " | ".join(map(_in_markdown, cells)) + " |" for cells in (table.header, *table.rows))
    rule = "| " + " | ".join("---:" if kind == "number" else "---" for _, kind in table.columns) + " |"
    note = ["", table.note.replace("*", r"\*")] if table.note else []
    return "\n".join([f"**{table.caption}**", "", header, rule, *rows, *note, ""])


def as_html(table: Table, *, is_stacked: bool = False) -> Markup:
    """Return a table as HTML for the pages' style sheet; cells are escaped, unless they are Markup. ``is_stacked``: on
    a narrow screen a row is a small list, with the name of its column before each cell."""
    classes = ["" if kind == "text" else f' class="{kind}"' for _, kind in table.columns]
    if is_stacked:
        classes = [f'{of} data-name="{escape(name)}"' for of, name in zip(classes, table.header, strict=True)]
    rows = (
        "<tr>" + "".join(f"<td{of}>{escape(cell)}</td>" for cell, of in zip(row, classes, strict=True)) + "</tr>\n"
        for row in table.rows
    )
    return html_frame(table.columns, "".join(rows), css="stacked" if is_stacked else "")


def html_frame(columns: Sequence[tuple[str, Kind]], rows: str, *, css: str = "") -> Markup:
    """Return the table around some rows that are HTML. ``css``: classes of the table."""
    named = ((escape(name), ' class="number"' if kind == "number" else "") for name, kind in columns)
    header = "".join(f"<th{number}>{name}</th>" for name, number in named)
    top = f"<tr>{header}</tr>\n" if columns else ""
    of = f' class="{css}"' if css else ""
    return Markup(f'<div class="scroll"><table{of}>\n{top}{rows}</table></div>\n')


RENDERERS: Mapping[str, Callable[[Table], str]] = {
    "tex": as_latex,
    "plain.tex": partial(as_latex, is_plain=True),
    "md": as_markdown,
}
"""By the suffix of the file. Numbers for programs are no texts: see ``wardround.reports.tidy``."""


def _is_number(text: str) -> bool:
    return text.strip("+-").replace(",", "").replace(".", "").replace("%", "").isdigit() or text in ("", "–")


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _in_markdown(text: str) -> str:
    return text.replace("|", r"\|").replace("*", r"\*")
