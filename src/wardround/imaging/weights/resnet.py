"""ResNet with bottlenecks as a graph (He et al. 2015, arXiv:1512.03385), laid out and named as torchvision has it.

As with DenseNet the classifier is applied to every place of the last features; its mean plus the bias is the score.
Depth and widths are read off the checkpoint.
"""

from __future__ import annotations

from wardround.core import UserError
from wardround.imaging.weights.graph import GraphBuilder
from wardround.imaging.weights.torch_file import Tensors

INPUT = "image"
_STAGES = (("layer1", 1), ("layer2", 2), ("layer3", 2), ("layer4", 2))
"""Each a row of blocks, and how its first one steps: in its 3 x 3 convolution, and beside it."""


def resnet_graph(tensors: Tensors, *, size: int) -> bytes:
    """Return a ResNet of one channel, ``size`` pixels both ways. UserError: the checkpoint is of another network."""
    graph = GraphBuilder(tensors)
    value = graph.convolution(INPUT, "conv1", stride=2, padding=3)
    value = graph.rectified(graph.normalised(value, "bn1"))
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, stride in _STAGES:
        value = _stage(graph, value, name, stride)
    return graph.classified(value, "fc", (INPUT, (1, 1, size, size)))


def _stage(graph: GraphBuilder, value: str, name: str, stride: int) -> str:
    number = 0
    while graph.has(f"{name}.{number}.conv3.weight"):
        value = _bottleneck(graph, value, f"{name}.{number}", stride if number == 0 else 1)
        number += 1
    if number == 0:
        raise UserError(f"the checkpoint has no {name!r} of bottlenecks: it is of another network")
    return value


def _bottleneck(graph: GraphBuilder, value: str, name: str, stride: int) -> str:
    inner = graph.rectified(graph.normalised(graph.convolution(value, f"{name}.conv1"), f"{name}.bn1"))
    inner = graph.convolution(inner, f"{name}.conv2", stride=stride, padding=1)
    inner = graph.rectified(graph.normalised(inner, f"{name}.bn2"))
    inner = graph.normalised(graph.convolution(inner, f"{name}.conv3"), f"{name}.bn3")
    beside = value
    if graph.has(f"{name}.downsample.0.weight"):
        beside = graph.convolution(value, f"{name}.downsample.0", stride=stride)
        beside = graph.normalised(beside, f"{name}.downsample.1")
    return graph.rectified(graph.node("Add", [inner, beside]))
