"""Building an ONNX graph of a checkpoint's tensors, layer by layer, as the network's own code calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wardround.core import UserError
from wardround.imaging.libraries import needed
from wardround.imaging.weights.torch_file import Tensors

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
        """Return a tensor of the checkpoint. UserError: there is none of that name."""
        if name not in self._tensors:
            raise UserError(f"the checkpoint has no tensor {name!r}: it is of another network")
        return self._tensors[name]

    def has(self, name: str) -> bool:
        """Whether the checkpoint has a tensor."""
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
        """A convolution with the layer's weight, and its bias where it has one."""
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
        held = [self._onnx.numpy_helper.from_array(value, name) for name, value in self._held.items()]
        name, shape = given
        graph = helper.make_graph(
            nodes,
            "wardround",
            [helper.make_tensor_value_info(name, kinds.FLOAT, list(shape))],
            [helper.make_tensor_value_info(one, kinds.FLOAT, [None] * rank) for one, (_, rank) in results.items()],
            held,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        self._onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
