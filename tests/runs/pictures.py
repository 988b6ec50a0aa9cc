"""A chart as lines of text: an element's name, its attributes' values in order and, after a colon, its text."""

from __future__ import annotations

from xml.etree import ElementTree


def drawn(picture: str) -> list[str]:
    """Return what stands in the picture, its title and its own size included."""
    root = ElementTree.fromstring(str(picture))
    return [_line(element) for element in root.iter()]


def _line(element: ElementTree.Element) -> str:
    values = " ".join([element.tag.rpartition("}")[2], *element.attrib.values()])
    return f"{values}: {element.text}" if element.text else values
