"""Text cases out of a user's files: what the published files of MedR-Bench and MedAgentsBench hold, row by row.

A file is a JSON list or JSON lines, plain or gzipped.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wardround.answers.options import LETTERS
from wardround.benchmarks.told.definitions import MEDAGENTSBENCH, MEDR_BENCH, SPELLINGS
from wardround.core import UserError, derive_seed

_NO_WORD = re.compile(r"[\W_]+")
_LETTER = re.compile(r"\s*([A-Z])\s*(?:[.):]|$)")
_MEDR_TASKS = ("diagnosis", "treatment")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCase:
    """One case. ``report`` names the published report it is from, empty of a question; ``answer`` is the right one (a
    letter where there are ``options``), ``reference`` how its authors got there."""

    task: str
    id: str
    text: str
    answer: str
    report: str = ""
    reference: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def stem(self) -> str:
        """Its words alone, so that one question in two layouts is one."""
        return _NO_WORD.sub(" ", self.text.casefold()).strip()

    @property
    def subject_id(self) -> int:
        """The number of the report, else of the question: what subjects are elsewhere."""
        return derive_seed("told", self.report or self.stem)


def read_cases(family: str, path: Path) -> list[TextCase]:
    """Read a file of a family's cases; UserError names the row that is none. Questions are rows with options."""
    readers = {MEDR_BENCH: _medr_case, MEDAGENTSBENCH: _question}
    read = readers.get(family, _either)
    found = []
    for number, body in enumerate(_rows(path), start=1):
        try:
            found.append(read(body))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{path}, row {number}: not a case of {family}: {what}") from None
    return found


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise UserError(f"no file {str(path)!r}; docs/text-cases.md says what a file of cases holds")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    try:
        if text.lstrip().startswith("["):
            yield from json.loads(text)
        else:
            yield from (json.loads(line) for line in text.splitlines() if line.strip())
    except ValueError as error:
        raise UserError(f"{path} is neither a JSON list nor JSON lines: {error}") from None


def _medr_case(body: Mapping[str, Any]) -> TextCase:
    what = body["task_type"]
    if what not in _MEDR_TASKS:
        raise ValueError(f"task_type is {what!r}, not {' or '.join(_MEDR_TASKS)}")
    return TextCase(
        task=f"{MEDR_BENCH}.{what}",
        id=str(body["id"]),
        text=_said(body, "task"),
        answer=_said(body, "answer"),
        report=str(body.get("metadata", {}).get("source_id") or ""),
        reference=str(body.get("reference_analysis") or ""),
    )


def _question(body: Mapping[str, Any]) -> TextCase:
    named = str(body["source_dataset"])
    if named not in SPELLINGS:
        raise ValueError(f"source_dataset is {named!r}, not one of {', '.join(SPELLINGS)}")
    options = tuple((str(letter), str(text)) for letter, text in body["options"].items())
    return TextCase(
        task=f"{MEDAGENTSBENCH}.{SPELLINGS[named]}",
        id=f"{named}-{body.get('source_realidx', body.get('case_id'))}",
        text=_said(body, "question"),
        answer=_letter(_said(body, "answer"), options),
        reference=str(body.get("reference_analysis") or ""),
        options=options,
    )


def _either(body: Mapping[str, Any]) -> TextCase:
    return _question(body) if "options" in body else _medr_case(body)


def _letter(answer: str, options: tuple[tuple[str, str], ...]) -> str:
    """The letter of the right option: as it stands in front of the answer, else by the option's words."""
    letters = [letter for letter, _ in options]
    if len(letters) < 2 or len(set(letters)) < len(letters) or not set(letters) <= set(LETTERS):
        raise ValueError(f"its options are lettered {', '.join(letters) or 'not at all'}")
    found = _LETTER.match(answer)
    if found and found[1] in letters:
        return found[1]
    same = [letter for letter, text in options if text.strip() == answer]
    if len(same) != 1:
        raise ValueError(f"its answer {answer[:40]!r} is none of its options")
    return same[0]


def _said(body: Mapping[str, Any], name: str) -> str:
    """A text that has to be there."""
    text = str(body[name]).strip()
    if not text:
        raise ValueError(f"its {name} is empty")
    return text
