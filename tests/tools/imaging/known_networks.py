"""Small networks with known answers, as graphs of the real shape: what they find can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from wardround.tools.imaging.weights import find_known

CLASSIFIER, SEGMENTATION = "densenet121-res224-all", "chestx-det-pspnet"
LABELS = find_known(CLASSIFIER).labels
ORGANS = find_known(SEGMENTATION).labels


def _saved(
    path: Path, nodes: Sequence[Any], shape: Sequence[int], outputs: Sequence[str], held: dict[str, Any]
) -> Path:
    given = [helper.make_tensor_value_info("image", TensorProto.FLOAT, list(shape))]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    constants = [numpy_helper.from_array(value, name) for name, value in held.items()]
    graph = helper.make_graph(list(nodes), "known", given, results, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def brightness_classifier(path: Path, finding: str = "Lung Opacity", *, bias: float = 0.0) -> Path:
    """Scores one finding by how bright a 7 x 7 raster of the film is: its map is the mean pixel, from -1024 to 1024,
    over 1024; its logit the mean of the map plus ``bias``. All other findings have the logit -20."""
    weight = np.zeros((len(LABELS), 1, 32, 32), np.float32)
    weight[LABELS.index(finding)] = 1.0 / (32 * 32 * 1024)
    biases = np.full(len(LABELS), -20.0, np.float32)
    biases[LABELS.index(finding)] = bias
    nodes = [
        helper.make_node("Conv", ["image", "weight"], ["maps"], kernel_shape=[32, 32], strides=[32, 32]),
        helper.make_node("ReduceMean", ["maps"], ["mean"], axes=[2, 3], keepdims=0),
        helper.make_node("Add", ["mean", "bias"], ["logits"]),
    ]
    return _saved(path, nodes, (1, 1, 224, 224), ("logits", "maps"), {"weight": weight, "bias": biases})


def drawn_segmentation(path: Path, masks: dict[str, Any]) -> Path:
    """Says of every film that these are its organs (512 x 512 masks): logits 10 inside and -10 outside."""
    drawn = np.full((1, len(ORGANS), 512, 512), -10.0, np.float32)
    for name, mask in masks.items():
        drawn[0, ORGANS.index(name)][mask] = 10.0
    nodes = [
        helper.make_node("ReduceMean", ["image"], ["mean"], keepdims=1),
        helper.make_node("Mul", ["mean", "nothing"], ["zero"]),
        helper.make_node("Add", ["drawn", "zero"], ["masks"]),
    ]
    return _saved(path, nodes, (1, 3, 512, 512), ("masks",), {"drawn": drawn, "nothing": np.zeros(1, np.float32)})


def handed_back(path: Path) -> Path:
    """Says of every film that its organs are its channels: the first is the red one, the second the green one ..."""
    nodes = [helper.make_node("Gather", ["image", "channels"], ["masks"], axis=1)]
    channels = np.arange(len(ORGANS), dtype=np.int64) % 3
    return _saved(path, nodes, (1, 3, 512, 512), ("masks",), {"channels": channels})
