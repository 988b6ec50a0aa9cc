"""Remove what no person sees of an HTML page: hidden by element, attribute or style."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wardround.core import ToolFailure

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser


# Which values of a style hide an element from a person: not shown, without size, elsewhere, without colour.


_LENGTH = re.compile(
    r"(?<![\w.#-])([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(px|pt|pc|r?em|ex|ch|cm|mm|in|q|v[wh]|vmin|vmax|%)?"
)
_PIXELS = {"pt": 1.3, "pc": 16, "em": 16, "rem": 16, "ex": 8, "ch": 8, "cm": 38, "mm": 3.8, "in": 96} | dict.fromkeys(
    ("vw", "vh", "vmin", "vmax", "%"), 10
)
"""Of each unit, in letters and a window of usual size."""
_FAINT = 0.05
"""Share of full opacity, size or difference of colours at which nothing is seen."""
_SMALLEST_TEXT, _SMALLEST_BOX = 2.0, 1.0
_AWAY, _AWAY_TO_THE_RIGHT = -100.0, 3000.0
"""Pixels from the window's edge."""
_SCALED = re.compile(r"scale\w*\(([^)]*)\)")
_FLAT = re.compile(r"rotate[xy]\([-+]?90deg|matrix\(\s*0?\.?0+\s*,")
_CLIPPED = re.compile(
    r"inset\(\s*(?:[5-9]\d|\d{3,})(?:\.\d+)?%|(?:circle|ellipse)\(\s*0(?![.\d])|path\(|polygon\(\s*(?:0(?:px|%)?[\s,]*)+\)"
)


def lengths(value: str) -> list[float]:
    """Return the lengths in a value, in pixels.

    >>> lengths("0 -10em auto 2px")
    [0.0, -160.0, 2.0]
    """
    return [float(number) * _PIXELS.get(unit, 1) for number, unit in _LENGTH.findall(value)]


def hides(values: Mapping[str, str]) -> bool:
    """Return whether values by property hide an element, whatever is around it."""
    return any(name in values and is_hidden(values[name]) for name, is_hidden in _HIDING.items())


def colour(value: str) -> tuple[float, float, float, float] | None:
    """Return the channels of a colour, 0 to 1, with opacity last; None if the value is no colour of its own."""
    from tinycss2.color4 import parse_color

    try:
        read = parse_color(value).to("srgb")
    except (AttributeError, NotImplementedError):
        return None
    red, green, blue = (float(channel or 0) for channel in read.coordinates)
    return red, green, blue, float(read.alpha)


def is_transparent(value: str) -> bool:
    """Return whether a colour is not seen on any other."""
    read = colour(value)
    return read is not None and read[3] <= _FAINT


def are_alike(one: str, other: str) -> bool:
    """Return whether a colour is not seen on another."""
    first, second = colour(one), colour(other)
    return first is not None and second is not None and math.dist(first[:3], second[:3]) <= _FAINT


def _share(value: str) -> float:
    """Return a number or a percentage as a share; 1 without a number."""
    found = _LENGTH.search(value)
    return 1.0 if found is None else float(found[1]) / (100 if found[2] == "%" else 1)


def _is_faint(value: str) -> bool:
    return _share(value) <= _FAINT


def _is_tiny_text(value: str) -> bool:
    return any(length <= _SMALLEST_TEXT for length in lengths(value)[:1])


def _is_tiny_font(value: str) -> bool:
    """Return whether a ``font`` is tiny. Its size is its only length before the line height; weights have no unit and
    are large."""
    sizes = [length for length in lengths(value.partition("/")[0]) if length < 100]
    return any(length <= _SMALLEST_TEXT for length in sizes[-1:])


def _is_no_box(value: str) -> bool:
    return any(length <= _SMALLEST_BOX for length in lengths(value)[:1])


def _is_away(value: str) -> bool:
    return any(length <= _AWAY or length >= _AWAY_TO_THE_RIGHT for length in lengths(value))


def _is_transformed_away(value: str) -> bool:
    moved = " ".join(re.findall(r"(?:translate\w*|matrix\w*)\(([^)]*)\)", value))
    scales = ",".join(_SCALED.findall(value)).split(",")
    return any(map(_is_faint, scales)) or _FLAT.search(value) is not None or _is_away(moved)


def _is_filtered_away(value: str) -> bool:
    return any(_is_faint(share) for share in re.findall(r"opacity\(([^)]*)\)", value))


def _one_of(*values: str) -> Callable[[str], bool]:
    return lambda value: value in values


_HIDING: Mapping[str, Callable[[str], bool]] = {
    "display": _one_of("none"),
    "visibility": _one_of("hidden", "collapse"),
    "content-visibility": _one_of("hidden"),
    "opacity": _is_faint,
    "zoom": _is_faint,
    "scale": _is_faint,
    "filter": _is_filtered_away,
    "transform": _is_transformed_away,
    "translate": _is_away,
    "font-size": _is_tiny_text,
    "font": _is_tiny_font,
    "color": is_transparent,
    "-webkit-text-fill-color": is_transparent,
    "clip": lambda value: all(length <= 1 for length in lengths(value)) and value.startswith("rect("),
    "clip-path": lambda value: _CLIPPED.search(value) is not None,
    "letter-spacing": lambda value: any(length <= -8 for length in lengths(value)),
    **dict.fromkeys(("width", "height", "max-width", "max-height", "block-size", "inline-size"), _is_no_box),
    **dict.fromkeys(("left", "top", "right", "bottom", "inset", "text-indent"), _is_away),
    **dict.fromkeys(("margin", "margin-left", "margin-top", "margin-inline-start", "inset-inline-start"), _is_away),
}


# Styles of a page as a browser reads them: escapes undone, small letters, no comments, variables put in.


_LONGEST = 500_000
"""Characters of style sheets; more are made to burn time."""
_DEEPEST = 8
_NOT_OF_A_SCREEN = (
    "print",
    "speech",
    "not all",
    "not screen",
    "prefers-color-scheme: dark",
    "prefers-color-scheme:dark",
)
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*))?\)")


def declarations(style: str) -> dict[str, str]:
    """Read the values of a ``style`` attribute by their properties.

    >>> declarations(r"di\\73 play: N\\6fne /* x */ !important")
    {'display': 'none'}
    """
    from tinycss2 import parse_blocks_contents

    return _values(parse_blocks_contents(style, skip_comments=True, skip_whitespace=True))


def rules(sheet: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield selector and values of a style sheet's rules, of those within at-rules for the screen too. Raises
    ToolFailure for one that is made to burn time."""
    if len(sheet) > _LONGEST:
        raise ToolFailure(f"the page has more than {_LONGEST:,} characters of styles and was not read.")
    from tinycss2 import parse_stylesheet

    yield from _rules(parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True), 0)


def substituted(values: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return values with those of custom properties in them."""
    return {
        name: _VARIABLE.sub(lambda used: variables.get(used[1], used[2] or ""), value).strip()
        for name, value in values.items()
    }


def _values(nodes: Sequence[Any]) -> dict[str, str]:
    from tinycss2 import serialize

    return {
        node.lower_name: " ".join(serialize(node.value).split()).casefold()
        for node in nodes
        if node.type == "declaration"
    }


def _rules(nodes: Sequence[Any], depth: int) -> Iterator[tuple[str, dict[str, str]]]:
    from tinycss2 import parse_blocks_contents, parse_stylesheet, serialize

    for node in nodes:
        if node.type == "qualified-rule":
            yield serialize(node.prelude).strip(), _values(parse_blocks_contents(node.content, skip_comments=True))
        elif node.type == "at-rule" and node.content and depth < _DEEPEST and _is_of_a_screen(serialize(node.prelude)):
            yield from _rules(parse_stylesheet(node.content, skip_comments=True), depth + 1)


def _is_of_a_screen(condition: str) -> bool:
    return not any(medium in condition.casefold() for medium in _NOT_OF_A_SCREEN)


# What of a page no person sees, dropped: by elements, by attributes, by inline styles, by the page's own style sheets.
#
# What one rule hides is dropped whatever another says. Style sheets in other files are not fetched: what only they, a
# script or a picture laid over it hides is kept.


_NEVER_SHOWN = (
    "script, noscript, template, iframe, object, embed, svg, canvas, select, textarea, dialog, datalist, noframes, "
    "audio, video, progress, meter, rp, [hidden], [popover], [aria-hidden=true], input, "
    ".sr-only, .visually-hidden, .screen-reader-text"
)
_AROUND = "nav, footer, aside, button, [role=navigation], [role=banner], style"
_NEVER_DROPPED = ("html", "body", "main")
_COLOURS = ("color", "background-color", "background")
_PAPER, _INK = "white", "black"
_SHEET = "data:text/css"

Styled = list[tuple[Any, Mapping[str, str]]]
"""Elements with the values of one rule or attribute, in order."""


def drop_hidden(tree: LexborHTMLParser) -> None:
    """Remove what is invisible on a page, and what surrounds its text."""
    styled = _styled(tree)
    unseen = [node for node, values in styled if node.tag not in _NEVER_DROPPED and hides(values)]
    _drop_like_paper(tree, styled)
    _drop([*unseen, *tree.css(_NEVER_SHOWN), *_closed(tree)])
    _drop(tree.css(_AROUND))


def _drop(nodes: Iterable[Any]) -> None:
    """Remove nodes, each once: a node within another one goes with it."""
    by_place = {node.mem_id: node for node in nodes}
    for node in [one for one in by_place.values() if not any(above.mem_id in by_place for above in _above(one))]:
        node.decompose()


def _above(node: Any) -> Iterator[Any]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _closed(tree: LexborHTMLParser) -> list[Any]:
    """Return the elements that closed details hide."""
    return [
        child
        for node in tree.css("details:not([open])")
        for child in node.iter(include_text=True)
        if child.tag != "summary"
    ]


def _styled(tree: LexborHTMLParser) -> Styled:
    sheets = [node.text() for node in tree.css("style")]
    links = (unquote(str(node.attributes.get("href") or "")) for node in tree.css("link[href]"))
    sheets += (link.partition(",")[2] for link in links if link.casefold().startswith(_SHEET))
    by_selector = list(rules("\n".join(sheets)))
    inline = [(node, declarations(str(node.attributes.get("style") or ""))) for node in tree.css("[style]")]
    variables = dict(chain.from_iterable(values.items() for _, values in (*by_selector, *inline)))
    styles = [
        node_found
        for selector, values in by_selector
        for node_found in _selected(tree, selector, substituted(values, variables))
    ]
    styles += ((node, substituted(values, variables)) for node, values in inline)
    styles += ((node, {"color": str(node.attributes.get("color"))}) for node in tree.css("font[color]"))
    styles += ((node, {"background-color": str(node.attributes.get("bgcolor"))}) for node in tree.css("[bgcolor]"))
    return styles


def _selected(tree: LexborHTMLParser, selector: str, values: Mapping[str, str]) -> Styled:
    """Return the elements that a hiding or colouring rule selects; none if the parser does not know its selector, or if
    it needs a pointer."""
    from selectolax.lexbor import SelectolaxError

    if "::" in selector or ":hover" in selector or not (hides(values) or values.keys() & set(_COLOURS)):
        return []
    try:
        return [(node, values) for node in tree.css(selector)]
    except SelectolaxError:
        return []


def _drop_like_paper(tree: LexborHTMLParser, styled: Styled) -> None:
    """Remove text with the colour of its background. A background picture may have any colour."""
    colours: dict[int, dict[str, str]] = {}
    for node, values in styled:
        own = {name: values[name] for name in _COLOURS if values.get(name)}
        if own:
            colours.setdefault(node.mem_id, {}).update(own)
    if colours:
        _drop(list(_like_paper(tree, colours)))


def _like_paper(tree: LexborHTMLParser, colours: Mapping[int, Mapping[str, str]]) -> Iterator[Any]:
    seen: dict[int, tuple[str, str]] = {}
    for node in tree.css("html, body, body *"):
        parent = node.parent
        ink, paper = seen.get(parent.mem_id, (_INK, _PAPER)) if parent is not None else (_INK, _PAPER)
        own = colours.get(node.mem_id, {})
        ink, paper = own.get("color", ink), own.get("background-color", own.get("background", paper))
        seen[node.mem_id] = ink, paper
        if are_alike(ink, paper):
            yield from (child for child in node.iter(include_text=True) if child.is_text_node)
