"""DenseNet, ResNet and PSPNet as ONNX graphs of a checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wardround.core import UserError
from wardround.tools.imaging.radiograph import needed
from wardround.tools.imaging.weights.torch_file import Tensors

# Building an ONNX graph of a checkpoint's tensors, layer by layer, as the network's own code calls them.


OPSET = 17
LOGITS, MAPS = "logits", "maps"
"""What a classifier gives: scores, and where in the picture each comes from."""
_EPSILON = 1e-5


class GraphBuilder:
    """Adds nodes to a graph; every method returns the name of its result. Layers are named as in the checkpoint."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._onnx = needed("onnx")
        self._nodes: list[Any] = []
        self._held: dict[str, Any] = {}

    def tensor(self, name: str) -> Any:
        """Return a tensor of the checkpoint. Raises UserError for a missing name."""
        if name not in self._tensors:
            raise UserError(f"the checkpoint has no tensor {name!r}: it is of another network")
        return self._tensors[name]

    def has(self, name: str) -> bool:
        """Return whether the checkpoint has a tensor."""
        return name in self._tensors

    def constant(self, name: str, value: Any) -> str:
        """Hold an array under a name."""
        self._held[name] = np.ascontiguousarray(value)
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node."""
        result = f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [result], **attributes))
        return result

    def convolution(self, value: str, layer: str, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> str:
        """Add a convolution with the layer's weight, and its bias if it has one."""
        weight = self.tensor(f"{layer}.weight")
        inputs = [value, self.constant(f"{layer}.weight", weight.astype(np.float32))]
        if self.has(f"{layer}.bias"):
            inputs.append(self.constant(f"{layer}.bias", self.tensor(f"{layer}.bias").astype(np.float32)))
        return self.node(
            "Conv",
            inputs,
            kernel_shape=list(weight.shape[2:]),
            strides=[stride, stride],
            pads=[padding] * 4,
            dilations=[dilation, dilation],
        )

    def normalised(self, value: str, layer: str) -> str:
        """Batch normalisation as it is at inference."""
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.constant(f"{layer}.{part}", self.tensor(f"{layer}.{part}").astype(np.float32)) for part in parts]
        return self.node("BatchNormalization", [value, *names], epsilon=_EPSILON)

    def rectified(self, value: str) -> str:
        """Nothing below zero."""
        return self.node("Relu", [value])

    def resized(self, value: str, height: int, width: int) -> str:
        """Bilinear, as PyTorch does without ``align_corners``."""
        scale = self.constant(f"scale_{len(self._nodes)}", np.array([], np.float32))
        shape = self.node("Shape", [value], start=0, end=2)
        wanted = self.constant(f"size_{len(self._nodes)}", np.array([height, width], np.int64))
        size = self.node("Concat", [shape, wanted], axis=0)
        return self.node(
            "Resize", [value, "", scale, size], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"
        )

    def classified(self, features: str, layer: str, given: tuple[str, Sequence[int]]) -> bytes:
        """Return the model of a classifier over the mean of its last features: a score for each class, and a map of
        where each comes from."""
        weight = self.tensor(f"{layer}.weight").astype(np.float32)
        kernel = self.constant("maps.weight", weight[:, :, None, None])
        maps = self.node("Conv", [features, kernel], kernel_shape=[1, 1])
        mean = self.node("ReduceMean", [maps], axes=[2, 3], keepdims=0)
        bias = self.constant(f"{layer}.bias", self.tensor(f"{layer}.bias").astype(np.float32))
        return self.finished(given, {LOGITS: (self.node("Add", [mean, bias]), 2), MAPS: (maps, 4)})

    def finished(self, given: tuple[str, Sequence[int]], results: Mapping[str, tuple[str, int]]) -> bytes:
        """Return the model: ``given`` is the input's name and shape, ``results`` by name what they are of and how many
        dimensions they have."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        nodes = [*self._nodes, *(helper.make_node("Identity", [of], [name]) for name, (of, _) in results.items())]
        initializers = [self._onnx.numpy_helper.from_array(value, name) for name, value in self._held.items()]
        name, shape = given
        graph = helper.make_graph(
            nodes,
            "wardround",
            [helper.make_tensor_value_info(name, kinds.FLOAT, list(shape))],
            [helper.make_tensor_value_info(one, kinds.FLOAT, [None] * rank) for one, (_, rank) in results.items()],
            initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


# DenseNet as a graph (Huang et al. 2017, arXiv:1608.06993), with a map of where each finding's score comes from.
#
# The map is the classifier applied to every place of the last features; its mean plus the bias is the score itself
# (class activation mapping, Zhou et al. 2016). Depth and widths are read off the checkpoint.


DENSENET_INPUT = "image"


def densenet_graph(tensors: Tensors, *, size: int) -> bytes:
    """Return a DenseNet of one channel, ``size`` pixels both ways. UserError: the checkpoint is of another network."""
    graph = GraphBuilder(tensors)
    value = graph.convolution(DENSENET_INPUT, "features.conv0", stride=2, padding=3)
    value = graph.rectified(graph.normalised(value, "features.norm0"))
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    block = 1
    while graph.has(f"features.denseblock{block}.denselayer1.conv1.weight"):
        value = _block(graph, value, f"features.denseblock{block}")
        if graph.has(f"features.transition{block}.conv.weight"):
            value = _transition(graph, value, f"features.transition{block}")
        block += 1
    features = graph.rectified(graph.normalised(value, "features.norm5"))
    return graph.classified(features, "classifier", (DENSENET_INPUT, (1, 1, size, size)))


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


# ResNet with bottlenecks as a graph (He et al. 2015, arXiv:1512.03385), laid out and named as torchvision has it.
#
# As with DenseNet the classifier is applied to every place of the last features; its mean plus the bias is the score.
# Depth and widths are read off the checkpoint.


RESNET_INPUT = "image"
_RESNET_STAGES = (("layer1", 1), ("layer2", 2), ("layer3", 2), ("layer4", 2))
"""Each a row of blocks, and how its first one steps: in its 3 x 3 convolution, and beside it."""


def resnet_graph(tensors: Tensors, *, size: int) -> bytes:
    """Return a ResNet of one channel, ``size`` pixels both ways. UserError: the checkpoint is of another network."""
    graph = GraphBuilder(tensors)
    value = graph.convolution(RESNET_INPUT, "conv1", stride=2, padding=3)
    value = graph.rectified(graph.normalised(value, "bn1"))
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, stride in _RESNET_STAGES:
        value = _stage(graph, value, name, stride)
    return graph.classified(value, "fc", (RESNET_INPUT, (1, 1, size, size)))


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


# The pyramid scene parsing network as a graph (Zhao et al. 2017, arXiv:1612.01105), as ChestX-Det's weights have it.
#
# Depth and widths are read off the checkpoint; which blocks are dilated, and the pyramid, are the network's own.


PSPNET_INPUT, MASKS = "image", "masks"
_PYRAMID = (6, 3, 2, 1)
_SHRINKS = 8
"""From the picture to the features of the pyramid."""
_PARALLEL = "module."


class _Stage(NamedTuple):
    """A row of residual blocks: how it steps, and how far apart its kernels reach."""

    name: str
    stride: int
    dilation: int


_PSPNET_STAGES = (
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
    value = _unit(graph, PSPNET_INPUT, "convbnrelu1_1", stride=2, padding=1)
    value = _unit(graph, value, "convbnrelu1_2", padding=1)
    value = _unit(graph, value, "convbnrelu1_3", padding=1)
    value = graph.node("MaxPool", [value], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage in _PSPNET_STAGES:
        value = _residuals(graph, value, stage)
    value = _pyramid(graph, value, size // _SHRINKS)
    value = _unit(graph, value, "cbr_final", padding=1)
    value = graph.convolution(value, "classification")
    masks = graph.resized(value, size, size)
    return graph.finished((PSPNET_INPUT, (1, 3, size, size)), {MASKS: (masks, 4)})


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
