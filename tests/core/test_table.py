"""One table in each of its forms, by hand."""

from __future__ import annotations

from dataclasses import replace

from markupsafe import Markup

from wardround.core.table import (
    Table,
    TableColumn,
    as_html,
    as_latex,
    as_markdown,
    as_text,
    columns_of,
    table_of,
)

TABLE = Table(
    header=("who", "n", "95 % interval"),
    rows=(("a|b & <c>", "1,200", "0.1 to 0.2"), ("d*", "–", "")),
    kinds=("text", "number", "interval"),
    caption="F1 & more",
    note="* p < 0.05",
)


def test_text_is_aligned_and_may_have_a_rule() -> None:
    assert as_text(TABLE).splitlines() == [
        "who            n  95 % interval",
        "a|b & <c>  1,200  0.1 to 0.2",
        "d*             –",
    ]
    assert as_text(TABLE, has_rule=True).splitlines()[1] == "---------  -----  -------------"


def test_a_column_without_a_kind_is_of_numbers_where_all_its_cells_are() -> None:
    kinds = [kind for _, kind in replace(TABLE, kinds=()).columns]
    assert kinds == ["text", "number", "text"]
    assert [kind for _, kind in Table(header=("n",), rows=()).columns] == ["text"]


def test_latex_is_escaped_and_ruled() -> None:
    text = as_latex(TABLE)
    assert r"\caption{F1 \& more}" in text
    assert "{lrl}" in text
    assert r"\label" not in text, "a table without a name has no label"
    assert r"\usepackage{booktabs}" in text.splitlines()[0]
    assert "\\toprule\nwho & n & 95 \\% interval \\\\\n\\midrule\na|b \\& <c> & 1,200 & 0.1 to 0.2 \\\\" in text


def test_plain_latex_asks_for_no_package_and_a_name_is_the_label() -> None:
    text = as_latex(replace(TABLE, name="results"), is_plain=True)
    assert r"\label{tab:results}" in text
    assert "rule" not in text
    assert text.count(r"\hline") == 3


def test_a_stacked_table_names_the_column_of_every_cell() -> None:
    html = as_html(TABLE, is_stacked=True)
    assert '<table class="stacked">' in html
    assert '<td class="number" data-name="n">1,200</td>' in html


def test_markdown_keeps_its_columns() -> None:
    assert as_markdown(TABLE).splitlines() == [
        "**F1 & more**",
        "",
        "| who | n | 95 % interval |",
        "| --- | ---: | --- |",
        r"| a\|b & <c> | 1,200 | 0.1 to 0.2 |",
        r"| d\* | – |  |",
        "",
        r"\* p < 0.05",
    ]


def test_html_is_escaped_unless_it_is_markup() -> None:
    assert as_html(replace(TABLE, rows=(("<c>", "1", Markup("<b>2</b>")),))) == (
        '<div class="scroll"><table>\n<tr><th>who</th><th class="number">n</th><th>95 % interval</th></tr>\n'
        '<tr><td>&lt;c&gt;</td><td class="number">1</td><td class="interval"><b>2</b></td></tr>\n</table></div>\n'
    )


def test_columns_say_what_they_show_of_a_row_and_when_they_are_there() -> None:
    columns: list[TableColumn[tuple[str, float | None]]] = [
        TableColumn(name="who", value=lambda row: row[0], kind="text"),
        TableColumn(name="score", value=lambda row: row[1], format=".2f", missing="?"),
        TableColumn(name="long", value=lambda row: row[1], is_shown=lambda rows: len(rows) > 2),
    ]
    table = table_of([("a", 0.5), ("b", None)], columns)
    assert (list(table.header), list(map(list, table.rows))) == (["who", "score"], [["a", "0.50"], ["b", "?"]])


def test_one_list_of_columns_serves_a_page_and_a_terminal() -> None:
    columns: list[TableColumn[float | None]] = [
        TableColumn(name="recall", value=lambda row: row, format=".1f", terminal={"name": "R"}, help="share found"),
        TableColumn(name="squared", value=lambda row: None if row is None else row * row, tables="page data"),
        TableColumn(name="short", value=lambda row: 1, tables="terminal narrow", terminal={"format": "02d"}),
    ]
    page = table_of([0.5, None], columns_of(columns, "page", missing="–"))
    assert (page.header, page.rows) == (["recall", "squared"], [["0.5", "0.25"], ["–", "–"]])
    assert page.terms == {"recall": "share found"}
    terminal = table_of([0.5, None], columns_of(columns, "terminal"))
    assert (terminal.header, terminal.rows) == (["R", "short"], [["0.5", "01"], ["", "01"]])
    assert terminal.terms == {"R": "share found"}
    assert [column.name for column in columns_of(columns, "data")] == ["recall", "squared"]
