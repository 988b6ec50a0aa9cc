"""Report writers and phrase finders: endpoints, checkpoints, prose, and contradictions."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from wardround.core import FormatError, Message, Picture, ProviderError, ToolFailure, load_prompt, without_thinking
from wardround.models import AskOwnModel, Model, ModelSettings, Request, ask_alone
from wardround.models.schema import ReadReplyText, object_schema, read_value
from wardround.tools.imaging.classification import ClassifiedFinding
from wardround.tools.imaging.radiograph import needed
from wardround.tools.imaging.reading import Outline

# What vision models reply in their own words: a report in prose, boxes in the form that a model was trained to write.
#
# Read where a reply is no JSON. A box whose scale its form does not say is not guessed.


_SHORTEST_REPORT = 3
"""Words; less is no report."""
_HEADING = re.compile(
    r"(?:^|\n|(?<=[.:;]\s))[\s#*_>-]*(findings?|impressions?|conclusions?|opinion|summary)[\s*_]*:[\s*_]*",
    re.IGNORECASE,
)
_IMPRESSION = ("impression", "conclusion", "opinion", "summary")
_MARKS = re.compile(
    r"<\|?/?(?:obj|ref|box)\|?>|<loc\d{4}>|<[xy]\d{1,3}>|\(\d{1,4},\s*\d{1,4}\),\s*\(\d{1,4},\s*\d{1,4}\)"
)
_PAIRS = r"\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)\s*,\s*\(\s*(\d{1,4})\s*,\s*(\d{1,4})\s*\)"
_BOX_FORMS: tuple[tuple[re.Pattern[str], Callable[[list[float]], Outline]], ...] = (
    (  # MAIRA-2: <box><x10><y20><x55><y55></box>, hundredths
        re.compile(r"<x(\d{1,3})>\s*<y(\d{1,3})>\s*<x(\d{1,3})>\s*<y(\d{1,3})>"),
        lambda n: (n[0] / 100, n[1] / 100, n[2] / 100, n[3] / 100),
    ),
    (  # PaliGemma: <loc0256><loc0128><loc0768><loc0512>, top, left, bottom, right in 1,024 parts
        re.compile(r"<loc(\d{4})>\s*<loc(\d{4})>\s*<loc(\d{4})>\s*<loc(\d{4})>"),
        lambda n: (n[1] / 1024, n[0] / 1024, n[3] / 1024, n[2] / 1024),
    ),
    (  # CheXagent: <|box|> (10,20),(55,55) <|/box|>, hundredths
        re.compile(rf"<\|box\|>\s*{_PAIRS}"),
        lambda n: (n[0] / 100, n[1] / 100, n[2] / 100, n[3] / 100),
    ),
    (  # Qwen-VL: <box>(100,200),(550,550)</box>, thousandths
        re.compile(rf"<box>\s*{_PAIRS}"),
        lambda n: (n[0] / 1000, n[1] / 1000, n[2] / 1000, n[3] / 1000),
    ),
)


def read_report(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return findings and impression of a reply, as JSON or as prose, or None and what is wrong with it."""
    value, problem = read_value(text, schema)
    if problem is None:
        return value, None
    text = without_thinking(text)
    if text.lstrip().startswith(("{", "[", "<tool_call>")):
        return None, problem
    plain = " ".join(_MARKS.sub(" ", text).split(" ")).strip()
    parts = _parts(plain)
    if sum(len(part.split()) for part in parts.values()) < _SHORTEST_REPORT:
        return None, "it holds no report"
    return parts, None


def _parts(text: str) -> dict[str, str]:
    """Findings and impression by their headings; without one, all of it is findings."""
    found = list(_HEADING.finditer(text))
    if not found:
        return {"findings": _tidy(text), "impression": ""}
    parts = {"findings": "", "impression": ""}
    ends = [*(heading.start() for heading in found[1:]), len(text)]
    for heading, end in zip(found, ends, strict=True):
        part = "impression" if heading[1].lower().startswith(_IMPRESSION) else "findings"
        parts[part] = _tidy(f"{parts[part]} {text[heading.end() : end]}")
    return parts


def _tidy(text: str) -> str:
    return re.sub(r"\s+([.,;])", r"\1", re.sub(r"[ \t]+", " ", text)).strip(" *_\n-")


def read_boxes(text: str, schema: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the boxes of a reply, as JSON in shares of the picture or in a model's own form, or what is wrong."""
    value, problem = read_value(text, schema)
    if problem is None:
        outside = any(number > 1 for box in value["boxes"] for number in box)
        return (None, "the numbers of a box go from 0 to 1") if outside else (value, None)
    written = ((shares, found) for form, shares in _BOX_FORMS for found in form.finditer(text))
    boxes = [list(shares([float(number) for number in found.groups()])) for shares, found in written]
    return ({"boxes": boxes}, None) if boxes else (None, problem)


# Who writes reports and finds phrases: adapters over models that this project does not ship.
#
# A vision model behind an OpenAI-compatible endpoint, or checkpoints on this machine (`checkpoints.py`). What they say
# is theirs: it is handed on, compared, and never corrected.


_TEXT = {"type": "string"}
_REPORT = object_schema({"findings": _TEXT, "impression": _TEXT})
_NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}
_BOXES = object_schema({"boxes": {"type": "array", "items": _NUMBERS, "maxItems": 20}})
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
        """Return boxes in shares of the picture; none if it is not seen."""
        ...


class EndpointReports:
    """A vision model behind an endpoint that writes reports. ``ask`` is who asks it and writes that down."""

    def __init__(self, model: Model, ask: AskOwnModel = ask_alone) -> None:
        self._model = model
        self._ask = ask

    def write(self, picture: Picture) -> WrittenReport:
        """Ask once; the reply is bound to the two parts where the endpoint binds it, else prose is read too."""
        prompt = load_prompt("wardround.tools.imaging", "film_report").render()
        value = _answer(self._ask, self._model, prompt, picture, _REPORT, read_report)
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
        prompt = load_prompt("wardround.tools.imaging", "phrase_grounding").render(phrase=phrase)
        value = _answer(self._ask, self._model, prompt, picture, _BOXES, read_boxes)
        boxes = (tuple(map(float, box)) for box in value["boxes"])
        return tuple(
            (left, top, right, bottom)
            for left, top, right, bottom in boxes
            if 0.0 <= left < right <= 1.0 and 0.0 <= top < bottom <= 1.0
        )


def _answer(
    ask: AskOwnModel, model: Model, text: str, picture: Picture, schema: Mapping[str, Any], read: ReadReplyText
) -> Any:
    message = Message(role="user", content=text, pictures=(picture,))
    request = Request(messages=(message,), settings=_SETTINGS, episode="image-tool")
    try:
        return ask(model, request, schema, read)
    except (ProviderError, FormatError) as error:
        raise ToolFailure(f"{model.name} gave no usable answer for this image ({error}).") from error


# Report writers from checkpoints on this machine: two vision-encoder-decoder models, one for each part of a report.
#
# They need `transformers` and `torch`, as nothing else here does; both are imported with the first report. Weights are
# safetensors: no code of theirs is run.


_LONGEST_TOKENS = 160


class CheckpointReports:
    """Writes findings and impression with one checkpoint each; a part whose checkpoint is not here stays empty."""

    def __init__(self, *, findings: Path | None, impression: Path | None) -> None:
        self._folders = {"findings": findings, "impression": impression}
        self._opened: dict[str, tuple[Any, Any, Any]] = {}
        self._opening = threading.Lock()

    def write(self, picture: Picture) -> WrittenReport:
        """Run both."""
        parts = {part: self._part(part, picture) for part in self._folders}
        by = "; ".join(f"{part} by {folder.name}" for part, folder in self._folders.items() if folder is not None)
        return WrittenReport(findings=parts["findings"], impression=parts["impression"], by=by)

    def _part(self, part: str, picture: Picture) -> str:
        folder = self._folders[part]
        if folder is None:
            return ""
        with self._opening:
            if part not in self._opened:
                self._opened[part] = _open(folder)
            model, processor, tokenizer = self._opened[part]
            return _written(model, processor, tokenizer, picture)


def _open(folder: Path) -> tuple[Any, Any, Any]:
    try:
        transformers = needed("transformers")
        model = transformers.VisionEncoderDecoderModel.from_pretrained(
            str(folder), local_files_only=True, use_safetensors=True, trust_remote_code=False
        )
        processor = transformers.AutoImageProcessor.from_pretrained(str(folder), local_files_only=True)
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # foreign checkpoints can fail in any way
        raise ToolFailure(f"the checkpoint {folder.name} cannot be opened ({type(error).__name__}).") from error
    return model.eval(), processor, tokenizer


def _written(model: Any, processor: Any, tokenizer: Any, picture: Picture) -> str:
    torch = needed("torch")
    with needed("PIL.Image").open(io.BytesIO(picture.data)) as image:
        pixels = processor(images=image.convert("RGB"), return_tensors="pt").pixel_values
    start = next((one for one in (tokenizer.cls_token_id, tokenizer.bos_token_id) if one is not None), 0)
    with torch.inference_mode():
        ids = model.generate(
            pixels, max_new_tokens=_LONGEST_TOKENS, num_beams=1, do_sample=False, decoder_start_token_id=start
        )
    return str(tokenizer.decode(ids[0], skip_special_tokens=True)).strip()


# What a report's sentences say of findings: present, absent, or nothing. A few words and how they are denied.
#
# It is a rule of thumb, made to point at contradictions, not to label reports (CheXpert's and NegBio's labellers do).


_WORDS: Mapping[str, str] = {
    "Atelectasis": r"atelecta\w+",
    "Cardiomegaly": r"cardiomegaly|enlarged (?:heart|cardiac)|(?:heart|cardiac silhouette)[\w ]{0,20} enlarged",
    "Consolidation": r"consolidation\w*",
    "Edema": r"(?:o)?edema|vascular congestion",
    "Effusion": r"effusions?",
    "Emphysema": r"emphysema\w*|hyperinflat\w+",
    "Fracture": r"fractures?",
    "Hernia": r"hernia\w*",
    "Lung Opacity": r"opacit\w+|infiltrat\w+|airspace disease",
    "Mass": r"mass(?:es)?",
    "Nodule": r"nodul\w+",
    "Pneumonia": r"pneumonia\w*",
    "Pneumothorax": r"pneumothora\w+",
    "Pleural Thickening": r"pleural thickening",
}
_DENIED = re.compile(
    r"\b(?:no|not|without|free of|negative for|absen\w+|resol\w+|rul\w+ out|clear of|neither|nor|unremarkable)\b",
    re.IGNORECASE,
)
_DOUBTED = re.compile(
    r"\b(?:may|might|possib\w+|cannot|could|question\w*|versus|suspect\w*|concern\w*)\b", re.IGNORECASE
)
_TURN = re.compile(r"\b(?:but|however|although|with)\b|[;:]", re.IGNORECASE)


def mentions_of(text: str) -> dict[str, bool]:
    """Return finding -> whether a text states it as present; doubtful and unnamed findings are not included.

    >>> mentions_of("Small left effusion. No pneumothorax. Possible pneumonia.")
    {'Effusion': True, 'Pneumothorax': False}
    """
    found: dict[str, bool] = {}
    sentences = re.split(r"(?<=[.!?])\s+|\n", text)
    for clause in (clause for sentence in sentences for clause in _TURN.split(sentence)):
        if _DOUBTED.search(clause):
            continue
        denied = _DENIED.search(clause)
        for name, words in _WORDS.items():
            word = re.search(rf"\b(?:{words})\b", clause, re.IGNORECASE)
            if word is not None:
                found[name] = found.get(name, False) or denied is None or denied.start() > word.end()
    return {name: found[name] for name in _WORDS if name in found}


# Where the parts of a report contradict one another, or the classifier contradicts them.


_CLEAR = 0.1
"""The minimum distance of a score from 0.5 that contradicts a text."""
_PRESENCE = {True: "present", False: "absent"}


def conflicts_of(report: WrittenReport, classified: Collection[ClassifiedFinding] = ()) -> tuple[str, ...]:
    """Return a line for each contradiction."""
    findings, impression = mentions_of(report.findings), mentions_of(report.impression)
    lines = [
        f"{name}: the findings say {_PRESENCE[is_present]}, the impression {_PRESENCE[impression[name]]}"
        for name, is_present in findings.items()
        if impression.get(name, is_present) != is_present
    ]
    lines += _against_scores({**impression, **findings}, classified)
    return tuple(lines)


def _against_scores(mentioned: Mapping[str, bool], classified: Collection[ClassifiedFinding]) -> list[str]:
    lines = []
    for finding in classified:
        is_present = mentioned.get(finding.name)
        clear = abs(finding.score - 0.5) >= _CLEAR
        if is_present is not None and clear and is_present != finding.is_above:
            side = "above" if finding.is_above else "below"
            lines.append(
                f"{finding.name}: the report says {_PRESENCE[is_present]}, "
                f"the classifier's score {finding.score:.2f} is {side} its operating point"
            )
    return lines
