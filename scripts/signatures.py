"""A definition as a reader needs it: what it is called with and gives back, without what it does."""

from __future__ import annotations

import ast

WIDTH = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef


def signature(node: ast.stmt) -> str:
    """A definition without its body; a class with its fields and constructor; a constant with its value, if short."""
    if isinstance(node, Function):
        return f"{_kind(node)} {call(node)}"
    if isinstance(node, ast.ClassDef):
        return _class(node)
    written = ast.unparse(node)
    return written if len(written) <= WIDTH else f"{written.partition(' = ')[0]} = ..."


def call(node: Function, *, bound: bool = False) -> str:
    """``name(arguments) -> type``, each argument on its own line where it is long; of a method, without ``self``."""
    arguments = _arguments(node.args)[1 if bound else 0 :]
    gives = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({', '.join(arguments)}){gives}"
    if len(line) <= WIDTH or bound:
        return line
    return f"{node.name}(\n" + "".join(f"    {one},\n" for one in arguments) + f"){gives}"


def methods(node: ast.stmt) -> list[Function]:
    """The public methods and properties of a class."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [one for one in body if isinstance(one, Function) and not one.name.startswith("_")]


def decorators(node: Function) -> set[str]:
    """The names a function is decorated with."""
    return {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}


def _kind(node: Function) -> str:
    return "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join([ast.unparse(one) for one in node.bases])
    head = f"class {node.name}({bases})" if bases else f"class {node.name}"
    lines = [*_fields(node), *_constructor(node)]
    return head if not lines else f"{head}:\n" + "\n".join(f"    {line}" for line in lines)


def _fields(node: ast.ClassDef) -> list[str]:
    annotated = [one for one in node.body if isinstance(one, ast.AnnAssign)]
    public = [one for one in annotated if not ast.unparse(one.target).startswith("_")]
    return [f"{ast.unparse(one.target)}: {ast.unparse(one.annotation)}{_default(one.value)}" for one in public]


def _constructor(node: ast.ClassDef) -> list[str]:
    made = [one for one in node.body if isinstance(one, Function) and one.name == "__init__"]
    return [line for one in made for line in f"def {call(one)}".splitlines()]


def _default(value: ast.expr | None) -> str:
    """A default; ``...`` for one that is worked out."""
    if value is None:
        return ""
    return " = ..." if isinstance(value, ast.Call) else f" = {ast.unparse(value)}"


def _arguments(given: ast.arguments) -> list[str]:
    """Arguments one by one, with their markers ``/`` and ``*``."""
    plain = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(plain) - len(given.defaults)) + list(given.defaults)
    written = [_argument(one, default) for one, default in zip(plain, defaults, strict=True)]
    if given.posonlyargs:
        written.insert(len(given.posonlyargs), "/")
    if given.vararg:
        written.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        written.append("*")
    written += [_argument(one, default) for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*written, f"**{_argument(given.kwarg, None)}"] if given.kwarg else written


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    name = f"{one.arg}: {ast.unparse(one.annotation)}" if one.annotation else one.arg
    return name if default is None else f"{name} = {ast.unparse(default)}"
