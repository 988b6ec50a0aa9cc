"""Image settings; which image tools can work here; segmentation of a film."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from wardround.core import ToolFailure, check_settings, setting
from wardround.models import AskOwnModel, DataUseGuard, Model, ModelConfig, ask_alone, open_model
from wardround.tools.imaging.radiograph import Grey, Radiograph, as_grey
from wardround.tools.imaging.reading import MiddleSquare, Outline, resized
from wardround.tools.imaging.reports import (
    CheckpointReports,
    EndpointPhrases,
    EndpointReports,
    PhraseFinder,
    ReportWriter,
)
from wardround.tools.imaging.weights import MASKS, KnownModel, ModelKind, ModelStore, NeuralNetwork, sigmoid


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """Where the pictures of a store are, and how they are shown."""

    source: str | None = setting(
        None,
        "where the pictures lie: a folder of DICOM, PNG or JPEG files, or a DICOMweb server's URL",
        unit="folder or URL",
    )
    authorization_variable: str | None = setting(
        None,
        "environment variable that holds what a DICOMweb server wants as Authorization",
        unit="name of a variable",
    )
    models: str | None = setting(
        None, "folder of installed imaging weights (wardround models list); none: no networks", unit="folder"
    )
    report_model: str | None = setting(
        None, "a vision model that writes reports for chest_xray_report_generator, e.g. openai/medgemma-4b"
    )
    report_url: str | None = setting(None, "its endpoint", unit="URL")
    grounding_model: str | None = setting(
        None, "a vision model that finds phrases for xray_phrase_grounding, e.g. openai/maira-2"
    )
    grounding_url: str | None = setting(None, "its endpoint", unit="URL")
    longest_edge: int = setting(
        1568,
        "the longer side of a picture that a model is shown",
        unit="pixels",
        source="ClinSeekAgent, table 8",
        least=64,
    )

    @property
    def is_served(self) -> bool:
        """Return whether the pictures are on an image server."""
        return self.source is not None and self.source.startswith(("http://", "https://"))

    def resolved(self) -> ImageSettings:
        """Return the same with absolute folders."""
        source = self.source if self.source is None or self.is_served else str(Path(self.source).resolve())
        return replace(self, source=source, models=None if self.models is None else str(Path(self.models).resolve()))

    def __post_init__(self) -> None:
        check_settings(self)


# What image tools can do here: which networks and models are at hand. A tool that needs another is not offered.


OpenModel = Callable[[str, str | None], Model]
"""Opens a model by its name and, where one is set, the URL it is at."""
Ability = Literal["classifier", "segmentation", "report", "grounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNetwork:
    """A network with its known facts."""

    network: NeuralNetwork
    known: KnownModel


class Abilities:
    """Networks opened once for many charts, and models at endpoints. Without settings it is empty.

    ``opened`` opens the models: a run's own, with their keys and prices; by default by name and URL alone.
    """

    def __init__(
        self,
        settings: ImageSettings | None = None,
        guard: DataUseGuard | None = None,
        *,
        opened: OpenModel | None = None,
    ) -> None:
        self._settings = settings or ImageSettings()
        self._store = None if self._settings.models is None else ModelStore(Path(self._settings.models))
        self._guard = guard or DataUseGuard()
        self._opened = opened or self._by_name
        self._networks: dict[ModelKind, OpenNetwork | None] = {}
        self._reports: ReportWriter | None = None
        self._opening = threading.Lock()

    @property
    def names(self) -> frozenset[str]:
        """The available abilities. Phrases can also be found, roughly, by a classifier's maps."""
        classifier = self.network("classifier") is not None
        availability: dict[Ability, bool] = {
            "classifier": classifier,
            "segmentation": self.network("segmentation") is not None,
            "report": self._settings.report_model is not None or bool(self._checkpoints()),
            "grounding": self._settings.grounding_model is not None or classifier,
        }
        return frozenset(name for name, is_available in availability.items() if is_available)

    def network(self, kind: ModelKind) -> OpenNetwork | None:
        """Return the network of a kind, None if its weights are not here."""
        with self._opening:
            if kind not in self._networks:
                found = None if self._store is None else self._store.of_kind(kind)
                opened = None if found is None else OpenNetwork(network=NeuralNetwork(found.graph), known=found.known)
                self._networks[kind] = opened
            return self._networks[kind]

    def needed_network(self, kind: ModelKind) -> OpenNetwork:
        """Return the network of a kind. ToolFailure: its weights are not here."""
        found = self.network(kind)
        if found is None:
            raise ToolFailure(f"unavailable: no weights of a {kind} are installed here (wardround models list).")
        return found

    def reports(self, ask: AskOwnModel = ask_alone) -> ReportWriter:
        """Return the writer of reports; ``ask`` calls a model at an endpoint. Raises ToolFailure without a writer."""
        model = self._at_endpoint(self._settings.report_model, self._settings.report_url)
        if model is not None:
            return EndpointReports(model, ask)
        folders = self._checkpoints()
        if not folders:
            raise ToolFailure("unavailable: nobody writes reports here (wardround models list).")
        with self._opening:
            if self._reports is None:
                self._reports = CheckpointReports(
                    findings=folders.get("findings"), impression=folders.get("impression")
                )
            return self._reports

    def phrases(self, ask: AskOwnModel = ask_alone) -> PhraseFinder | None:
        """Return the finder of phrases, None if only a classifier's maps can find them."""
        model = self._at_endpoint(self._settings.grounding_model, self._settings.grounding_url)
        return None if model is None else EndpointPhrases(model, ask)

    def check(self) -> None:
        """Raise UserError if an endpoint that is set may not be sent images of these records."""
        self._at_endpoint(self._settings.report_model, self._settings.report_url)
        self._at_endpoint(self._settings.grounding_model, self._settings.grounding_url)

    def _at_endpoint(self, name: str | None, url: str | None) -> Model | None:
        """Return a model opened for one call. Its connections belong to the event loop of that call."""
        return None if name is None else self._opened(name, url)

    def _by_name(self, name: str, url: str | None) -> Model:
        return open_model(ModelConfig(name=name, base_url=url, guard=self._guard))

    def _checkpoints(self) -> dict[str, Path]:
        if self._store is None:
            return {}
        kinds: tuple[ModelKind, ...] = ("findings", "impression")
        found = {kind: self._store.of_kind(kind) for kind in kinds}
        return {kind: model.checkpoint for kind, model in found.items() if model is not None}


# What a segmentation says of a film: which pixels are which organ, how large, and what follows from that.


OrganMask = npt.NDArray[np.bool_]
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the pictures that the network's first layers were trained on."""
_LUNGS = ("Left Lung", "Right Lung")
_HEART = "Heart"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentedOrgan:
    """One organ. ``area`` is in pixels of the film, ``area_cm2`` None where the size of a pixel in the body is unknown.

    ``certainty`` is the network's mean sigmoid inside the mask; ``box`` is in shares of the film, None without a pixel.
    """

    name: str
    mask: OrganMask
    area: int
    area_cm2: float | None
    certainty: float
    box: Outline | None
    touches_border: bool


def segment(
    film: Radiograph, network: NeuralNetwork, known: KnownModel, organs: Collection[str] = ()
) -> tuple[SegmentedOrgan, ...]:
    """Return the organs, all or those named, in the network's order; the patient's left is on the picture's right."""
    frame = MiddleSquare.of(film.height, film.width)
    found = network.run(_prepared(frame.cut(film.pixels, network.size), network.channels)).get(MASKS)
    if found is None or found.shape[1] != len(known.labels):
        raise ToolFailure(f"the weights of {known.name} do not give its {len(known.labels)} organs; add them again.")
    shares = sigmoid(found[0])
    return tuple(
        _organ(name, as_grey(shares[number]), frame, film)
        for number, name in enumerate(known.labels)
        if not organs or name in organs
    )


def _prepared(square: Grey, channels: int) -> Grey:
    if channels == 1:
        return square[None, None]
    colours = [(square - mean) / deviation for mean, deviation in zip(_MEAN, _DEVIATION, strict=True)]
    return as_grey(np.stack(colours)[None])


def _organ(name: str, shares: Grey, frame: MiddleSquare, film: Radiograph) -> SegmentedOrgan:
    inside = resized(shares, frame.side)
    whole = np.zeros((film.height, film.width), bool)
    whole[frame.top : frame.top + frame.side, frame.left : frame.left + frame.side] = inside > 0.5
    area = int(whole.sum())
    # the film's sides, and those of the square that the network saw: the organ may continue outside
    last_row, last_column = frame.top + frame.side - 1, frame.left + frame.side - 1
    rows, columns = (0, -1, frame.top, last_row), (0, -1, frame.left, last_column)
    edges = [*(whole[row] for row in rows), *(whole[:, column] for column in columns)]
    return SegmentedOrgan(
        name=name,
        mask=whole,
        area=area,
        area_cm2=None if film.spacing_mm is None else area * film.spacing_mm[0] * film.spacing_mm[1] / 100.0,
        certainty=float(inside[inside > 0.5].mean()) if area else 0.0,
        box=_box(whole) if area else None,
        touches_border=any(bool(edge.any()) for edge in edges),
    )


def _box(mask: OrganMask) -> Outline:
    rows, columns = np.nonzero(mask)
    high, wide = mask.shape
    return (
        float(columns.min() / wide),
        float(rows.min() / high),
        float((columns.max() + 1) / wide),
        float((rows.max() + 1) / high),
    )


def cardiothoracic_ratio(organs: Collection[SegmentedOrgan]) -> float | None:
    """Return the heart's greatest width over the chest's, inside the ribs; None if the heart or a lung is not
    visible."""
    boxes: Mapping[str, Outline] = {organ.name: organ.box for organ in organs if organ.box is not None}
    if _HEART not in boxes or not all(name in boxes for name in _LUNGS):
        return None
    chest = [boxes[name] for name in (*_LUNGS, _HEART)]
    width = max(box[2] for box in chest) - min(box[0] for box in chest)
    heart = boxes[_HEART]
    return (heart[2] - heart[0]) / width


def with_edges(pixels: Grey, organs: Collection[SegmentedOrgan]) -> Grey:
    """Return a film with the edge of every organ drawn in white."""
    drawn = pixels.copy()
    for organ in organs:
        mask = organ.mask
        inner = mask[1:-1, 1:-1] & mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
        drawn[1:-1, 1:-1][mask[1:-1, 1:-1] & ~inner] = 1.0
    return drawn
