"""What the image tools cost: DenseNet-121 at 224 x 224, and whole tool calls.

Run: python benchmarks/imaging_speed.py GRAPH [--calls 20]

GRAPH is densenet121-res224-all as ``examples/convert_chest_weights.py`` writes it.

The bars are 40 ms of processor time for the network and 150 for the whole call (file to result, picture included).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np

from wardround.records import Store, ingest
from wardround.synth import synthesize
from wardround.synth.radiographs import write_films
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.imaging import ImageSettings, open_images
from wardround.tools.imaging.weights import ModelStore, NeuralNetwork

NAME = "densenet121-res224-all"
BAR_NETWORK, BAR_CALL = 40.0, 150.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    weights, calls = options.graph, options.calls
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        picture = np.random.default_rng(1).normal(size=(1, 1, 224, 224)).astype(np.float32)
        network = NeuralNetwork(weights)
        report("network", measured(lambda: network.run(picture), calls), BAR_NETWORK)
        environment, handle = opened(folder, weights)
        for tool in ("image.chest_xray_classifier", "image.image_visualizer"):
            report(tool, measured(partial(called, environment, tool, handle), calls), BAR_CALL)
    return 0


def opened(folder: Path, weights: Path) -> tuple[Environment, str]:
    """A chart with a film, and its handle."""
    synthesize(folder / "hospital", patients=12, seed=3, films=True)
    write_films(folder / "hospital")
    ingest("mimiciv", folder / "hospital", folder / "store")
    store = Store.open(folder / "store")
    ModelStore(folder / "models").add(NAME, weights)
    settings = ImageSettings(source=str(folder / "hospital" / "cxr" / "files"), models=str(folder / "models"))
    subject, rows = next(iter(store.scan("cxr_images")))
    chart = store.chart(subject, datetime(2300, 1, 1))
    toolset = default_toolset(more=["image.chest_xray_classifier", "image.image_visualizer"])
    images = open_images(settings).of(chart, str(subject))
    return Environment(chart, toolset, EnvironmentOptions(images=images)), rows.column("row_id")[0].as_py()


def called(environment: Environment, tool: str, handle: str) -> None:
    """One whole call; the file is read anew."""
    environment.images.close()
    result = environment.call(tool, {"image_path": handle})
    if result.is_error:
        raise RuntimeError(result.text)


def measured(act: Callable[[], object], calls: int) -> list[float]:
    """Processor time of each call, in milliseconds; the first is left out."""
    act()
    spent = []
    for _ in range(calls):
        started = time.process_time()
        act()
        spent.append((time.process_time() - started) * 1000)
    return spent


def report(what: str, spent: list[float], bar: float) -> None:
    middle, worst = statistics.median(spent), max(spent)
    verdict = "met" if middle <= bar else "MISSED"
    print(f"{what}: median {middle:.1f}, worst {worst:.1f} ms CPU of {len(spent)} calls; bar {bar:g}: {verdict}")


if __name__ == "__main__":
    raise SystemExit(main())
