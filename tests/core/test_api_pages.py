"""The API reference is what the source says: no name missing, none without words, no signature of yesterday."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = REPOSITORY / "docs" / "api"


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    return importlib.import_module("write_api")


def test_the_pages_are_what_the_source_says(writer: ModuleType) -> None:
    found = {page.name: page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")}
    stale = [name for name, text in writer.pages().items() if found.get(name) != text]
    assert not stale, "`make api` writes them anew"
    assert found.keys() == writer.pages().keys()


def test_every_room_names_what_it_lets_others_import(writer: ModuleType) -> None:
    assert {"records", "runs", "exports", "tasks.scoring"} <= set(writer.rooms())
    assert not [room for room in writer.rooms() if not writer.public_names(room)]


def test_every_public_class_and_function_says_what_it_is(writer: ModuleType) -> None:
    named = [one for room in writer.rooms() for one in writer.public_names(room)]
    values = ast.Assign | ast.AnnAssign
    assert not [one.name for one in named if not one.words and not isinstance(one.definition, values)]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (
            "def f(a, /, b: int = 2, *more, c, **rest) -> str: 'words'",
            "def f(a, /, b: int = 2, *more, c, **rest) -> str",
        ),
        ("async def f(*, c=None): ...", "async def f(*, c = None)"),
        ("class A(B):\n _x: int\n y: int = 1\n z: list = field()", "class A(B):\n    y: int = 1\n    z: list = ..."),
        ("class A:\n def __init__(self, x): ...\n def g(self): ...", "class A:\n    def __init__(self, x)"),
        ("LIMIT = 3", "LIMIT = 3"),
        (f"MANY: list[int] = {list(range(99))}", "MANY: list[int] = ..."),
    ],
)
def test_a_signature(writer: ModuleType, source: str, shown: str) -> None:
    assert sys.modules["signatures"].signature(ast.parse(source).body[0]) == shown
