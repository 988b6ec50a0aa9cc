"""Checkpoints are read without running them, become graphs that compute the same, and lie in a folder by their hash."""

from __future__ import annotations

import math
import pickle
import struct
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs the extra [imaging]")
pytest.importorskip("onnx", reason="needs the extra [imaging]")

import onnx
from torch_files import normalisation, tiny_densenet, write_stream, write_zip

from wardround.cli.main import main
from wardround.core import UserError
from wardround.tools.imaging.weights import ModelStore, known_models, read_torch_file, torch_file
from wardround.tools.imaging.weights.architectures import densenet_graph, pspnet_graph, resnet_graph
from wardround.tools.imaging.weights.model_store import NeuralNetwork
from wardround.tools.imaging.weights.torch_file import read_pickle

ARRAYS = tiny_densenet()


def test_both_formats_give_the_tensors_that_were_written(tmp_path: Path) -> None:
    files = [
        write_zip(tmp_path / "zip.pt", ARRAYS),
        write_stream(tmp_path / "module.pt", ARRAYS),
        write_stream(tmp_path / "dict.pt", ARRAYS, as_module=False),
    ]
    for file in files:
        read = read_torch_file(file)
        assert read.keys() == ARRAYS.keys()
        assert all(np.array_equal(read[name], array) for name, array in ARRAYS.items())


SHARED = ("x", 1)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        [(), (1,), (1, "b"), (1, (2, (3,)), 4), (1, 2, 3, 4), ((1, 2, 3), (4, 5), (6,))],
        {"a": [1, -2, 300, 70_000, 1 << 40, -(1 << 80), 0.25, True, False, None], 3: {"b": [], 2.5: {}}},
        [SHARED, SHARED, [SHARED], "ü" * 300],
        ["one"],
        {"one": 1},
    ],
)
def test_plain_values_are_what_they_were_in_whatever_form_they_are_written(value: Any, protocol: int) -> None:
    assert read_pickle(BytesIO(pickle.dumps(value, protocol))) == value


def test_a_checkpoint_that_wants_to_run_something_runs_nothing(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    text = f"touch {touched}".encode()
    call = b"cposix\nsystem\n(X" + struct.pack("<I", len(text)) + text + b"tR."
    for index in (b"\x80\x02" + call, b"\x80\x02}(X\x01\x00\x00\x00a" + call[:-1] + b"u."):
        with pytest.raises(UserError):
            read_torch_file(write_zip(tmp_path / "evil.pt", ARRAYS, index=index))
    assert not touched.exists()


@pytest.mark.parametrize(
    "index", [b"", b"\x80\x02", b"R.", b"\x80\x02(i", b"\x80\x02\x82\x01.", b"h\x05.", b"\x80\x02]."]
)
def test_a_broken_index_is_one_line(tmp_path: Path, index: bytes) -> None:
    with pytest.raises(UserError, match=r"evil\.pt: "):
        read_torch_file(write_zip(tmp_path / "evil.pt", ARRAYS, index=index or b"\x00"))


def test_tensors_that_reach_beyond_their_storage_are_refused(tmp_path: Path) -> None:
    large = {"a": np.zeros((4, 4), np.float32)}
    file = write_zip(tmp_path / "large.pt", large)
    with zipfile.ZipFile(file) as archive:
        four, many = b"J\x04\x00\x00\x00t", b"J\xff\x00\x00\x00t"
        index = archive.read("archive/data.pkl").replace(four, many)
    with pytest.raises(UserError, match="beyond its storage"):
        read_torch_file(write_zip(tmp_path / "evil.pt", large, index=index))


def test_a_tensor_that_repeats_its_storage_without_end_is_refused(tmp_path: Path) -> None:
    """430 bytes that name 2^40 elements, all of them the first one."""
    large = {"a": np.zeros((4, 4), np.float32)}
    with zipfile.ZipFile(write_zip(tmp_path / "large.pt", large)) as archive:
        sizes = b"(J\x04\x00\x00\x00J\x04\x00\x00\x00t"
        index = archive.read("archive/data.pkl").replace(sizes, b"(" + 2 * b"\x8a\x03\x00\x00\x10" + b"t", 1)
        index = index.replace(b"(J\x04\x00\x00\x00J\x01\x00\x00\x00t", b"(K\x00K\x00t", 1)
    with pytest.raises(UserError, match="beyond its storage"):
        read_torch_file(write_zip(tmp_path / "evil.pt", large, index=index))


@pytest.mark.parametrize(
    "index",
    [
        b"\x80\x02}" + b")" + 100_000 * b"\x85" + b"K\x01s.",  # a name that is a tuple in a tuple in a tuple ...
        b"\x80\x02](" + b"]q\x00" + 30 * b"h\x00" + b"e.",
        b"\x80\x02}q\x00(X\x05\x00\x00\x00modelh\x00u.",  # a dict that holds itself
    ],
)
def test_an_index_made_to_end_the_reader_is_one_line(tmp_path: Path, index: bytes) -> None:
    with pytest.raises(UserError, match=r"evil\.pt: ") as failure:
        read_torch_file(write_zip(tmp_path / "evil.pt", ARRAYS, index=index))
    assert "\n" not in str(failure.value)


def test_a_stream_that_names_one_list_again_and_again_is_walked_once(tmp_path: Path) -> None:
    """Each list holds the one before it twice: 2^60 ways lead to the first one."""
    doubled = b"]q\x00" + b"".join(b"](h" + bytes([n]) + b"h" + bytes([n]) + b"eq" + bytes([n + 1]) for n in range(60))
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    file = tmp_path / "evil.pt"
    file.write_bytes(magic + b"\x80\x02M\xe9\x03." + b"\x80\x02}." + b"\x80\x02" + doubled + b"." + b"\x80\x02].")
    with pytest.raises(UserError, match=r"evil\.pt: "):
        read_torch_file(file)


_MODULE, _NAMED = b"cnobody\nknows\n)\x81", b"}(X\x08\x00\x00\x00_modules"
_CHAIN = b"".join(
    _MODULE + _NAMED + b"}(X\x01\x00\x00\x00ah%cX\x01\x00\x00\x00bh%cuubq%c" % (n, n, n + 1) for n in range(40)
)


@pytest.mark.parametrize(
    "index",
    [
        _MODULE + _NAMED + b"}ubq\x00" + _CHAIN,  # each module holds the one before it twice
        b"](" + b"K\x01" * 90_000 + b"eq\x00" + b"ca\nb\nh\x00R" * 9_000,  # a list of arguments, copied by each call
    ],
)
def test_an_index_made_to_burn_time_or_memory_ends_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: bytes
) -> None:
    frugal = replace(torch_file._READER, cpu_seconds=1, memory_bytes=2**29)
    monkeypatch.setattr(torch_file, "_READER", frugal)
    evil = write_zip(tmp_path / "evil.pt", ARRAYS, index=b"\x80\x04" + index + b".")
    with pytest.raises(
        UserError, match=r"evil\.pt: no PyTorch checkpoint, or (made to take too much|damaged \(Memory)"
    ):
        read_torch_file(evil)
    assert set(read_torch_file(write_zip(tmp_path / "good.pt", ARRAYS))) == set(ARRAYS), "the next is read as ever"
    frugal.close()


def test_many_tensors_of_one_storage_are_counted(tmp_path: Path) -> None:
    """Two that share it are read; 20 copies of 64,000 bytes are not."""
    one = {"a": np.zeros(16_000, np.float32)}
    with zipfile.ZipFile(write_zip(tmp_path / "one.pt", one)) as archive:
        index = archive.read("archive/data.pkl")
    item = index[index.index(b"X\x01\x00\x00\x00a") : index.rindex(b"u")]

    def named(count: int) -> Path:
        items = b"".join(item.replace(b"a", b"%c" % (97 + n), 1) for n in range(count))
        return write_zip(tmp_path / f"{count}.pt", one, index=index.replace(item, items))

    assert sorted(read_torch_file(named(2))) == ["a", "b"]
    with pytest.raises(UserError, match="many times the file's bytes"):
        read_torch_file(named(20))


def test_compressed_parts_are_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="compressed"):
        read_torch_file(write_zip(tmp_path / "bomb.pt", ARRAYS, compression=zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(write_zip(tmp_path / "one.pt", ARRAYS), "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/99", b"\0" * 100_000)
    with pytest.raises(UserError, match="compressed"):
        read_torch_file(tmp_path / "one.pt")


def test_a_graph_computes_a_densenet_by_hand(tmp_path: Path) -> None:
    """One finding, weights that are ones: the score is the last features' mean, which can be followed by hand."""
    arrays = {name: np.zeros_like(array) for name, array in ARRAYS.items()}
    for name, array in ARRAYS.items():
        if "norm" in name:
            arrays[name] = array
    arrays["features.conv0.weight"][:, 0, 3, 3] = 1.0  # passes every second pixel on
    arrays["features.transition1.conv.weight"][0, 0] = 1.0  # keeps one of the channels that came so far
    arrays["classifier.weight"][0, 0] = 2.0
    arrays["classifier.bias"][0] = 0.25
    (tmp_path / "hand.onnx").write_bytes(densenet_graph(arrays, size=32))
    picture = np.full((1, 1, 32, 32), 3.0, np.float32)
    found = NeuralNetwork(tmp_path / "hand.onnx").run(picture)
    assert found["logits"].shape == (1, 18)
    assert found["maps"].shape == (1, 18, 4, 4)
    assert found["logits"][0, :2].tolist() == pytest.approx([2 * 3.0 + 0.25, 0.0], abs=1e-4)
    assert found["maps"][0, 0].mean() + 0.25 == pytest.approx(float(found["logits"][0, 0]), abs=1e-5)


def test_a_file_of_another_network_says_which_was_meant(tmp_path: Path) -> None:
    file = write_zip(tmp_path / "other.pt", {"fc.weight": np.zeros((2, 2), np.float32)})
    with pytest.raises(UserError, match=r"of another network; densenet121-res224-all is published at https://"):
        ModelStore(tmp_path / "store").add("densenet121-res224-all", file)


def test_weights_are_added_listed_verified_and_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = write_zip(tmp_path / "all.pt", ARRAYS), str(tmp_path / "store")
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


def _torch_densenet(torch: Any) -> Any:
    """The tiny network with torch's own layers."""
    nn = torch.nn

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 8, 1, bias=False)
            self.norm2, self.conv2 = nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3, padding=1, bias=False)

        def forward(self, x: Any) -> Any:
            new = self.conv2(torch.relu(self.norm2(self.conv1(torch.relu(self.norm1(x))))))
            return torch.cat([x, new], 1)

    class Whole(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            features = nn.Module()
            features.conv0, features.norm0 = nn.Conv2d(1, 6, 7, 2, 3, bias=False), nn.BatchNorm2d(6)
            features.denseblock1, features.transition1 = nn.Module(), nn.Module()
            features.denseblock1.denselayer1 = Layer(6)
            features.transition1.norm, features.transition1.conv = nn.BatchNorm2d(10), nn.Conv2d(10, 5, 1, bias=False)
            features.denseblock2 = nn.Module()
            features.denseblock2.denselayer1 = Layer(5)
            features.norm5 = nn.BatchNorm2d(9)
            self.features, self.classifier = features, nn.Linear(9, 18)

        def forward(self, x: Any) -> Any:
            f = self.features
            x = nn.functional.max_pool2d(torch.relu(f.norm0(f.conv0(x))), 3, 2, 1)
            x = f.denseblock1.denselayer1(x)
            x = nn.functional.avg_pool2d(f.transition1.conv(torch.relu(f.transition1.norm(x))), 2, 2)
            x = torch.relu(f.norm5(f.denseblock2.denselayer1(x)))
            return self.classifier(x.mean((2, 3)))

    return Whole()


def _tiny_resnet() -> dict[str, Any]:
    """Two bottlenecks in the first row and one in the others, in torchvision's names, with random weights."""
    dice = np.random.default_rng(11)
    arrays: dict[str, Any] = {}

    def convolution(name: str, made: int, given: int, side: int) -> None:
        size = (made, given, side, side)
        arrays[f"{name}.weight"] = (dice.normal(size=size) / np.sqrt(given * side * side)).astype(np.float32)

    convolution("conv1", 6, 1, 7)
    arrays.update(normalisation("bn1", 6))
    given = 6
    for stage, (width, blocks) in enumerate(((4, 2), (4, 1), (6, 1), (6, 1)), start=1):
        for number in range(blocks):
            here, made = f"layer{stage}.{number}", 2 * width
            for part, (out, into, side) in enumerate(((width, given, 1), (width, width, 3), (made, width, 1)), start=1):
                convolution(f"{here}.conv{part}", out, into, side)
                arrays.update(normalisation(f"{here}.bn{part}", out))
            if number == 0:
                convolution(f"{here}.downsample.0", made, given, 1)
                arrays.update(normalisation(f"{here}.downsample.1", made))
            given = made
    arrays["fc.weight"] = dice.normal(size=(18, given)).astype(np.float32)
    arrays["fc.bias"] = dice.normal(size=18).astype(np.float32)
    return arrays


class ByHand:
    """Layers by their published formulas, in NumPy: pictures are channel by row by column."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}

    def convolved(self, x: Any, name: str, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
        weight = self.arrays[f"{name}.weight"]
        reach = (weight.shape[-1] - 1) * dilation + 1
        x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (reach, reach), axis=(1, 2))[:, ::stride, ::stride]
        made = np.einsum("chwij,ocij->ohw", windows[..., ::dilation, ::dilation], weight)
        return made + self.arrays.get(f"{name}.bias", np.zeros(len(weight)))[:, None, None]

    def normed(self, x: Any, name: str) -> Any:
        weight, bias, mean, spread = (
            self.arrays[f"{name}.{part}"][:, None, None] for part in ("weight", "bias", "running_mean", "running_var")
        )
        return (x - mean) / np.sqrt(spread + 1e-5) * weight + bias

    def rectified(self, x: Any) -> Any:
        return np.maximum(x, 0)

    def most(self, x: Any) -> Any:
        """The largest of every 3 x 3 places, two apart."""
        x = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
        return np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))[:, ::2, ::2].max(axis=(3, 4))

    def mean(self, x: Any, side: int) -> Any:
        """The mean of every square; what is left over at the end is in none."""
        rows, columns = x.shape[1] // side, x.shape[2] // side
        x = x[:, : rows * side, : columns * side]
        return x.reshape(len(x), rows, side, columns, side).mean(axis=(2, 4))

    def resized(self, x: Any, side: int) -> Any:
        """Bilinear between the middles of pixels, along one axis after the other."""
        for axis in (1, 2):
            given = x.shape[axis]
            places = np.clip((np.arange(side) + 0.5) * given / side - 0.5, 0, given - 1)
            left = np.floor(places).astype(int)
            share = (places - left).reshape([-1 if one == axis else 1 for one in range(3)])
            right = np.minimum(left + 1, given - 1)
            x = np.take(x, left, axis) * (1 - share) + np.take(x, right, axis) * share
        return x


def _resnet_by_hand(arrays: dict[str, Any], x: Any) -> Any:
    """The network by its published order of layers."""
    by = ByHand(arrays)
    x = by.most(by.rectified(by.normed(by.convolved(x, "conv1", stride=2, padding=3), "bn1")))
    for stage in (1, 2, 3, 4):
        number = 0
        while f"layer{stage}.{number}.conv1.weight" in arrays:
            here, stride = f"layer{stage}.{number}", 2 if stage > 1 and number == 0 else 1
            inner = by.rectified(by.normed(by.convolved(x, f"{here}.conv1"), f"{here}.bn1"))
            inner = by.convolved(inner, f"{here}.conv2", stride=stride, padding=1)
            inner = by.rectified(by.normed(inner, f"{here}.bn2"))
            inner = by.normed(by.convolved(inner, f"{here}.conv3"), f"{here}.bn3")
            if f"{here}.downsample.0.weight" in arrays:
                x = by.normed(by.convolved(x, f"{here}.downsample.0", stride=stride), f"{here}.downsample.1")
            x = by.rectified(inner + x)
            number += 1
    return by.arrays["fc.weight"] @ x.mean(axis=(1, 2)) + by.arrays["fc.bias"]


def _densenet_by_hand(arrays: dict[str, Any], x: Any) -> Any:
    by = ByHand(arrays)
    x = by.most(by.rectified(by.normed(by.convolved(x, "features.conv0", stride=2, padding=3), "features.norm0")))
    for block in (1, 2):
        here = f"features.denseblock{block}.denselayer1"
        new = by.convolved(by.rectified(by.normed(x, f"{here}.norm1")), f"{here}.conv1")
        new = by.convolved(by.rectified(by.normed(new, f"{here}.norm2")), f"{here}.conv2", padding=1)
        x = np.concatenate([x, new])
        if block == 1:
            x = by.rectified(by.normed(x, "features.transition1.norm"))
            x = by.mean(by.convolved(x, "features.transition1.conv"), 2)
    x = by.rectified(by.normed(x, "features.norm5"))
    return by.arrays["classifier.weight"] @ x.mean(axis=(1, 2)) + by.arrays["classifier.bias"]


def _spread(arrays: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same network with normalisations that change what they get."""
    dice = np.random.default_rng(seed)
    drawn = {"weight": (1.0, 0.2), "bias": (0.1, 0.2), "running_mean": (0.0, 0.2), "running_var": (1.0, 0.1)}
    found = dict(arrays)
    for name in [name.removesuffix(".running_var") for name in arrays if name.endswith(".running_var")]:
        for part, (mean, spread) in drawn.items():
            size = arrays[f"{name}.{part}"].shape
            found[f"{name}.{part}"] = np.abs(dice.normal(mean, spread, size)).astype(np.float32)
    return found


def test_a_densenet_computes_what_its_layers_say(tmp_path: Path) -> None:
    arrays = _spread(ARRAYS, 8)
    file = tmp_path / "graph.onnx"
    file.write_bytes(densenet_graph(read_torch_file(write_zip(tmp_path / "dense.pt", arrays)), size=72))
    onnx.checker.check_model(onnx.load(file), full_check=True)
    picture = np.random.default_rng(2).normal(size=(1, 72, 72)).astype(np.float32)
    found, expected = NeuralNetwork(file).run(picture[None]), _densenet_by_hand(arrays, picture)
    assert np.abs(found["logits"][0] - expected).max() <= 1e-4 * np.abs(expected).max()


def test_a_resnet_computes_what_its_layers_say(tmp_path: Path) -> None:
    arrays = _spread(_tiny_resnet(), 9)
    file = write_zip(tmp_path / "resnet.pt", arrays)
    (tmp_path / "graph.onnx").write_bytes(resnet_graph(read_torch_file(file), size=64))
    onnx.checker.check_model(onnx.load(tmp_path / "graph.onnx"), full_check=True)
    picture = np.random.default_rng(2).normal(size=(1, 64, 64)).astype(np.float32)
    found = NeuralNetwork(tmp_path / "graph.onnx").run(picture[None])
    expected = _resnet_by_hand(arrays, picture)
    assert np.abs(found["logits"][0] - expected).max() <= 1e-4 * np.abs(expected).max()
    assert found["maps"].shape == (1, 18, 2, 2)
    model = ModelStore(tmp_path / "store").add("resnet50-res512-all", file)
    assert (model.known.size, NeuralNetwork(model.graph).size) == (512, 512)
    with pytest.raises(UserError, match="of another network"):
        ModelStore(tmp_path / "store").add("resnet50-res512-all", write_zip(tmp_path / "dense.pt", ARRAYS))


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
def test_what_torch_saves_computes_what_torch_computes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="parity with torch itself")
    torch.manual_seed(4)
    model = _torch_densenet(torch).eval()
    torch.save(model.state_dict(), tmp_path / "new.pt")
    torch.save(model.state_dict(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    picture = np.random.default_rng(2).normal(size=(1, 1, 64, 64)).astype(np.float32)
    with torch.no_grad():
        expected = model(torch.from_numpy(picture)).numpy()
    for name in ("new.pt", "old.pt"):
        (tmp_path / "graph.onnx").write_bytes(densenet_graph(read_torch_file(tmp_path / name), size=64))
        found = NeuralNetwork(tmp_path / "graph.onnx").run(picture)["logits"]
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()
        pspnet = _tiny_pspnet()
        (tmp_path / "psp.onnx").write_bytes(pspnet_graph(pspnet, size=48))
        colours = np.random.default_rng(3).normal(size=(1, 3, 48, 48)).astype(np.float32)
        masks = NeuralNetwork(tmp_path / "psp.onnx").run(colours)["masks"]
        assert np.abs(masks - _torch_pspnet(torch, pspnet, colours)).max() < 1e-4


def _tiny_pspnet() -> dict[str, Any]:
    """A pyramid network with narrow layers in the real checkpoint's names, as saved by a parallel training."""
    dice = np.random.default_rng(5)
    arrays: dict[str, Any] = {}

    def unit(name: str, given: int, made: int, side: int) -> None:
        size = (made, given, side, side)
        arrays[f"module.{name}.0.weight"] = (dice.normal(size=size) / np.sqrt(given * side * side)).astype(np.float32)
        arrays.update({f"module.{key}": value for key, value in normalisation(f"{name}.1", made).items()})

    for name, given, made in (("1_1", 3, 4), ("1_2", 4, 4), ("1_3", 4, 8)):
        unit(f"convbnrelu{name}.cbr_unit", given, made, 3)
    for stage, given in (("res_block2", 8), ("res_block3", 8), ("res_block4", 8), ("res_block5", 8)):
        for number in (0, 1):
            here = f"{stage}.layers.{number}"
            unit(f"{here}.cbr1.cbr_unit", given, 4, 1)
            unit(f"{here}.cbr2.cbr_unit", 4, 4, 3)
            unit(f"{here}.cb3.cb_unit", 4, 8, 1)
            if number == 0:
                unit(f"{here}.cb4.cb_unit", given, 8, 1)
    for number in range(4):
        unit(f"pyramid_pooling.path_module_list.{number}.cbr_unit", 8, 2, 1)
    unit("cbr_final.cbr_unit", 16, 6, 3)
    arrays["module.classification.weight"] = dice.normal(size=(14, 6, 1, 1)).astype(np.float32)
    arrays["module.classification.bias"] = dice.normal(size=14).astype(np.float32)
    return arrays


RESIDUAL_BLOCKS = (("res_block2", 1, 1), ("res_block3", 2, 1), ("res_block4", 1, 2), ("res_block5", 1, 4))
"""Name, stride and dilation of PSPNet's blocks, as published."""


def _torch_pspnet(torch: Any, arrays: dict[str, Any], picture: Any) -> Any:
    """The same network with torch's functions, by the published code's order of layers."""
    given = {name.removeprefix("module."): torch.from_numpy(value) for name, value in arrays.items()}
    functions = torch.nn.functional

    def unit(x: Any, name: str, **how: int) -> Any:
        x = functions.conv2d(x, given[f"{name}.0.weight"], **how)
        parts = [given[f"{name}.1.{part}"] for part in ("running_mean", "running_var", "weight", "bias")]
        return functions.batch_norm(x, *parts, training=False, eps=1e-5)

    def stage(x: Any, name: str, stride: int, dilation: int) -> Any:
        for number in (0, 1):
            here = f"{name}.layers.{number}"
            step = stride if number == 0 else 1
            inner = torch.relu(unit(x, f"{here}.cbr1.cbr_unit"))
            inner = torch.relu(unit(inner, f"{here}.cbr2.cbr_unit", stride=step, padding=dilation, dilation=dilation))
            around = unit(x, f"{here}.cb4.cb_unit", stride=step) if number == 0 else x
            x = torch.relu(unit(inner, f"{here}.cb3.cb_unit") + around)
        return x

    x = torch.relu(unit(torch.from_numpy(picture), "convbnrelu1_1.cbr_unit", stride=2, padding=1))
    x = torch.relu(unit(x, "convbnrelu1_2.cbr_unit", padding=1))
    x = functions.max_pool2d(torch.relu(unit(x, "convbnrelu1_3.cbr_unit", padding=1)), 3, 2, 1)
    for name, stride, dilation in RESIDUAL_BLOCKS:
        x = stage(x, name, stride, dilation)
    side, parts = x.shape[-1], [x]
    for number, pieces in enumerate((6, 3, 2, 1)):
        pooled = functions.avg_pool2d(x, side // pieces, side // pieces)
        pooled = torch.relu(unit(pooled, f"pyramid_pooling.path_module_list.{number}.cbr_unit"))
        parts.append(functions.interpolate(pooled, size=(side, side), mode="bilinear"))
    x = torch.relu(unit(torch.cat(parts, 1), "cbr_final.cbr_unit", padding=1))
    x = functions.conv2d(x, given["classification.weight"], given["classification.bias"])
    return functions.interpolate(x, size=picture.shape[2:], mode="bilinear").numpy()


def _pspnet_by_hand(arrays: dict[str, Any], x: Any) -> Any:
    """The network by the published code's order of layers."""
    by = ByHand({name.removeprefix("module."): array for name, array in arrays.items()})

    def unit(x: Any, name: str, **how: int) -> Any:
        return by.normed(by.convolved(x, f"{name}.0", **how), f"{name}.1")

    def stage(x: Any, name: str, stride: int, dilation: int) -> Any:
        for number in (0, 1):
            here = f"{name}.layers.{number}"
            step = stride if number == 0 else 1
            inner = by.rectified(unit(x, f"{here}.cbr1.cbr_unit"))
            inner = unit(inner, f"{here}.cbr2.cbr_unit", stride=step, padding=dilation, dilation=dilation)
            around = unit(x, f"{here}.cb4.cb_unit", stride=step) if number == 0 else x
            x = by.rectified(unit(by.rectified(inner), f"{here}.cb3.cb_unit") + around)
        return x

    size = x.shape[-1]
    x = by.rectified(unit(x, "convbnrelu1_1.cbr_unit", stride=2, padding=1))
    x = by.rectified(unit(x, "convbnrelu1_2.cbr_unit", padding=1))
    x = by.most(by.rectified(unit(x, "convbnrelu1_3.cbr_unit", padding=1)))
    for name, stride, dilation in RESIDUAL_BLOCKS:
        x = stage(x, name, stride, dilation)
    side, parts = x.shape[-1], [x]
    for number, pieces in enumerate((6, 3, 2, 1)):
        pooled = by.rectified(unit(by.mean(x, side // pieces), f"pyramid_pooling.path_module_list.{number}.cbr_unit"))
        parts.append(by.resized(pooled, side))
    x = by.rectified(unit(np.concatenate(parts), "cbr_final.cbr_unit", padding=1))
    return by.resized(by.convolved(x, "classification"), size)


def test_a_pyramid_network_computes_what_its_layers_say(tmp_path: Path) -> None:
    arrays, file = _spread(_tiny_pspnet(), 10), tmp_path / "psp.onnx"
    file.write_bytes(pspnet_graph(arrays, size=72))
    onnx.checker.check_model(onnx.load(file), full_check=True)
    picture = np.random.default_rng(3).normal(size=(3, 72, 72)).astype(np.float32)
    masks, expected = NeuralNetwork(file).run(picture[None])["masks"][0], _pspnet_by_hand(arrays, picture)
    assert np.abs(masks - expected).max() <= 1e-4 * np.abs(expected).max()
    for size in (44, 40):  # no multiple of eight, and one too small for the pyramid
        with pytest.raises(UserError, match=f"not {size}"):
            pspnet_graph(arrays, size=size)
