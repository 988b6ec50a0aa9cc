"""Who writes reports and finds phrases: adapters over models that this project does not ship.

A vision model behind an OpenAI-compatible endpoint, or checkpoints on this machine (`checkpoints.py`). What they say is
theirs: it is handed on, compared, and never corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from wardround.core import FormatError, Message, Picture, ProviderError, ToolFailure, load_prompt
from wardround.imaging.rendering import Outline
from wardround.imaging.spoken_reports import read_boxes, read_report
from wardround.models import AskOwnModel, Model, ModelSettings, Request, ask_alone
from wardround.models.structured import ReadReplyText

_TEXT = {"type": "string"}
_REPORT = {
    "type": "object",
    "properties": {"findings": _TEXT, "impression": _TEXT},
    "required": ["findings", "impression"],
}
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
_BOXES = {
    "type": "object",
    "properties": {"boxes": {"type": "array", "items": _NUMBERS, "maxItems": 20}},
    "required": ["boxes"],
}
_SETTINGS = ModelSettings(temperature=0.0, top_p=None, max_output_tokens=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """A report that a model wrote of a film. ``by`` names who did; the two parts may be by different ones."""

    findings: str
    impression: str
    by: str


class ReportWriter(Protocol):
    """Writes a report of a picture. ToolFailure: it cannot be had."""

    def write(self, picture: Picture) -> WrittenReport:
        """Return the report."""
        ...


class PhraseFinder(Protocol):
    """Finds what a phrase says in a picture. ToolFailure: it cannot be had."""

    @property
    def name(self) -> str:
        """Who finds it."""
        ...

    def find(self, picture: Picture, phrase: str) -> tuple[Outline, ...]:
        """Return boxes in shares of the picture; none where it is not seen."""
        ...


class EndpointReports:
    """A vision model behind an endpoint that writes reports. ``ask`` is who asks it and writes that down."""

    def __init__(self, model: Model, ask: AskOwnModel = ask_alone) -> None:
        self._model = model
        self._ask = ask

    def write(self, picture: Picture) -> WrittenReport:
        """Ask once; the reply is bound to the two parts where the endpoint binds it, else prose is read too."""
        asked = load_prompt("wardround.imaging", "film_report").render()
        value = _answer(self._ask, self._model, asked, picture, _REPORT, read_report)
        return WrittenReport(findings=value["findings"], impression=value["impression"], by=self._model.name)


class EndpointPhrases:
    """A vision model behind an endpoint that finds phrases. ``ask`` is who asks it and writes that down."""

    def __init__(self, model: Model, ask: AskOwnModel = ask_alone) -> None:
        self._model = model
        self._ask = ask

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def find(self, picture: Picture, phrase: str) -> tuple[Outline, ...]:
        """Ask once; boxes without area or outside the picture are left out."""
        asked = load_prompt("wardround.imaging", "phrase_grounding").render(phrase=phrase)
        value = _answer(self._ask, self._model, asked, picture, _BOXES, read_boxes)
        boxes = (tuple(float(side) for side in box) for box in value["boxes"])
        return tuple((box[0], box[1], box[2], box[3]) for box in boxes if _is_inside(box))


def _is_inside(box: tuple[float, ...]) -> bool:
    left, top, right, bottom = box
    return 0.0 <= left < right <= 1.0 and 0.0 <= top < bottom <= 1.0


def _answer(
    ask: AskOwnModel, model: Model, text: str, picture: Picture, schema: Mapping[str, Any], read: ReadReplyText
) -> Any:
    message = Message(role="user", content=text, pictures=(picture,))
    request = Request(messages=(message,), settings=_SETTINGS, episode="image-tool")
    try:
        return ask(model, request, schema, read)
    except (ProviderError, FormatError) as error:
        raise ToolFailure(f"{model.name} gave no usable answer for this image ({error}).") from error
