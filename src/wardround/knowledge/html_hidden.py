"""What of a page no person sees, dropped: by elements, by attributes, by inline styles, by the page's own style sheets.

What one rule hides is dropped whatever another says. Style sheets in other files are not fetched: what only they, a
script or a picture laid over it hides is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from wardround.knowledge.html_hiding import are_alike, hides
from wardround.knowledge.html_styles import declarations, rules, substituted

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

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
"""Elements with the values of one rule or attribute, in the order in which they are said."""


def drop_hidden(tree: LexborHTMLParser) -> None:
    """Take out of a page what no person sees of it, and what stands around its text."""
    styled = _styled(tree)
    unseen = [node for node, values in styled if node.tag not in _NEVER_DROPPED and hides(values)]
    _drop_like_paper(tree, styled)
    _drop([*unseen, *tree.css(_NEVER_SHOWN), *_closed(tree)])
    _drop(tree.css(_AROUND))


def _drop(nodes: Iterable[Any]) -> None:
    """Take nodes out, each once: what is within another one goes with it."""
    by_place = {node.mem_id: node for node in nodes}
    for node in [one for one in by_place.values() if not any(above.mem_id in by_place for above in _above(one))]:
        node.decompose()


def _above(node: Any) -> Iterator[Any]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _closed(tree: LexborHTMLParser) -> list[Any]:
    """What closed details show only to whoever opens them."""
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
    said = [
        one for selector, values in by_selector for one in _selected(tree, selector, substituted(values, variables))
    ]
    said += ((node, substituted(values, variables)) for node, values in inline)
    said += ((node, {"color": str(node.attributes.get("color"))}) for node in tree.css("font[color]"))
    said += ((node, {"background-color": str(node.attributes.get("bgcolor"))}) for node in tree.css("[bgcolor]"))
    return said


def _selected(tree: LexborHTMLParser, selector: str, values: Mapping[str, str]) -> Styled:
    """What a rule that hides or colours selects; nothing where the parser does not know its selector, or where it waits
    for a pointer."""
    from selectolax.lexbor import SelectolaxError

    if "::" in selector or ":hover" in selector or not (hides(values) or values.keys() & set(_COLOURS)):
        return []
    try:
        return [(node, values) for node in tree.css(selector)]
    except SelectolaxError:
        return []


def _drop_like_paper(tree: LexborHTMLParser, styled: Styled) -> None:
    """Take out text that has the colour of what it stands on. A picture there may have any."""
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
