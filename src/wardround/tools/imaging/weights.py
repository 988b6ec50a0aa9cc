"""Weights of image tools: published networks, running an ONNX graph, the folder of a user's own weights."""

from __future__ import annotations

import json
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wardround.core import UserError, content_hash, private_folder, write_atomically
from wardround.core.errors import unknown
from wardround.tools.imaging.radiograph import needed

# The published networks that image tools work with (``published_weights.toml``): nothing of them is shipped.


ModelKind = Literal["classifier", "segmentation", "findings", "impression", "grounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """One published network. ``labels`` are its outputs, in order; ``operating_points`` the sigmoid at which each calls
    a finding. ``size`` is the side of the pictures it takes, of those that are run here.
    ``seen`` are the collections of films it was trained on: scores on those say little."""

    name: str
    kind: ModelKind
    file: str
    published: str
    licence: str
    seen: tuple[str, ...]
    labels: tuple[str, ...]
    operating_points: tuple[float, ...] = ()
    size: int = 0

    @property
    def is_graph(self) -> bool:
        """Return whether it is run here, as a graph."""
        return self.kind in ("classifier", "segmentation")

    @property
    def address(self) -> str:
        """Where its file, or its folder, is published."""
        return self.published + self.file if self.is_graph else self.published


@cache
def known_models() -> Mapping[str, KnownModel]:
    """Return every published network by name, in the order to show them."""
    text = resources.files(__package__).joinpath("published_weights.toml").read_text(encoding="utf-8")
    body = tomllib.loads(text)
    return {name: _model(name, one, body["sets"]) for name, one in body["models"].items()}


def _model(name: str, body: dict[str, object], sets: Mapping[str, str]) -> KnownModel:
    lists = {key: tuple(value) for key, value in body.items() if isinstance(value, list)}
    published = str(body["published"])
    return KnownModel(**{**body, **lists, "name": name, "published": sets.get(published, published)})  # type: ignore[arg-type]


def find_known(name: str) -> KnownModel:
    """Return a published network. UserError names the nearest."""
    known = known_models()
    if name not in known:
        raise UserError(unknown("imaging model", name, known))
    return known[name]


# A graph that is run: onnxruntime, on one thread by default, opened on first use and shared between threads.


Numbers = npt.NDArray[np.float32]
_FAR = 500.0


def sigmoid(values: Any) -> npt.NDArray[np.float64]:
    """Return numbers as shares of one; those far out stay inside what floats can hold."""
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.asarray(values, np.float64), -_FAR, _FAR))))


class NeuralNetwork:
    """One graph of a picture (1, channels, size, size) to named arrays."""

    def __init__(self, graph: Path, *, threads: int = 1) -> None:
        self._graph = graph
        self._threads = threads
        self._session: Any = None
        self._opening = threading.Lock()

    @property
    def size(self) -> int:
        """The side of the pictures it takes, in pixels."""
        return int(self._opened().get_inputs()[0].shape[-1])

    @property
    def channels(self) -> int:
        """How many colours it takes."""
        return int(self._opened().get_inputs()[0].shape[1])

    def run(self, picture: Numbers) -> Mapping[str, Numbers]:
        """Return what it computes, by the names of its outputs."""
        session = self._opened()
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, {session.get_inputs()[0].name: picture}), strict=True))

    def _opened(self) -> Any:
        with self._opening:
            if self._session is None:
                self._session = self._open()
            return self._session

    def _open(self) -> Any:
        runtime = needed("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.log_severity_level = 3
        try:
            session = runtime.InferenceSession(str(self._graph), options, providers=["CPUExecutionProvider"])
            given = session.get_inputs()
            sizes: list[Any] = given[0].shape[1:] if len(given) == 1 and given[0].type == "tensor(float)" else []
            fits = len(sizes) == 3 and all(isinstance(size, int) for size in sizes) and sizes[1] == sizes[2]
        except Exception as error:  # onnxruntime's errors have no common kind
            raise UserError(f"{self._graph}: not a graph that can be run ({type(error).__name__})") from error
        if not fits:
            raise UserError(f"{self._graph}: expected one input of floats, 1 x channels x size x size")
        return session


# A folder of a user's own weights, known by the hash of what was given.


SCHEMA = 1
_FACTS, _GRAPH = "model.json", "model.onnx"
_TOLERANCE = 1e-3
LOGITS, MAPS, MASKS = "logits", "maps", "masks"
"""Outputs of a classifier: scores, and where in the picture each comes from; of a segmentation: logits of organs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModel:
    """Weights that are here. ``facts``: the hash of the given file, and a reference output."""

    known: KnownModel
    folder: Path
    facts: Mapping[str, Any]

    @property
    def graph(self) -> Path:
        """The file of its graph."""
        return self.folder / _GRAPH

    @property
    def checkpoint(self) -> Path:
        """The folder it was added from, of those that are not run as a graph."""
        return Path(self.facts["source"])


class ModelStore:
    """The weights in a folder, which need not exist."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, file: Path, *, sha256: str | None = None) -> InstalledModel:
        """Install weights. Raises UserError for an unknown name, another hash than given, or a file of another
        network."""
        known = find_known(name)
        if known.kind == "grounding":
            raise UserError(f"{name} is not installed here; it runs at an endpoint: set images.grounding_url")
        facts = self._take_graph(known, file, sha256) if known.is_graph else _checkpoint_facts(known, file)
        text = json.dumps({"schema": SCHEMA, "name": name, **facts}, indent=1)
        private_folder(self.root / name)
        write_atomically(self.root / name / _FACTS, text)
        return self._open(known)

    def find(self, name: str) -> InstalledModel | None:
        """Return weights by name, None if they are not here."""
        return self._open(find_known(name)) if (self.root / name / _FACTS).is_file() else None

    def of_kind(self, kind: ModelKind) -> InstalledModel | None:
        """Return the first weights of a kind that are here."""
        names = (name for name, known in known_models().items() if known.kind == kind)
        return next((model for name in names if (model := self.find(name)) is not None), None)

    def verify(self, model: InstalledModel) -> str:
        """Return the damage of weights; nothing if they are unchanged and compute the same numbers as when added."""
        if not model.known.is_graph:
            return "" if _checkpoint_hash(model.checkpoint) == model.facts["sha256"] else "its files have changed"
        if content_hash(model.graph.read_bytes()) != model.facts["sha256"]:
            return "its graph has changed: add it again"
        reference = np.asarray(model.facts["reference"])
        same = np.allclose(_reference(model.graph), reference, rtol=_TOLERANCE, atol=_TOLERANCE)
        return "" if same else "it computes other numbers than when it was added"

    def _take_graph(self, known: KnownModel, file: Path, sha256: str | None) -> dict[str, Any]:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
        given = content_hash(data)
        if sha256 is not None and given != sha256.lower():
            raise UserError(f"{file}: its SHA-256 is {given}, not the expected one; download it again")
        _check_graph(known, file)
        folder = self.root / known.name
        private_folder(folder)
        (folder / _GRAPH).write_bytes(data)
        reference = [round(float(number), 5) for number in _reference(folder / _GRAPH)]
        return {"source": file.name, "sha256": given, "reference": reference}

    def _open(self, known: KnownModel) -> InstalledModel:
        folder = self.root / known.name
        try:
            facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"{folder}: its {_FACTS} cannot be read; add the weights again") from error
        return InstalledModel(known=known, folder=folder, facts=facts)


def _check_graph(known: KnownModel, file: Path) -> None:
    """Raise UserError for what is no ONNX graph, or the graph of another network."""
    if file.suffix != ".onnx":
        raise UserError(
            f"{file}: expected an ONNX graph (.onnx): checkpoints are pickles and are not read; "
            "examples/convert_chest_weights.py converts published ones (docs/imaging.md)"
        )
    network = NeuralNetwork(file)
    output, channels = (MASKS, 3) if known.kind == "segmentation" else (LOGITS, 1)
    blank = np.zeros((1, network.channels, network.size, network.size), np.float32)
    try:
        found = network.run(blank).get(output)
    except Exception as error:  # onnxruntime's errors have no common kind
        raise UserError(f"{file}: its graph fails on a picture ({type(error).__name__})") from error
    shape = None if found is None else found.shape[:2]
    if (network.size, network.channels, shape) != (known.size, channels, (1, len(known.labels))):
        raise UserError(
            f"{file}: expected {channels} x {known.size} x {known.size} pixels to {len(known.labels)} {output!r}: "
            f"it is of another network; {known.name} is published at {known.address}"
        )


def _reference(graph: Path) -> Any:
    """Return the first numbers that a network computes from a fixed pattern."""
    network = NeuralNetwork(graph)
    across = np.linspace(-1.0, 1.0, network.size, dtype=np.float32)
    pattern = np.broadcast_to(across, (1, network.channels, network.size, network.size))
    return next(iter(network.run(np.ascontiguousarray(pattern)).values())).ravel()[:32]


def _checkpoint_facts(known: KnownModel, folder: Path) -> dict[str, Any]:
    """Return the facts of a checkpoint that stays where it is. Only safetensors weights are accepted: they run no
    code."""
    if not (folder / "config.json").is_file() or not list(folder.glob("*.safetensors")):
        raise UserError(
            f"{folder}: expected a folder with config.json and *.safetensors of {known.name}, published at "
            f"{known.address}; weights as .bin files are pickles and are not read"
        )
    return {"source": str(folder.resolve()), "sha256": _checkpoint_hash(folder)}


def _checkpoint_hash(folder: Path) -> str:
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".txt"))
    return content_hash([[path.name, content_hash(path.read_bytes())] for path in files])
