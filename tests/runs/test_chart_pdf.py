"""Charts as PDF: a reader finds every word of the chart as text, on a page of its size; the same bytes each time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from extras import Later, needs
from wardround.cli.report import write_pdfs_too
from wardround.reports import charts
from wardround.reports import charts as chart_files
from wardround.reports.charts import few_shot, write_pdfs, write_svg
from wardround.reports.predictions import Curve, CurvePoint

pypdf: Any = Later("pypdf")
pytestmark = needs("svglib", "font_source_sans_pro", "pypdf")

ROWS = [
    ("étude de réactivité", 0.5, 0.25, 0.75),
    ("β-lactam, Na+ ≥ 3 µmol", 0.125, None, None),
    ("Łódź · Øre", 1.0, 0.9, 1.0),
]
POINTS = (
    CurvePoint(k=1, mean=0.4, low=0.3, high=0.5, replicates=3),
    CurvePoint(k=2, mean=0.5, low=0.4, high=0.6, replicates=3),
    CurvePoint(k=None, mean=0.7, low=0.7, high=0.7, replicates=1),
)
CURVE = Curve(predictor="logistic", task="new_lupus", view="all", points=POINTS)
CHARTS = {
    "intervals": charts.intervals(ROWS, title="F1 on labevents — σ"),
    "heat": charts.heat({"retrosum": {"right": 0.9, "wrong": 0.2}}, ["right", "wrong"], title="Kinds"),
    "few-shot": few_shot([CURVE], {"ether": 0.6}, title="Shots", axis="shots"),
}


def drawn(folder: Path, names: Sequence[str] = tuple(CHARTS)) -> list[Path]:
    folder.mkdir(exist_ok=True)
    return [write_svg(CHARTS[name], folder / f"{name}.svg") for name in names]


def words_of(svg: Path) -> list[str]:
    return [
        node.text or "" for node in ElementTree.fromstring(svg.read_text()).iter("{http://www.w3.org/2000/svg}text")
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_a_pdf_holds_every_word_of_the_chart_on_a_page_of_its_size(name: str, tmp_path: Path) -> None:
    (svg,) = drawn(tmp_path, [name])
    (pdf,) = write_pdfs([svg])
    (page,) = pypdf.PdfReader(pdf).pages
    read = page.extract_text()
    assert words_of(svg)
    assert [word for word in words_of(svg) if word not in read] == []
    width, height = ElementTree.fromstring(svg.read_text()).get("viewBox", "").split()[2:]
    assert (page.mediabox.width, page.mediabox.height) == pytest.approx((float(width) * 0.75, float(height) * 0.75))
    assert not page.images, "lines, not pixels"


def test_fonts_are_in_the_file(tmp_path: Path) -> None:
    (pdf,) = write_pdfs(drawn(tmp_path, ["few-shot"]))
    fonts = [one.get_object() for one in pypdf.PdfReader(pdf).pages[0]["/Resources"]["/Font"].values()]
    names = {font["/BaseFont"].partition("+")[2] for font in fonts}
    assert names == {"SourceSansPro-Regular", "SourceSansPro-Semibold"}
    assert all("/FontFile2" in font["/FontDescriptor"] for font in fonts)


def test_the_same_chart_gives_the_same_bytes(tmp_path: Path) -> None:
    first, again = ([file.read_bytes() for file in write_pdfs(drawn(tmp_path / name))] for name in ("a", "b"))
    assert first == again
    said = pypdf.PdfReader(io.BytesIO(first[0])).metadata
    assert said.title == "F1 on labevents — σ"
    assert said.creation_date.year == 2000, "no day of writing"


def test_without_the_extra_one_line_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(chart_files, "find_spec", lambda name: None)
    write_pdfs_too(drawn(tmp_path))
    assert [file.suffix for file in tmp_path.iterdir()] == [".svg"] * 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "SVG alone" in line
    assert "pip install '.[figures]'" in line


def test_letters_that_the_font_lacks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_pdfs_too(drawn(tmp_path))
    assert capsys.readouterr().err == ""
    write_pdfs_too([write_svg(charts.bars([("Na⁺ 名", 1.0, "1")], title="t"), tmp_path / "lacks.svg")])
    assert "the PDFs' font lacks ⁺名:" in capsys.readouterr().err


def test_a_chart_of_one_empty_drawing_is_a_page_all_the_same(tmp_path: Path) -> None:
    svg = write_svg(Markup('<svg width="80" viewBox="0 0 80 40"><title>empty</title></svg>'), tmp_path / "empty.svg")
    (page,) = pypdf.PdfReader(write_pdfs([svg])[0]).pages
    assert (page.mediabox.width, page.mediabox.height) == (60, 30)
