"""A chart of a page as a file of its own: SVG with its colours in it, and PDF made of that (the extra [figures]).

The same chart gives the same bytes: no time stands in a file, and the PDF has its own font. What is drawn is not here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup

from wardround.core import UserError, import_extra, missing_extra, write_atomically

_NAMESPACE = "http://www.w3.org/2000/svg"
_COLOUR = re.compile(r"--([a-z-]+): (#[0-9a-f]+);")
_FAMILY = "system-ui"
"""What charts ask for: on a page the reader's own font, in a PDF ours."""
_EXTRA = "figures"
_WHAT = "PDF of charts"


def write_svg(chart: Markup, file: Path) -> Path:
    """Write a chart as an SVG file that opens by itself; return the file."""
    head, rest = str(chart).split(">", 1)
    named = head if "xmlns=" in head else head.replace("<svg", f'<svg xmlns="{_NAMESPACE}"', 1)
    write_atomically(file, f"{named}><style>{_style()}</style>{rest}\n", durable=False)
    return file


def without_pdf() -> UserError | None:
    """Return what stands in the way of writing PDF; None where it can be written."""
    absent = [name for name in ("svglib", "font_source_sans_pro") if find_spec(name) is None]
    return missing_extra(_EXTRA, what=_WHAT, why=f"no {absent[0]} here") if absent else None


def write_pdfs(charts: Sequence[Path]) -> list[Path]:
    """Write the PDF of each SVG chart beside it, a page of its size; return the files. UserError: no extra."""
    written = []
    for chart in charts:
        file = chart.with_suffix(".pdf")
        file.write_bytes(_as_pdf(chart.read_text(encoding="utf-8")))
        written.append(file)
    return written


def without_glyph(charts: Sequence[Path]) -> str:
    """Return the characters of SVG charts that the font of a PDF has no picture of: they would be boxes there."""
    face = import_extra("reportlab.pdfbase.pdfmetrics", _EXTRA, what=_WHAT).getFont(_register_fonts()).face
    texts = {letter for chart in charts for letter in "".join(ElementTree.parse(chart).getroot().itertext())}
    return "".join(sorted(letter for letter in texts if letter.isprintable() and ord(letter) not in face.charToGlyph))


def _as_pdf(svg: str) -> bytes:
    """Lines stay lines and text stays text, in a font that is put into the file as far as it is used."""
    font = _register_fonts()
    drawing = import_extra("svglib.svglib", _EXTRA, what=_WHAT).svg2rlg(io.StringIO(svg))
    drawing.initialFontName = font  # or the file names one that nothing uses and that is not in it
    page = io.BytesIO()
    canvas = import_extra("reportlab.pdfgen.canvas", _EXTRA, what=_WHAT).Canvas(
        page, pagesize=(drawing.width, drawing.height), invariant=1, initialFontName=font, lang="en"
    )
    canvas.setTitle(ElementTree.fromstring(svg).findtext(f"{{{_NAMESPACE}}}title", ""))
    canvas.setCreator("wardround")
    canvas.setAuthor("")
    canvas.setSubject("")
    import_extra("reportlab.graphics.renderPDF", _EXTRA, what=_WHAT).draw(drawing, canvas, 0, 0)
    canvas.save()
    return page.getvalue()


@cache
def _register_fonts() -> str:
    """Make the font known in the weights that charts use; return its name in a PDF."""
    fonts: Any = import_extra("svglib.fonts", _EXTRA, what=_WHAT)
    folder = Path(import_extra("font_source_sans_pro", _EXTRA, what=_WHAT).font_directory)
    fonts.register_font(_FAMILY, str(folder / "SourceSansPro-Semibold.ttf"), weight="600")
    name: str = fonts.register_font(_FAMILY, str(folder / "SourceSansPro-Regular.ttf"))[0]
    return name


@cache
def _style() -> str:
    """The lines of the pages' style sheet that are about charts, with the colours of a page in daylight, written out:
    programs that draw SVG know no variables."""
    sheet = (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")
    colours = dict(_COLOUR.findall(sheet.partition("@media")[0]))
    lines = "\n".join(line for line in sheet.splitlines() if line.startswith("svg"))
    coloured = re.sub(r"var\(--([a-z-]+)\)", lambda found: colours[found[1]], lines)
    return f"\nsvg {{ background: #ffffff; }}\n{coloured}\n"
