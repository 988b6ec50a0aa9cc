"""What image tools can do here: which networks and models are at hand. A tool that needs another is not offered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wardround.core import ToolFailure
from wardround.imaging.checkpoints import CheckpointReports
from wardround.imaging.reports import EndpointPhrases, EndpointReports, PhraseFinder, ReportWriter
from wardround.imaging.settings import ImageSettings
from wardround.imaging.weights.known import KnownModel, ModelKind
from wardround.imaging.weights.model_store import ModelStore
from wardround.imaging.weights.network import NeuralNetwork
from wardround.models import AskOwnModel, DataUseGuard, Model, ask_alone, open_model

OpenModel = Callable[[str, str | None], Model]
"""Opens a model by its name and, where one is set, the URL it is at."""
Ability = Literal["classifier", "segmentation", "report", "grounding"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNetwork:
    """A network with what is known of it."""

    network: NeuralNetwork
    known: KnownModel


class Abilities:
    """Networks opened once for many charts, and models asked at endpoints. Without settings there are none.

    ``opened`` opens these models: a run's own, with their keys and prices; by default by name and URL alone."""

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
        """What there is. Phrases can also be found, roughly, by a classifier's maps."""
        classifier = self.network("classifier") is not None
        there: dict[Ability, bool] = {
            "classifier": classifier,
            "segmentation": self.network("segmentation") is not None,
            "report": self._settings.report_model is not None or bool(self._checkpoints()),
            "grounding": self._settings.grounding_model is not None or classifier,
        }
        return frozenset(name for name, is_there in there.items() if is_there)

    def network(self, kind: ModelKind) -> OpenNetwork | None:
        """Return the network of a kind, None where its weights are not here."""
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
        """Return who writes reports; a model at an endpoint is asked by ``ask``. ToolFailure: nobody does."""
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
        """Return who finds phrases, None where nobody but a classifier's maps can."""
        model = self._at_endpoint(self._settings.grounding_model, self._settings.grounding_url)
        return None if model is None else EndpointPhrases(model, ask)

    def check(self) -> None:
        """Raise UserError where an endpoint that is set may not be sent images of these records."""
        self._at_endpoint(self._settings.report_model, self._settings.report_url)
        self._at_endpoint(self._settings.grounding_model, self._settings.grounding_url)

    def _at_endpoint(self, name: str | None, url: str | None) -> Model | None:
        """A model is opened for every call: its connections belong to the loop that it is asked on."""
        return None if name is None else self._opened(name, url)

    def _by_name(self, name: str, url: str | None) -> Model:
        return open_model(name, base_url=url, guard=self._guard)

    def _checkpoints(self) -> dict[str, Path]:
        if self._store is None:
            return {}
        kinds: tuple[ModelKind, ...] = ("findings", "impression")
        found = {kind: self._store.of_kind(kind) for kind in kinds}
        return {kind: model.checkpoint for kind, model in found.items() if model is not None}
