"""The public names of each room, read from the source without importing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
_PLACES = ("*", "clinical/*", "core/*", "tasks/*", "tools/*")
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicName:
    """A name, the module that defines it, its definition, and the words the source has on it ("" without)."""

    name: str
    module: str
    definition: Definition
    words: str


def rooms() -> list[str]:
    """The packages with public names, by dotted name: ``records``, and the parts of the rooms that have parts."""
    package = SOURCE / "wardround"
    inits = (init for place in _PLACES for init in package.glob(f"{place}/__init__.py"))
    names = (".".join(init.parent.relative_to(package).parts) for init in inits)
    return sorted(name for name in names if "__all__" in _names_bound(f"wardround.{name}"))


def words_of_room(room: str) -> str:
    """A room's docstring."""
    return ast.get_docstring(_parsed(f"wardround.{room}")) or ""


def public_names(room: str) -> list[PublicName]:
    """What a room's ``__all__`` names, in its order."""
    module = f"wardround.{room}"
    listed = [node for node in _parsed(module).body if isinstance(node, ast.Assign) and "__all__" in _bound(node)]
    return [_found(module, name) for node in listed for name in ast.literal_eval(node.value)]


def _names_bound(module: str) -> set[str]:
    return {name for node in _parsed(module).body if isinstance(node, ast.Assign) for name in _bound(node)}


@cache
def _parsed(module: str) -> ast.Module:
    path = SOURCE / module.replace(".", "/")
    package = path / "__init__.py"
    file = package if package.exists() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _found(module: str, name: str) -> PublicName:
    """Where a name is defined: here, or where it is imported from."""
    body = _parsed(module).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom) and node.module:
            original = {alias.asname or alias.name: alias.name for alias in node.names}
            if name in original:
                return _found(node.module, original[name])
        if isinstance(node, Definition) and name in _bound(node):
            return PublicName(name=name, module=module, definition=node, words=_words(node, following))
    raise LookupError(f"{module} lists {name} and does not define it")


def _bound(node: Definition) -> set[str]:
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    if isinstance(node, ast.AnnAssign):
        return {node.target.id} if isinstance(node.target, ast.Name) else set()
    return {node.name}


def _words(node: Definition, following: ast.stmt | None) -> str:
    """A docstring; of a constant, the string on the lines after it."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return ast.get_docstring(node) or ""
    after = following.value if isinstance(following, ast.Expr) else None
    return after.value if isinstance(after, ast.Constant) and isinstance(after.value, str) else ""
