"""Write the reference of the library's public names, a page per room, from the source's own words.

    python scripts/write_api.py        (make api)

The pages are docs/api/*.md. A test holds that they are what this writes.
"""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

from public_names import PublicName, public_names, rooms, words_of_room
from signatures import Function, call, decorators, methods, signature

PAGES = Path(__file__).parents[1] / "docs" / "api"
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_SPOKEN = {
    "staticmethod": "static",
    "classmethod": "class method",
    "property": "property",
    "cached_property": "property",
}


def plain(words: str) -> str:
    """The first paragraph of a docstring, in Markdown, on one line."""
    paragraph = words.strip().partition("\n\n")[0]
    joined = " ".join(paragraph.split())
    return _ROLE.sub(r"`\1`", joined).replace("``", "`")


def entry(one: PublicName) -> str:
    """A name: signature, words, methods, and the module that says more."""
    parts = [f"## {one.name}", f"```python\n{signature(one.definition)}\n```", plain(one.words), _methods(one)]
    return "\n\n".join([part for part in parts if part] + [f"<small>`{one.module}`</small>"])


def page(room: str) -> str:
    """The page of a room."""
    parent, _, name = f"wardround.{room}".rpartition(".")
    head = f"# wardround.{room}\n\n{plain(words_of_room(room))}\n\n```python\nfrom {parent} import {name}\n```"
    return "\n\n".join([head, *map(entry, public_names(room))]) + "\n"


def index() -> str:
    """The page that lists the rooms."""
    rows = "".join(
        f"| [{room}]({room}.md) | {len(public_names(room))} | {plain(words_of_room(room))} |\n" for room in rooms()
    )
    return f"{_ABOUT}\n| room | names | what it is |\n|---|---|---|\n{rows}"


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    return {"README.md": index(), **{f"{room}.md": page(room) for room in rooms()}}


def main() -> None:
    """Write the pages, and take away those of rooms that are gone."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    ).parse_args()
    written = pages()
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (PAGES / name).write_text(text, encoding="utf-8")


def _methods(one: PublicName) -> str:
    return "\n".join(map(_method, methods(one.definition)))


def _method(method: Function) -> str:
    """A line for a method: how it is called, what sort it is, its words."""
    spoken = [_SPOKEN[name] for name in sorted(decorators(method)) if name in _SPOKEN]
    called = method.name if "property" in spoken else call(method, bound="static" not in spoken)
    sort = f" ({spoken[0]})" if spoken else ""
    words = plain(ast.get_docstring(method) or "")
    return f"- `{called}`{sort}" + (f": {words}" if words else "")


_ABOUT = """# API reference

What each room lets others import, with the words of the source. A name on no page may change without notice.
`make api` writes these pages anew.
"""

if __name__ == "__main__":
    main()
