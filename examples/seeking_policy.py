"""A plug-in: a policy without any language model that seeks evidence in three places before it answers about a film.

    wardround synth hospital --patients 20 --films && wardround ingest mimiciv hospital --store store
    wardround bench build clinseek-mm --store store --out bench --reports
    wardround run --plugin examples/seeking_policy.py --model seeking-rules --set run.toolset=clinseek \\
        --benchmark bench --store store --set images.source=hospital/cxr/files \\
        --task clinseek-mm.finding_enumeration --limit 1 --out run

It plays by rule through the loop that a language model plays through: it reads the film's report in the record, looks
the most telling finding up in the handbook, looks at the film, and answers with the row it read. **It cannot see**:
what it answers is what the report says, by a rule of thumb. It is asked when the report is there (``--reports``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wardround.models import MODELS, ModelEntry, Reply, Request, ScriptedModel, call

_FILM = re.compile(r"cxr_images:[0-9a-f-]+")
_REPORT = re.compile(r"^(cxr_reports:\d+) \| (.+)$", re.MULTILINE)
_PAGE = re.compile(r"^\[(\d+)\] ")
_LINE = re.compile(r"^L(\d+): (.*)$", re.MULTILINE)
_WORDS: Mapping[str, str] = {
    "Support Devices": "tubes",
    "Lung Opacity": "opacit",
    "Atelectasis": "atelecta",
    "Cardiomegaly": "cardiomegaly",
    "Consolidation": "consolidation",
    "Edema": "edema",
    "Pleural Effusion": "effusion",
    "Pneumonia": "pneumonia",
    "Pneumothorax": "pneumothorax",
}
"""Label that may be answered -> how a report's sentence names it. The telling ones stand last: they are looked up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the policy knows: the question, and what its tools answered so far."""

    question: str
    results: tuple[str, ...]

    @classmethod
    def of(cls, request: Request) -> Seen:
        """Read a request's messages."""
        texts = {
            role: tuple(one.content or "" for one in request.messages if one.role == role) for role in ("user", "tool")
        }
        return cls(question=texts["user"][0], results=texts["tool"])

    @property
    def film(self) -> str:
        """The handle of the latest linked film; empty where none is linked."""
        linked = _FILM.findall(self.question)
        return str(linked[-1]) if linked else ""

    @property
    def report(self) -> tuple[str, str]:
        """The report's row id and text; both empty where no report was found."""
        row = _REPORT.search(self.results[0])
        return (row.group(1), row.group(2)) if row else ("", "")

    @property
    def findings(self) -> tuple[str, ...]:
        """The labels that the report says are there; ``No Finding`` where there are none."""
        return labels_of(self.report[1]) or ("No Finding",)


def read_report(seen: Seen) -> Reply:
    """Step 1, the record: the report of the study that the film belongs to."""
    query = (
        "SELECT cxr_reports.row_id, cxr_reports.text FROM cxr_reports JOIN cxr_images "
        f"ON cxr_images.study_id = cxr_reports.study_id WHERE cxr_images.row_id = '{seen.film}'"
    )
    return _because("First the record: has anybody reported this film?", call("run_sql_query", sql_query=query))


def search_handbook(seen: Seen) -> Reply:
    """Step 2, knowledge: nothing of the patient is in the query."""
    telling = seen.findings[-1]
    return _because(
        f"Then knowledge: how does {telling} look on a film, and what causes it?",
        call("browser.search", query=f"chest X-ray findings {telling}", topn=3),
    )


def open_page(seen: Seen) -> Reply:
    """Step 3: the best result's page."""
    return _because("The first result names it.", call("browser.open", id=0))


def look_at_film(seen: Seen) -> Reply:
    """Step 4, the picture."""
    why = "Last the film itself, for whoever reads this page: rules cannot see."
    return _because(why, call("image.image_visualizer", image_path=seen.film))


def answer(seen: Seen) -> Reply:
    """Step 5: what the report says is there, each with the row that it is read from."""
    row_id, _ = seen.report
    told = f"The report says: {', '.join(seen.findings)}." if row_id else "There is no report, and rules cannot see."
    evidence = [{"answer": finding, "row_ids": [row_id]} for finding in seen.findings] if row_id else []
    why = f"{told} {cited_line(seen.results[2], seen.findings[-1])}"
    return _because(why.strip(), call("finish", response=seen.findings, evidence=evidence))


STEPS: tuple[Callable[[Seen], Reply], ...] = (read_report, search_handbook, open_page, look_at_film, answer)


def labels_of(report: str) -> tuple[str, ...]:
    """The labels that a report's sentences name without a "no" before; what is only suspected counts as named.

    >>> labels_of("Opacity concerning for pneumonia. No effusion.")
    ('Lung Opacity', 'Pneumonia')
    """
    told = [one.casefold() for one in re.split(r"[.:]\s*", report) if not re.match(r"no\b", one, re.IGNORECASE)]
    return tuple(label for label, word in _WORDS.items() if any(word in sentence for sentence in told))


def cited_line(page: str, finding: str) -> str:
    """The line of an opened page that names a finding, with its citation mark; empty where none does."""
    number = _PAGE.search(page)
    lines = [(place, text) for place, text in _LINE.findall(page) if finding.casefold() in text.casefold()]
    if number is None or not lines:
        return ""
    place, text = lines[-1]
    return f"The handbook: {text.strip(' -')} 【{number.group(1)}†L{place}】"


def next_step(request: Request) -> Reply:
    """One step for each result that is there; the last one again where it was refused."""
    seen = Seen.of(request)
    return STEPS[min(len(seen.results), len(STEPS) - 1)](seen)


def _because(why: str, reply: Reply) -> Reply:
    return replace(reply, message=replace(reply.message, content=why))


MODELS.add(
    "seeking-rules",
    ModelEntry(
        name="seeking-rules",
        description="Rules that seek evidence about a film in record, handbook and picture; not a language model.",
        open=lambda opening: ScriptedModel(next_step, name="seeking-rules"),
    ),
)
