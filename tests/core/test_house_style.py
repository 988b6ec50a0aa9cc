"""What the house asks of every file and no linter holds: no import circles, no calls that nobody can read."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
ROOMS_WITH_PARTS = {"clinical", "core", "tasks", "tools"}
MOST_POSITIONAL = 6
MOST_LAMBDA_NAMES = 3
Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOKED_AT = (ast.Import, ast.ImportFrom, ast.Expr, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """A million nodes that stayed would be searched for garbage to the end of the suite."""
    yield
    files.cache_clear()
    nodes.cache_clear()


@cache
def nodes(tree: ast.AST) -> Sequence[ast.AST]:
    """What the checks look at; each tree is walked once."""
    return [node for node in ast.walk(tree) if isinstance(node, LOOKED_AT)]


@cache
def files() -> dict[str, ast.Module]:
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def module_of(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports(files: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module names in any import, type-only and late ones too.

    The package itself is left out: it gives names of every room when they are asked for, and imports none.
    """
    modules = {module_of(file): tree for file, tree in files.items() if module_of(file) != "wardround"}
    found: dict[str, set[str]] = {}
    for name, tree in modules.items():
        named = set()
        for node in nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                below = {f"{node.module}.{alias.name}" for alias in node.names}
                named |= {one if one in modules else node.module for one in below}
            elif isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
        found[name] = (named & modules.keys()) - {name}
    return found


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One circle of imports, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def statement_conditionals(tree: ast.AST) -> Iterator[int]:
    """Lines of ``act() if wanted else None``: an if that hides as an expression."""
    for node in nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.IfExp):
            yield node.lineno


def crowded(tree: ast.AST) -> Iterator[str]:
    """Functions with so many positional parameters that a call cannot be read; ``self`` is none of them."""
    methods = {id(one) for owner in nodes(tree) if isinstance(owner, ast.ClassDef) for one in owner.body}
    for node in nodes(tree):
        if isinstance(node, Function):
            names = [*node.args.posonlyargs, *node.args.args]
            if len(names) - (id(node) in methods) > MOST_POSITIONAL:
                yield f"{node.name}:{node.lineno}"
        elif isinstance(node, ast.Lambda) and len(node.args.args) > MOST_LAMBDA_NAMES:
            yield f"lambda:{node.lineno}"


def room_of(module: str, packages: Set[str]) -> str:
    """The package at the top that a module belongs to; a part of a room that has parts is a room of its own."""
    names = module.split(".")
    part = ".".join(names[:3])
    return part if names[1] in ROOMS_WITH_PARTS and part in packages else ".".join(names[:2])


def past_a_face(files: Mapping[str, ast.Module]) -> Iterator[str]:
    """Imports that reach past the face of another room: what its packages list, and what lies directly in it.

    The package itself gives names of every room, and is left out.
    """
    modules = {module_of(file) for file in files}
    packages = {module_of(file): listed(tree) for file, tree in files.items() if file.endswith("/__init__.py")}
    for file, tree in files.items():
        here = module_of(file)
        if here == "wardround":
            continue
        own = room_of(here, packages.keys())
        for node in nodes(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("wardround."):
                continue
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                module = whole if whole in modules else str(node.module)
                room = room_of(module, packages.keys())
                if room == own or (module == whole and module in packages):
                    continue
                if module != whole and packages.get(module):
                    allowed = alias.name in packages[module]
                else:
                    allowed = module.count(".") <= room.count(".") + 1 and not alias.name.startswith("_")
                if not allowed:
                    yield f"{file}: {whole}"


def listed(tree: ast.Module) -> set[str]:
    """The names of a package's ``__all__``."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            found.update(ast.literal_eval(node.value))
    return found


def twice(files: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Public classes of one name, with the files they are in."""
    found: dict[str, list[str]] = {}
    for file, tree in files.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(file)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_no_file_lies_on_an_import_circle() -> None:
    assert circle(imports(files())) == []


def test_nothing_is_imported_past_the_face_of_a_room() -> None:
    assert list(past_a_face(files())) == []


def test_no_conditional_stands_as_a_statement() -> None:
    assert [f"{file}:{line}" for file, tree in files().items() for line in statement_conditionals(tree)] == []


def test_no_function_takes_more_positional_arguments_than_a_call_can_show() -> None:
    assert [f"{file}:{place}" for file, tree in files().items() for place in crowded(tree)] == []


def test_no_public_class_shares_its_name_with_another() -> None:
    assert twice(files()) == {}


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their bare names, and collects none where two have one."""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_checks_see_what_they_are_for() -> None:
    first = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.second import Thing\n"
    some = {"a/__init__.py": "", "a/first.py": first, "a/second.py": "def f():\n    from a import first\n"}
    assert set(circle(imports({file: ast.parse(text) for file, text in some.items()}))) == {"a.first", "a.second"}
    assert list(statement_conditionals(ast.parse("x = 1\nprint(x) if x else None\n"))) == [2]
    seven = "class A:\n    def f(self, a, b, c, d, e, f): ...\n    def g(self, a, b, c, d, e, f, g): ...\n"
    assert list(crowded(ast.parse(seven + "lambda a, b, c, d: 0\n"))) == ["g:3", "lambda:4"]
    same = {file: ast.parse("class Plan: ...\nclass _Own: ...\n") for file in ("a.py", "b.py")}
    assert twice(same) == {"Plan": ["a.py", "b.py"]}
    rooms = {
        "wardround/log/__init__.py": "",
        "wardround/log/parts/__init__.py": "from wardround.log.parts.deep import Shown\n__all__ = ['Shown']\n",
        "wardround/log/parts/deep.py": "class Shown: ...\nclass Kept: ...\n",
        "wardround/log/rows.py": "from wardround.log.parts.deep import Kept\n",
        "wardround/runs/__init__.py": "from wardround.log.parts import Shown, Kept\n"
        "from wardround.log.rows import Row, _row\n",
        "wardround/runs/one.py": "from wardround.log.parts.deep import Shown\nfrom wardround.log.parts import deep\n",
    }
    assert list(past_a_face({file: ast.parse(text) for file, text in rooms.items()})) == [
        "wardround/runs/__init__.py: wardround.log.parts.Kept",
        "wardround/runs/__init__.py: wardround.log.rows._row",
        "wardround/runs/one.py: wardround.log.parts.deep.Shown",
        "wardround/runs/one.py: wardround.log.parts.deep",
    ]
