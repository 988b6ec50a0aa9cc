"""DenseNet as a graph (Huang et al. 2017, arXiv:1608.06993), with a map of where each finding's score comes from.

The map is the classifier applied to every place of the last features; its mean plus the bias is the score itself
(class activation mapping, Zhou et al. 2016). Depth and widths are read off the checkpoint.
"""

from __future__ import annotations

from wardround.imaging.weights.graph import GraphBuilder
from wardround.imaging.weights.torch_file import Tensors

INPUT = "image"


def densenet_graph(tensors: Tensors, *, size: int) -> bytes:
    """Return a DenseNet of one channel, ``size`` pixels both ways. UserError: the checkpoint is of another network."""
    graph = GraphBuilder(tensors)
    value = graph.convolution(INPUT, "features.conv0", stride=2, padding=3)
    value = graph.rectified(graph.normalised(value, "features.norm0"))
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    block = 1
    while graph.has(f"features.denseblock{block}.denselayer1.conv1.weight"):
        value = _block(graph, value, f"features.denseblock{block}")
        if graph.has(f"features.transition{block}.conv.weight"):
            value = _transition(graph, value, f"features.transition{block}")
        block += 1
    features = graph.rectified(graph.normalised(value, "features.norm5"))
    return graph.classified(features, "classifier", (INPUT, (1, 1, size, size)))


def _block(graph: GraphBuilder, value: str, name: str) -> str:
    layer = 1
    while graph.has(f"{name}.denselayer{layer}.conv1.weight"):
        here = f"{name}.denselayer{layer}"
        new = graph.rectified(graph.normalised(value, f"{here}.norm1"))
        new = graph.convolution(new, f"{here}.conv1")
        new = graph.rectified(graph.normalised(new, f"{here}.norm2"))
        new = graph.convolution(new, f"{here}.conv2", padding=1)
        value = graph.node("Concat", [value, new], axis=1)
        layer += 1
    return value


def _transition(graph: GraphBuilder, value: str, name: str) -> str:
    value = graph.rectified(graph.normalised(value, f"{name}.norm"))
    value = graph.convolution(value, f"{name}.conv")
    return graph.node("AveragePool", [value], kernel_shape=[2, 2], strides=[2, 2])
