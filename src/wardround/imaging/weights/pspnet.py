"""The pyramid scene parsing network as a graph (Zhao et al. 2017, arXiv:1612.01105), as ChestX-Det's weights have it.

Depth and widths are read off the checkpoint; which blocks are dilated, and the pyramid, are the network's own.
"""

from __future__ import annotations

from typing import NamedTuple

from wardround.core import UserError
from wardround.imaging.weights.graph import GraphBuilder
from wardround.imaging.weights.torch_file import Tensors

INPUT, MASKS = "image", "masks"
_PYRAMID = (6, 3, 2, 1)
_SHRINKS = 8
"""From the picture to the features of the pyramid."""
_PARALLEL = "module."


class _Stage(NamedTuple):
    """A row of residual blocks: how it steps, and how far apart its kernels reach."""

    name: str
    stride: int
    dilation: int


_STAGES = (
    _Stage("res_block2", 1, 1),
    _Stage("res_block3", 2, 1),
    _Stage("res_block4", 1, 2),
    _Stage("res_block5", 1, 4),
)


def pspnet_graph(tensors: Tensors, *, size: int) -> bytes:
    """Return the network for pictures of three channels, ``size`` pixels both ways, a multiple of 8.

    UserError: the checkpoint is of another network.
    """
    if size % _SHRINKS or size // _SHRINKS < max(_PYRAMID):
        raise UserError(f"this network takes pictures of a multiple of {_SHRINKS} pixels, not {size}")
    graph = GraphBuilder({name.removeprefix(_PARALLEL): value for name, value in tensors.items()})
    value = _unit(graph, INPUT, "convbnrelu1_1", stride=2, padding=1)
    value = _unit(graph, value, "convbnrelu1_2", padding=1)
    value = _unit(graph, value, "convbnrelu1_3", padding=1)
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in _STAGES:
        value = _residuals(graph, value, stage)
    value = _pyramid(graph, value, size // _SHRINKS)
    value = _unit(graph, value, "cbr_final", padding=1)
    value = graph.convolution(value, "classification")
    masks = graph.resized(value, size, size)
    return graph.finished((INPUT, (1, 3, size, size)), {MASKS: (masks, 4)})


def _unit(graph: GraphBuilder, value: str, name: str, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> str:
    """Convolution, normalisation and rectifier."""
    return graph.rectified(
        _plain_unit(graph, value, f"{name}.cbr_unit", stride=stride, padding=padding, dilation=dilation)
    )


def _plain_unit(
    graph: GraphBuilder, value: str, name: str, *, stride: int = 1, padding: int = 0, dilation: int = 1
) -> str:
    value = graph.convolution(value, f"{name}.0", stride=stride, padding=padding, dilation=dilation)
    return graph.normalised(value, f"{name}.1")


def _residuals(graph: GraphBuilder, value: str, stage: _Stage) -> str:
    number = 0
    while graph.has(f"{stage.name}.layers.{number}.cbr1.cbr_unit.0.weight"):
        here = f"{stage.name}.layers.{number}"
        stride = stage.stride if number == 0 else 1
        inner = _unit(graph, value, f"{here}.cbr1")
        inner = _unit(graph, inner, f"{here}.cbr2", stride=stride, padding=stage.dilation, dilation=stage.dilation)
        inner = _plain_unit(graph, inner, f"{here}.cb3.cb_unit")
        around = _plain_unit(graph, value, f"{here}.cb4.cb_unit", stride=stride) if number == 0 else value
        value = graph.rectified(graph.node("Add", [inner, around]))
        number += 1
    if number == 0:
        raise UserError(f"the checkpoint has no {stage.name!r}: it is of another network")
    return value


def _pyramid(graph: GraphBuilder, value: str, side: int) -> str:
    parts = [value]
    for number, pieces in enumerate(_PYRAMID):
        step = side // pieces
        pooled = graph.node("AveragePool", [value], kernel_shape=[step, step], strides=[step, step])
        pooled = _unit(graph, pooled, f"pyramid_pooling.path_module_list.{number}")
        parts.append(graph.resized(pooled, side, side))
    return graph.node("Concat", parts, axis=1)
