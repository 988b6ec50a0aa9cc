"""ONNX graphs of published networks are checked, kept by their hash and verified; no pickle is read."""

from __future__ import annotations

import math
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra [imaging]")
pytest.importorskip("onnx", reason="graphs are made with it")

import onnx
from known_networks import CLASSIFIER, SEGMENTATION, brightness_classifier

from wardround.cli.main import main
from wardround.core import UserError
from wardround.tools.imaging.weights import ModelStore, NeuralNetwork, find_known, known_models

EXAMPLES = Path(__file__).parents[3] / "examples"


class Touch:
    """A pickle of it makes a file when it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.file,)


def test_no_pickle_is_read(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    for name, message in (("evil.pt", "expected an ONNX graph"), ("evil.onnx", "not a graph that can be run")):
        (tmp_path / name).write_bytes(pickle.dumps(Touch(touched)))
        with pytest.raises(UserError, match=f"{name}: {message}") as failure:
            ModelStore(tmp_path / "store").add(CLASSIFIER, tmp_path / name)
        assert "\n" not in str(failure.value)
    assert not touched.exists()


@pytest.mark.parametrize("name", ["resnet50-res512-all", SEGMENTATION])
def test_a_graph_of_another_network_says_which_was_meant(tmp_path: Path, name: str) -> None:
    """A classifier of 224 pixels is neither one of 512 pixels nor a segmentation."""
    graph = brightness_classifier(tmp_path / "other.onnx")
    with pytest.raises(UserError, match=rf"of another network; {name} is published at https://"):
        ModelStore(tmp_path / "store").add(name, graph)


def test_a_graph_without_a_fixed_size_is_one_line(tmp_path: Path) -> None:
    graph = onnx.load(brightness_classifier(tmp_path / "graph.onnx"))
    for size in graph.graph.input[0].type.tensor_type.shape.dim[1:]:
        size.dim_param = "any"
    onnx.save(graph, str(tmp_path / "any.onnx"))
    with pytest.raises(UserError, match=r"any\.onnx: expected one input of floats"):
        ModelStore(tmp_path / "store").add(CLASSIFIER, tmp_path / "any.onnx")


def test_weights_are_added_listed_verified_and_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = brightness_classifier(tmp_path / "all.onnx"), str(tmp_path / "store")
    assert main(["models", "add", "densenet121-res224-all", str(file), "--folder", folder]) == 0
    assert "trained on NIH ChestX-ray14" in capsys.readouterr().out
    assert main(["models", "list", "--folder", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [("here" in line, "missing" in line) for line in lines if "densenet121-res224-all" in line] == [
        (True, False)
    ]
    assert main(["models", "verify", "--folder", folder]) == 0
    graph = tmp_path / "store" / "densenet121-res224-all" / "model.onnx"
    graph.write_bytes(graph.read_bytes() + b"x")
    assert main(["models", "verify", "--folder", folder]) == 1
    assert "its graph has changed" in capsys.readouterr().out
    words = ["models", "add", "densenet121-res224-all", str(file), "--folder", folder, "--sha256", "0" * 64]
    assert main(words) == 2
    assert main(["models", "add", "chexpert-mimic-cxr-findings", str(tmp_path), "--folder", folder]) == 2
    assert "pickles and are not read" in capsys.readouterr().err


def test_operating_points_are_the_published_ones_where_the_library_is_there() -> None:
    published = pytest.importorskip("torchxrayvision.models", reason="labels of the library itself").model_urls
    for name, known in known_models().items():
        if known.kind == "classifier":
            said = published[name.removeprefix("densenet121-res224-") if name not in published else name]
            kept = [
                not math.isnan(point) and label != ""
                for point, label in zip(said["op_threshs"], said["labels"], strict=True)
            ]
            assert [bool(label) for label in known.labels] == kept, name
            assert [label for label in known.labels if label] == [
                label for label, keep in zip(said["labels"], kept, strict=True) if keep
            ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [CLASSIFIER, "resnet50-res512-all", SEGMENTATION])
def test_published_networks_are_converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Files as they are published, with random weights: the graph computes what the library computes."""
    torch = pytest.importorskip("torch", reason="converting needs torch")
    library = pytest.importorskip("torchxrayvision", reason="converting needs torchxrayvision")
    pytest.importorskip("onnxscript", reason="converting needs onnxscript")
    torch.manual_seed(4)
    file = tmp_path / find_known(name).file
    if name == CLASSIFIER:  # a whole pickled module
        network = library.models.DenseNet(num_classes=18, in_channels=1).eval()
        torch.save(network, file)
    elif name == SEGMENTATION:  # numbers of a network that was trained in parallel
        network = library.baseline_models.chestx_det.ptsemseg.pspnet.pspnet(14).eval()
        torch.save({f"module.{key}": value for key, value in network.state_dict().items()}, file)
    else:
        layers = pytest.importorskip("torchvision", reason="has the layers of ResNet")
        network = layers.models.resnet50(num_classes=18, weights=None).eval()
        network.conv1 = torch.nn.Conv2d(1, 64, 7, 2, 3, bias=False)
        torch.save(network.state_dict(), file)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    graph = tmp_path / "graph.onnx"
    monkeypatch.setattr(sys, "argv", ["convert", name, str(graph), "--cache", str(tmp_path)])
    import convert_chest_weights

    assert convert_chest_weights.main() == 0
    found = NeuralNetwork(ModelStore(tmp_path / "store").add(name, graph).graph)
    picture = np.random.default_rng(2).normal(size=(1, found.channels, found.size, found.size)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(picture)).numpy()
    outputs = found.run(picture)
    scores = outputs["masks" if name == SEGMENTATION else "logits"]
    assert np.abs(scores - expected).max() <= 1e-5 * np.abs(expected).max()
    if name != SEGMENTATION:  # the mean of a finding's map and its bias are its score
        bias = (network.classifier if name == CLASSIFIER else network.fc).bias.detach().numpy()
        assert np.allclose(outputs["maps"].mean(axis=(2, 3)) + bias, expected, atol=1e-4)
