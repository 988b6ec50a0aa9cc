"""PyTorch checkpoints written by hand, instruction by instruction, in both formats: what a reader has to understand."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray[Any, Any]]


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tuple(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"t"


def _tensor(key: str, array: np.ndarray[Any, Any]) -> bytes:
    storage = _tuple(_text("storage"), b"ctorch\nFloatStorage\n", _text(key), _text("cpu"), _number(array.size))
    shape = _tuple(*map(_number, array.shape))
    strides = _tuple(*(_number(step // array.itemsize) for step in array.strides))
    arguments = _tuple(storage + b"Q", _number(0), shape, strides, b"\x89", b"ccollections\nOrderedDict\n)R")
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"R"


def _parameter(tensor: bytes) -> bytes:
    return b"ctorch._utils\n_rebuild_parameter\n" + _tuple(tensor, b"\x88", b"ccollections\nOrderedDict\n)R") + b"R"


def _state_dict(arrays: Arrays) -> bytes:
    items = b"".join(_text(name) + _tensor(str(n), array) for n, (name, array) in enumerate(arrays.items()))
    return b"ccollections\nOrderedDict\n)R(" + items + b"u"


def _module(arrays: Arrays, prefix: str = "") -> bytes:
    """A whole pickled module whose class nobody here has, with modules inside: what is learnt are its parameters, the
    running means are buffers."""
    own = {name: array for name, array in arrays.items() if "." not in name}
    inside = sorted({name.partition(".")[0] for name in arrays if "." in name})
    numbers = {name: n for n, name in enumerate(arrays)}
    tensors = {name: _tensor(prefix + str(numbers[name]), own[name]) for name in own}
    buffers = b"".join(_text(name) + tensors.pop(name) for name in own if name.startswith("running_"))
    parameters = b"".join(_text(name) + _parameter(tensor) for name, tensor in tensors.items())
    children = b"".join(_text(name) + _module(_below(arrays, name), f"{prefix}{name}.") for name in inside)
    groups = {"_parameters": parameters, "_buffers": buffers, "_modules": children}
    state = b"}(" + b"".join(_text(name) + b"}(" + items + b"u" for name, items in groups.items()) + b"u"
    return b"cnobody.knows\nThisNetwork\n)\x81" + state + b"b"


def _below(arrays: Arrays, name: str) -> Arrays:
    return {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{name}.")}


def _keys(arrays: Arrays, prefix: str = "") -> dict[str, np.ndarray[Any, Any]]:
    """Storage keys of a module, as ``_module`` names them."""
    numbers = {name: n for n, name in enumerate(arrays)}
    own = {prefix + str(numbers[name]): array for name, array in arrays.items() if "." not in name}
    for name in sorted({name.partition(".")[0] for name in arrays if "." in name}):
        own |= _keys(_below(arrays, name), f"{prefix}{name}.")
    return own


def write_zip(path: Path, arrays: Arrays, *, index: bytes | None = None, compression: int = zipfile.ZIP_STORED) -> Path:
    """The format since torch 1.6."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", index or b"\x80\x02" + _state_dict(arrays) + b".")
        for number, array in enumerate(arrays.values()):
            archive.writestr(f"archive/data/{number}", np.ascontiguousarray(array).tobytes())
    return path


def write_stream(path: Path, arrays: Arrays, *, as_module: bool = True) -> Path:
    """The format before it: a whole module, or a state dict."""
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    version, machine = b"\x80\x02M\xe9\x03.", b"\x80\x02}."
    held = _keys(arrays) if as_module else {str(n): array for n, array in enumerate(arrays.values())}
    body = _module(arrays) if as_module else _state_dict(arrays)
    keys = b"\x80\x02](" + b"".join(map(_text, held)) + b"e."
    storages = b"".join(
        struct.pack("<q", array.size) + np.ascontiguousarray(array).tobytes() for array in held.values()
    )
    path.write_bytes(magic + version + machine + b"\x80\x02" + body + b"." + keys + storages)
    return path


def normalisation(name: str, channels: int) -> dict[str, np.ndarray[Any, Any]]:
    """A batch normalisation that changes nothing but for its epsilon."""
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    return {
        f"{name}.weight": ones * np.float32(np.sqrt(1 + 1e-5)),
        f"{name}.bias": zeros,
        f"{name}.running_mean": zeros,
        f"{name}.running_var": ones,
    }


def tiny_densenet(findings: int = 18, *, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """A DenseNet of two blocks of one layer each, in the real checkpoint's names and with random weights."""
    dice = np.random.default_rng(seed)
    grown, inner, first = 4, 8, 6

    def weight(*shape: int) -> np.ndarray[Any, Any]:
        return (dice.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    arrays = {"features.conv0.weight": weight(first, 1, 7, 7)} | normalisation("features.norm0", first)
    channels = first
    for block in (1, 2):
        layer = f"features.denseblock{block}.denselayer1"
        arrays |= normalisation(f"{layer}.norm1", channels) | {f"{layer}.conv1.weight": weight(inner, channels, 1, 1)}
        arrays |= normalisation(f"{layer}.norm2", inner) | {f"{layer}.conv2.weight": weight(grown, inner, 3, 3)}
        channels += grown
        if block == 1:
            arrays |= normalisation("features.transition1.norm", channels)
            arrays |= {"features.transition1.conv.weight": weight(channels // 2, channels, 1, 1)}
            channels //= 2
    arrays |= normalisation("features.norm5", channels)
    return arrays | {"classifier.weight": weight(findings, channels), "classifier.bias": weight(findings)}
