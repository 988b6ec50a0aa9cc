"""Read the tensors of a PyTorch checkpoint without running its code."""

from __future__ import annotations

import math
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wardround.core import ConfinedReader, UnreadableBytes, UserError

# Reading a pickle without running it: its instructions move plain values about, and whatever it wants to call or make
# becomes an inert record of that wish. Nothing is imported, nothing is called.


_MOST_STEPS = 5_000_000
_MOST_LEVELS = 100_000


@dataclass(slots=True)
class NamedGlobal:
    """A name that the pickle wants to import; it is only compared, never imported."""

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
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError, StopIteration) as error:
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
        place = next(n for n in range(len(self.stack) - 1, -1, -1) if isinstance(self.stack[n], _Mark))
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def make(machine: _Machine, argument: Any) -> None:
        items = tuple(machine.stack[-count:])
        del machine.stack[-count:]
        machine.stack.append(items)

    return make


def _group_as(kind: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    def make(machine: _Machine, argument: Any) -> None:
        machine.stack.append(kind(machine.group()))

    return make


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(_plain_pair(key, value) for key, value in zip(flat[::2], flat[1::2], strict=True))


def _plain_pair(key: Any, value: Any) -> tuple[Any, Any]:
    """Return a name and its value. Raises ValueError if the name is no plain value: a tuple inside itself can end the
    interpreter."""
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
    """Extend a list or a set. What is appended to an inert object is ignored."""
    if isinstance(target, list):
        target.extend(values)


def _set_item(machine: _Machine, argument: Any) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set(machine.stack[-1], dict([_plain_pair(key, value)]))


def _set_items(machine: _Machine, argument: Any) -> None:
    items = _pairs(machine.group())
    _set(machine.stack[-1], items)


def _set(target: Any, items: Mapping[Any, Any]) -> None:
    target_items = target.items if isinstance(target, InertObject) else target
    target_items.update(items)


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


# The tensors of a PyTorch checkpoint, without PyTorch and without running its code.
#
# Both formats: the zip archive of torch 1.6 and later, and the stream before it; a state dict or a whole pickled
# module. A process of its own reads the file (`core/confined.py`): a few bytes can name a module 2^40 times.


Tensors = dict[str, npt.NDArray[Any]]
Storages = Callable[[str, str, int], npt.NDArray[Any]]
"""Gives a storage by its key, its element type and its length."""
MOST_BYTES = 1024**3
_MOST_COPIES = 4
"""Of the file's size: tensors may share a storage."""
_TYPES = {
    "torch.FloatStorage": "<f4",
    "torch.DoubleStorage": "<f8",
    "torch.HalfStorage": "<f2",
    "torch.LongStorage": "<i8",
    "torch.IntStorage": "<i4",
    "torch.ShortStorage": "<i2",
    "torch.CharStorage": "<i1",
    "torch.ByteStorage": "<u1",
    "torch.BoolStorage": "?",
}
_TENSOR = ("torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3")
_PARAMETER = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
_MAGIC = 0x1950A86A20F9469CFC6C
_WRAPPERS = ("state_dict", "model_state_dict", "model")
_DEEPEST = 64


_READER = ConfinedReader(
    "wardround.tools.imaging.weights.torch_file:read_confined",
    cpu_seconds=60,
    wall_seconds=600.0,
    memory_bytes=6 * 2**30,
)


def read_torch_file(path: Path) -> Tensors:
    """Return the tensors of a checkpoint by name. UserError: it is none, is damaged, takes too much, or holds none."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if size > MOST_BYTES:
        raise UserError(f"{path}: {size:,} bytes are more than any known network has ({MOST_BYTES:,})")
    try:
        header, parts = _READER.read(b"", path=str(path.resolve()), most=_MOST_COPIES * size)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except UnreadableBytes as error:
        raise UserError(f"{path}: no PyTorch checkpoint, or made to take too much ({error})") from None
    described = zip(header["tensors"], parts, strict=True)
    return {name: np.frombuffer(part, kind).reshape(shape) for (name, kind, shape), part in described}


def read_confined(body: bytes, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], list[memoryview]]:
    """Read the file at a path: what the process of its own runs."""
    path = Path(arguments["path"])
    try:
        value, storages = _read_zip(path) if zipfile.is_zipfile(path) else _read_stream(path)
        tensors = _named_tensors(value, storages, arguments["most"])
    except UserError:
        raise
    except Exception as error:  # a foreign file can fail in any way
        raise UserError(f"no PyTorch checkpoint, or damaged ({type(error).__name__})") from error
    if not tensors:
        raise UserError("the file has no tensors; give the downloaded checkpoint")
    header = {"tensors": [(name, one.dtype.str, one.shape) for name, one in tensors.items()]}
    return header, [one.reshape(-1).view(np.uint8).data for one in tensors.values()]


def _read_zip(path: Path) -> tuple[Any, Storages]:
    archive = zipfile.ZipFile(path)
    index = next((name for name in archive.namelist() if name.endswith("data.pkl")), None)
    if index is None:
        raise UserError("a zip archive without data.pkl is no PyTorch checkpoint")
    root = index.removesuffix("data.pkl")
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
        raise UserError("its parts are compressed, which PyTorch never does; it is not read")
    if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
        raise UserError("it was written on a machine of another byte order; save it again on a usual one")

    def storage(key: str, kind: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(archive.read(f"{root}data/{key}"), _TYPES[kind])[:count]

    return read_pickle(BytesIO(archive.read(index))), storage


def _read_stream(path: Path) -> tuple[Any, Storages]:
    """Read the older format: magic number, version and machine; then the index, the storages' keys, and the
    storages."""
    stream = BytesIO(path.read_bytes())
    if read_pickle(stream) != _MAGIC:
        raise UserError("no PyTorch checkpoint: it does not begin like one")
    read_pickle(stream)
    read_pickle(stream)
    value = read_pickle(stream)
    keys = read_pickle(stream)
    widths = {identity[2]: np.dtype(_TYPES[_kind(identity)]).itemsize for identity in _storages_in(value)}
    storages: dict[str, bytes] = {}
    for key in keys:
        count = int.from_bytes(stream.read(8), "little")
        storages[key] = stream.read(count * widths.get(key, 1))

    def storage(key: str, kind: str, count: int) -> npt.NDArray[Any]:
        return np.frombuffer(storages[key], _TYPES[kind])[:count]

    return value, storage


def _storages_in(value: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    _walk(value, found, 0, {})
    return found


def _walk(value: Any, found: list[tuple[Any, ...]], depth: int, seen: dict[int, Any]) -> None:
    """Look at everything once: a file of 156 bytes can name one list 2^60 times."""
    if depth > _DEEPEST or id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, Persistent) and _is_storage(value.identity):
        found.append(value.identity)
    inside: list[Any] = []
    if isinstance(value, InertObject):
        inside = [*value.arguments, value.state, *value.items.values()]
    elif isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, list | tuple):
        inside = list(value)
    for part in inside:
        _walk(part, found, depth + 1, seen)


def _is_storage(identity: Any) -> bool:
    return isinstance(identity, tuple) and len(identity) >= 5 and identity[0] == "storage"


def _kind(identity: tuple[Any, ...]) -> str:
    kind = identity[1]
    name = kind.name if isinstance(kind, NamedGlobal) else str(kind)
    if name not in _TYPES:
        raise UserError(f"it holds numbers of a kind that is not read ({name})")
    return name


def _named_tensors(value: Any, storages: Storages, most: int) -> Tensors:
    """Return the tensors. UserError: they have more than ``most`` bytes, by naming one storage again and again."""
    found: Tensors = {}
    for name, one in _state_dict(value).items():
        tensor = _tensor(one, storages)
        if tensor is not None:
            found[name] = tensor
            most -= tensor.nbytes
        if most < 0:
            raise UserError("its tensors have many times the file's bytes; it is not read")
    return found


def _state_dict(value: Any) -> Mapping[str, Any]:
    """Return a dict of tensors: the file's own, one inside a training checkpoint, or the content of a whole module."""
    if isinstance(value, InertObject) and isinstance(value.state, dict) and "_modules" in value.state:
        return _of_module(value, "", 0)
    entries = value.items if isinstance(value, InertObject) else value
    if not isinstance(entries, dict):
        raise UserError("neither a state dict nor a module is in it")
    inner = next((entries[name] for name in _WRAPPERS if name in entries), None)
    if inner is not None and _tensor_parts(inner) is None:
        return _state_dict(inner)
    return {str(name): part for name, part in entries.items()}


def _of_module(module: InertObject, prefix: str, depth: int) -> dict[str, Any]:
    state = module.state if isinstance(module.state, dict) else {}
    found: dict[str, Any] = {}
    for group in ("_parameters", "_buffers"):
        found |= {f"{prefix}{name}": part for name, part in _entries(state.get(group)).items()}
    for name, part in _entries(state.get("_modules")).items() if depth < _DEEPEST else ():
        if isinstance(part, InertObject):
            found |= _of_module(part, f"{prefix}{name}.", depth + 1)
    return found


def _entries(value: Any) -> Mapping[Any, Any]:
    entries = value.items if isinstance(value, InertObject) else value
    return entries if isinstance(entries, dict) else {}


def _tensor_parts(value: Any) -> tuple[Any, ...] | None:
    if not isinstance(value, InertObject) or not isinstance(value.of, NamedGlobal):
        return None
    if value.of.name in _PARAMETER:
        return _tensor_parts(value.arguments[0])
    return value.arguments if value.of.name in _TENSOR else None


def _tensor(value: Any, storages: Storages) -> npt.NDArray[Any] | None:
    """Return a tensor as an array of its own; None if it is no tensor. Raises UserError beyond its storage."""
    parts = _tensor_parts(value)
    if parts is None:
        return None
    reference, offset, shape, strides = parts[:4]
    if not isinstance(reference, Persistent) or not _is_storage(reference.identity):
        raise UserError("a tensor in it has no storage")
    _, _, key, _, count = reference.identity[:5]
    storage = storages(str(key), _kind(reference.identity), int(count))
    sizes, steps = [int(size) for size in shape], [int(step) for step in strides]
    last = int(offset) + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    counted = math.prod(sizes)
    repeats = any(step < 1 and size > 1 for size, step in zip(sizes, steps, strict=True)) or counted > len(storage)
    if min(sizes, default=1) < 1 or repeats or int(offset) < 0 or last >= len(storage):
        raise UserError("a tensor in it reaches beyond its storage; the file is damaged")
    bytes_apart = [step * storage.itemsize for step in steps]
    view = np.lib.stride_tricks.as_strided(storage[int(offset) :], sizes, bytes_apart, writeable=False)
    return np.array(view)
