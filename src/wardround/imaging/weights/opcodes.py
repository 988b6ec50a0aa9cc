"""Reading a pickle without running it: its instructions move plain values about, and whatever it wants to call or make
becomes an inert record of that wish. Nothing is imported, nothing is called.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from wardround.core import UserError

_MOST_STEPS = 5_000_000
_MOST_LEVELS = 100_000


@dataclass(slots=True)
class NamedGlobal:
    """A name that the pickle wants to import, and is only told apart by."""

    name: str


@dataclass(slots=True)
class InertObject:
    """An object that the pickle wants to make: of what, with what, and the state it sets."""

    of: Any
    arguments: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Persistent:
    """A reference to something outside the pickle: a storage."""

    identity: Any


class _Mark:
    """Where a group of values on the stack begins."""


def read_pickle(stream: BytesIO) -> Any:
    """Return the value of the next pickle of a stream, made of plain values and inert records."""
    machine = _Machine()
    try:
        for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if step > _MOST_STEPS or len(machine.stack) > _MOST_LEVELS:
                raise UserError("the file's index is larger than any network's; it is not read")
            machine.do(opcode.name, argument)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"the file's index is damaged ({type(error).__name__})") from error
    return machine.stack.pop()


class _Machine:
    """The stack and the memo of one pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def do(self, name: str, argument: Any) -> None:
        """Do one instruction. UserError: one that no network's file needs."""
        if name in _VALUES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _STEPS:
            _STEPS[name](self, argument)
        elif name not in _NOTHING:
            raise UserError(f"the file's index holds the instruction {name}, which no network's file needs")

    def group(self) -> list[Any]:
        """Take everything down to the latest mark."""
        place = max(n for n, value in enumerate(self.stack) if isinstance(value, _Mark))
        taken = self.stack[place + 1 :]
        del self.stack[place:]
        return taken


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def make(machine: _Machine, argument: Any) -> None:
        taken = tuple(machine.stack[-count:])
        del machine.stack[-count:]
        machine.stack.append(taken)

    return make


def _group_as(kind: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    def make(machine: _Machine, argument: Any) -> None:
        machine.stack.append(kind(machine.group()))

    return make


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(_plain_pair(key, value) for key, value in zip(flat[::2], flat[1::2], strict=True))


def _plain_pair(key: Any, value: Any) -> tuple[Any, Any]:
    """A name and what it names. ValueError: the name is no plain value; a tuple in itself can end the interpreter."""
    if not isinstance(key, str | int | float | bytes | None):
        raise ValueError(f"a name in it is a {type(key).__name__}")
    return key, value


def _remember(machine: _Machine, argument: Any) -> None:
    machine.memo[len(machine.memo) if argument is None else int(argument)] = machine.stack[-1]


def _recall(machine: _Machine, argument: Any) -> None:
    machine.stack.append(machine.memo[int(argument)])


def _append(machine: _Machine, argument: Any) -> None:
    value = machine.stack.pop()
    _extend(machine.stack[-1], [value])


def _appends(machine: _Machine, argument: Any) -> None:
    values = machine.group()
    _extend(machine.stack[-1], values)


def _extend(target: Any, values: list[Any]) -> None:
    """What is appended to an inert object is of no interest; a list or a set grows."""
    if isinstance(target, list):
        target.extend(values)


def _set_item(machine: _Machine, argument: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set(machine.stack[-1], dict([_plain_pair(key, value)]))


def _set_items(machine: _Machine, argument: Any) -> None:
    items = _pairs(machine.group())
    _set(machine.stack[-1], items)


def _set(target: Any, items: Mapping[Any, Any]) -> None:
    held = target.items if isinstance(target, InertObject) else target
    held.update(items)


def _global(machine: _Machine, argument: Any) -> None:
    machine.stack.append(NamedGlobal(".".join(str(argument).split(" ", 1))))


def _stack_global(machine: _Machine, argument: Any) -> None:
    name, module = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(NamedGlobal(f"{module}.{name}"))


def _make(machine: _Machine, argument: Any) -> None:
    arguments, of = machine.stack.pop(), machine.stack.pop()
    machine.stack.append(InertObject(of, tuple(arguments)))


def _make_named(machine: _Machine, argument: Any) -> None:
    named, arguments, of = machine.stack.pop(), machine.stack.pop(), machine.stack.pop()
    machine.stack.append(InertObject(of, (*arguments, named)))


def _build(machine: _Machine, argument: Any) -> None:
    state = machine.stack.pop()
    target = machine.stack[-1]
    if isinstance(target, InertObject):
        target.state = state


def _persistent(machine: _Machine, argument: Any) -> None:
    machine.stack.append(Persistent(machine.stack.pop() if argument is None else argument))


def _mark(machine: _Machine, argument: Any) -> None:
    machine.stack.append(_Mark())


def _pop(machine: _Machine, argument: Any) -> None:
    machine.stack.pop()


def _pop_mark(machine: _Machine, argument: Any) -> None:
    machine.group()


def _again(machine: _Machine, argument: Any) -> None:
    machine.stack.append(machine.stack[-1])


_VALUES = frozenset(
    {"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"}
    | {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
    | {"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
)
_NOTHING = frozenset({"PROTO", "FRAME", "STOP"})
_CONSTANTS: Mapping[str, Callable[[], Any]] = {
    "NONE": type(None),
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,
}
_STEPS: Mapping[str, Callable[[_Machine, Any], None]] = {
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _pop_mark,
    "DUP": _again,
    "TUPLE": _group_as(tuple),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "LIST": _group_as(list),
    "DICT": _group_as(_pairs),
    "FROZENSET": _group_as(tuple),
    "APPEND": _append,
    "APPENDS": _appends,
    "ADDITEMS": _appends,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "PUT": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "MEMOIZE": _remember,
    "GET": _recall,
    "BINGET": _recall,
    "LONG_BINGET": _recall,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _make,
    "NEWOBJ": _make,
    "NEWOBJ_EX": _make_named,
    "BUILD": _build,
    "PERSID": _persistent,
    "BINPERSID": _persistent,
}
"""Instructions that move values. Those that make an object of a class by name alone (INST, OBJ) are refused."""
