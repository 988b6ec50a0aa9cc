"""Where a module can be changed by one small step, and what it reads then: the sites a mutation sample is drawn from.

A site is an expression or statement outside annotations, decorators, docstrings and f-strings; a mutation is its
source with one thing other: a comparison's bound or sense, a connective, a sign, a number, a guard, a dropped call,
argument or result. Texts are left alone: another wording of a message is no fault that a test should find. So are the
sites that mutation_equivalents.toml names, each with its reason.
"""

from __future__ import annotations

import ast
import copy
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATIONS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_LARGE = 100  # a size one more or less is the same size; as 1 it is another
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One changed source: the line it starts on, what stood there and what stands there now."""

    line: int
    before: str
    after: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalents:
    """What is the same program however it is changed: constants and expressions by module, arguments by keyword, and by
    package the methods whose answer is no more than how often something is so."""

    constants: dict[str, dict[str, str]]
    expressions: dict[str, dict[str, str]]
    keywords: dict[str, str]
    rates: dict[str, dict[str, str]]

    @classmethod
    def read(cls) -> Equivalents:
        """Read the list beside this file."""
        listed = tomllib.loads(Path(__file__).with_name("mutation_equivalents.toml").read_text())
        return cls(**{name: listed[name] for name in ("constants", "expressions", "keywords", "rates")})

    def names(self, path: Path) -> Collection[str]:
        """The constants of one module."""
        return self.constants.get(f"{path.parent.name}.{path.stem}", {})

    def texts(self, path: Path) -> Collection[str]:
        """The expressions and statements of one module, as they stand there."""
        return self.expressions.get(f"{path.parent.name}.{path.stem}", {})

    def rates_of(self, path: Path) -> Collection[str]:
        """The methods that draw how often something is so, in one module."""
        return {name for package, methods in self.rates.items() if package in path.parts for name in methods}


NONE = Equivalents(constants={}, expressions={}, keywords={}, rates={})


def sites(source: str, path: Path = Path(), equivalents: Equivalents = NONE) -> list[ast.AST]:
    """Every node of a module that has a mutation and is not set aside, in reading order."""
    texts = {_unified(text) for text in equivalents.texts(path)}
    walk = _Walk(
        constants=equivalents.names(path),
        texts=texts,
        keywords=equivalents.keywords,
        rates=equivalents.rates_of(path),
    )
    return [node for node in walk.below(ast.parse(source)) if _changed(node, equivalents.keywords)]


def mutations(source: str, node: ast.AST, equivalents: Equivalents = NONE) -> list[Mutation]:
    """All mutations of one site whose source still parses."""
    found = (_spliced(source, place, text) for place, text in _changed(node, equivalents.keywords))
    return [mutation for mutation in found if mutation is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """Goes through a module; a constant, an expression or an argument that is set aside is not gone into."""

    constants: Collection[str]
    texts: Collection[str]
    keywords: Collection[str]
    rates: Collection[str]

    def below(self, node: ast.AST) -> Iterator[ast.AST]:
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "format_spec"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr) and not self._is_aside(child):
                    if not self._is_rate(getattr(child, "test", None)):  # to turn it is to turn the rate
                        yield child
                    yield from self.below(child)

    def _is_aside(self, node: ast.AST) -> bool:
        if isinstance(node, ast.keyword):
            return node.arg in self.keywords
        if self._is_rate(node):
            return True
        if self.texts and isinstance(node, ast.expr | ast.stmt) and ast.unparse(node) in self.texts:
            return True
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        return isinstance(target, ast.Name) and target.id in self.constants and isinstance(node, ast.stmt)

    def _is_rate(self, node: ast.AST | None) -> bool:
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node = node.operand
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in self.rates


def _unified(text: str) -> str:
    return ast.unparse(ast.parse(text))


def _changed(node: ast.AST, aside: Collection[str]) -> list[tuple[ast.AST, str]]:
    match node:
        case ast.Compare():
            return [
                (node, _replaced(node, "ops", n, other())) for n, op in enumerate(node.ops) for other in _others(op)
            ]
        case ast.BoolOp():
            return [(node, _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))]
        case ast.UnaryOp(op=ast.Not()):
            return [(node, ast.unparse(node.operand))]
        case ast.UnaryOp(op=ast.USub()):
            return [(node, ast.unparse(node.operand))]
        case ast.BinOp() if type(node.op) in _OPERATIONS and not _is_text(node):
            return [(node, _with(node, op=_OPERATIONS[type(node.op)]()))]
        case ast.AugAssign() if type(node.op) in _OPERATIONS:
            return [(node, ast.unparse(_copy(node, op=_OPERATIONS[type(node.op)]())))]
        case ast.Constant():
            return [(node, text) for text in _constants(node.value)]
        case ast.Name() if node.id in _NAMES and isinstance(node.ctx, ast.Load):
            return [(node, _NAMES[node.id])]
        case ast.If() | ast.While() | ast.IfExp() if not _is_type_checking(node.test):
            return [(node.test, f"not ({ast.unparse(node.test)})")]
        case ast.comprehension():
            return [(test, "True") for test in node.ifs]
        case ast.Expr(value=ast.Call()):
            return [(node, "pass")]
        case ast.Return() if node.value is not None and not _is_none(node.value):
            return [(node.value, "None")]
        case ast.Call() if node.keywords:
            named = [(n, keyword.arg) for n, keyword in enumerate(node.keywords) if keyword.arg]
            return [(node, _without(node, n)) for n, name in named if name not in aside]
        case ast.Break():
            return [(node, "continue")]
        case ast.Continue():
            return [(node, "break")]
    return []


def _others(op: ast.cmpop) -> tuple[type[ast.cmpop], ...]:
    return _COMPARISONS[type(op)]


def _constants(value: object) -> list[str]:
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int | float):
        return [repr(value + 1), repr(value - 1)] if abs(value) < _LARGE else ["1"]
    return []


def _copy(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _with(node: ast.expr, **fields: object) -> str:
    return f"({ast.unparse(_copy(node, **fields))})"


def _replaced(node: ast.Compare, field: str, place: int, value: ast.cmpop) -> str:
    values = list(getattr(node, field))
    values[place] = value
    return _with(node, **{field: values})


def _without(node: ast.Call, place: int) -> str:
    return _with(node, keywords=[keyword for n, keyword in enumerate(node.keywords) if n != place])


def _is_text(node: ast.BinOp) -> bool:
    """Adding texts: taking one from the other is no fault anybody makes."""
    sides = (node.left, node.right)
    return any(isinstance(side, ast.JoinedStr) or _is_string(side) for side in sides)


def _is_string(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type_checking(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "TYPE_CHECKING"


def _spliced(source: str, node: ast.AST, text: str) -> Mutation | None:
    """The source with one node's text replaced; None where that is no Python (an argument that must stand)."""
    data, starts = source.encode(), _line_starts(source)
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = starts[node.lineno] + node.col_offset, starts[node.end_lineno] + node.end_col_offset
    changed = (data[:start] + text.encode() + data[end:]).decode()
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
    except SyntaxError:
        return None
    return None if same else Mutation(line=node.lineno, before=data[start:end].decode(), after=text, source=changed)


def _line_starts(source: str) -> list[int]:
    starts = [0, 0]
    for line in source.encode().split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts
