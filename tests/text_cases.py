"""Invented cases in the shape of the published files of MedR-Bench and MedAgentsBench."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

REFERENCE = "1. The rash came after the drug.\n2. Stopping it is what helps."


def report(number: int, what: str, source: str, **more: Any) -> dict[str, Any]:
    """A case of an invented report."""
    right = {"diagnosis": "Fabled fever.", "treatment": "Stop inventol."}[what]
    return {
        "id": f"case_{number:04d}",
        "task_type": what,
        "task": f"- **Patient Information:** {30 + number}-year-old woman.\n- **Chief Complaint:** rash {number}.",
        "answer": right,
        "reference_analysis": REFERENCE,
        "metadata": {"source_id": source},
    } | more


def question(number: int, source: str, **more: Any) -> dict[str, Any]:
    """An invented examination question; B is right."""
    return {
        "case_id": f"case_{number:04d}",
        "question": f"A man of {40 + number} has taken inventol. What made his rash number {number}?",
        "options": {"A": "Fablerol", "B": "Inventol", "C": "Mythicin", "D": "Legendin"},
        "answer": "B.Inventol",
        "task_type": "diagnosis",
        "reference_analysis": "",
        "source_dataset": source,
        "source_realidx": number,
    } | more


def published_report(number: int, what: str) -> dict[str, Any]:
    """An invented case as MedR-Bench's authors publish theirs, to stand under a report's name."""
    case = {
        "case_summary": f"- **Patient Information:** woman of {30 + number}.\n- **Chief Complaint:** rash {number}."
    }
    own = {
        "diagnosis": {
            "differential_diagnosis": "1. The rash came after the drug.",
            "final_diagnosis": "It was **fabled fever**.",
            "diagnosis_results": "Fabled fever.",
        },
        "treatment": {
            "treatment_planning_analysis": "- Rationale: the drug did it.",
            "treatment_plan_results": "Stop inventol.",
        },
    }[what]
    return {"raw_case": "The whole report.", "generate_case": case | own, "checked_rare_disease": []}


def published_question(number: int, **more: Any) -> dict[str, Any]:
    """An invented question as MedAgentsBench's authors publish theirs: nothing in it names its question set."""
    return {
        "realidx": str(number),
        "question": f"A man of {40 + number} has taken inventol. What made his rash number {number}?",
        "options": {"A": "Fablerol", "B": "Inventol", "C": "Mythicin"},
        "answer_idx": "B",
        "answer": "Inventol",
    } | more


def write_published(folder: Path, numbers: range) -> tuple[Path, ...]:
    """Every layout that authors publish: diagnoses and treatments by turns as objects by report, then question sets."""
    folder.mkdir()
    found = []
    for what, of_it in (("diagnosis", numbers[::2]), ("treatment", numbers[1::2])):
        found.append(folder / f"{what}_cases.json")
        cases = {f"PMC{number}": published_report(number, what) for number in of_it}
        found[-1].write_text(json.dumps(cases), encoding="utf-8")
    for number, name in enumerate(("medqa", "medmcqa", "medbullets"), start=60):
        (folder / name).mkdir()
        found.append(write_lines(folder / name / "test_hard.jsonl", [published_question(number)]))
    return tuple(found)


def both(numbers: Iterable[int], prefix: str) -> list[dict[str, Any]]:
    """A diagnosis and a treatment by turns, each of a report of its own."""
    return [report(n, "treatment" if n % 2 else "diagnosis", f"{prefix}{n}") for n in numbers]


def write_list(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A gzipped JSON list, as MedR-Bench has it."""
    path.write_bytes(gzip.compress(json.dumps(list(rows)).encode()))
    return path


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines, as MedAgentsBench has them."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
