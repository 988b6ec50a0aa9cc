"""Published chest networks as ONNX graphs, for ``wardround models add``.

torchxrayvision downloads its weights and unpickles them, which may run code of theirs: use an environment of its own,
on a machine without records. wardround itself reads no pickles.

    pip install torch torchvision torchxrayvision onnx onnxscript
    python convert_chest_weights.py densenet121-res224-all densenet.onnx
    wardround models add densenet121-res224-all densenet.onnx

NAME is a classifier of torchxrayvision (``densenet121-res224-*``, ``resnet50-res512-all``) or ``chestx-det-pspnet``. A
file that is already here goes into a folder given by ``--cache``, under its published name.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

SEGMENTATION = "chestx-det-pspnet"


class FindingMaps(torch.nn.Module):
    """Logits of findings (1, findings), and of each a map of where its score comes from (1, findings, side, side).

    A map is the last layer applied to every place of the features; its mean plus the bias is the logit (class
    activation mapping, Zhou et al. 2016, arXiv:1512.04150). Sigmoids and operating points are applied by wardround.
    """

    def __init__(self, features: torch.nn.Module, last: torch.nn.Linear) -> None:
        super().__init__()
        self.features, self.last = features, last

    def forward(self, film: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits and maps of a film (1, 1, size, size), from -1024 to 1024."""
        maps = functional.conv2d(self.features(film), self.last.weight[:, :, None, None])
        return maps.mean((2, 3)) + self.last.bias, maps


def with_maps(network: Any) -> FindingMaps:
    """Return a classifier of torchxrayvision, a DenseNet or a ResNet, without its resizing and its sigmoid."""
    if hasattr(network, "classifier"):
        return FindingMaps(torch.nn.Sequential(network.features, torch.nn.ReLU()), network.classifier)
    *features, _, last = network.model.children()  # before the mean over all places
    return FindingMaps(torch.nn.Sequential(*features), last)


def write_graph(network: torch.nn.Module, file: Path, *, channels: int, size: int, outputs: list[str]) -> None:
    """Write a network of pictures (1, channels, size, size) as one ONNX file."""
    picture = torch.zeros(1, channels, size, size)
    torch.onnx.export(
        network.eval(),
        (picture,),
        str(file),
        input_names=["image"],
        output_names=outputs,
        dynamo=True,
        external_data=False,
    )


def main() -> int:
    """Load one published network and write its graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--cache", help="folder of downloaded weights (default: torchxrayvision's own)")
    options = parser.parse_args()
    import torchxrayvision

    if options.name == SEGMENTATION:
        network = torchxrayvision.baseline_models.chestx_det.PSPNet(cache_dir=options.cache).model
        write_graph(network, options.file, channels=3, size=512, outputs=["masks"])
        return 0
    network = torchxrayvision.models.get_model(options.name, cache_dir=options.cache)
    size = int(options.name.partition("-res")[2].partition("-")[0])
    write_graph(with_maps(network), options.file, channels=1, size=size, outputs=["logits", "maps"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
