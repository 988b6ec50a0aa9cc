"""Imaging: which examinations a stay gets, the orders behind them, and the radiologist's reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from wardround.synth.orders import imaging_subtype, place_order
from wardround.synth.output import quoted
from wardround.synth.person import HOUR, MINUTE, at_minute, stamp
from wardround.synth.planning import ClinicalProblem, Encounter
from wardround.synth.subject_writer import SubjectWriter

_SERIAL = "Tubes and lines in standard position. No significant interval change in lung opacities. No pneumothorax."


class Exam(NamedTuple):
    """One examination: when, for what, and what it showed."""

    key: str
    moment: int
    reason: str
    finding: str


def _of_problem(
    writer: SubjectWriter, problem: ClinicalProblem, start: int, stop: int, complaint: str
) -> Iterable[Exam]:
    for key, share, hours, finding in problem.condition.get("imaging"):
        moment = at_minute(max(problem.onset, start) + (hours * writer.dice.between(0.8, 1.6) + 0.3) * HOUR)
        if writer.dice.chance(share) and moment < stop:
            early = problem.role == "principal" and hours < 30
            reason = complaint if early else problem.condition.title
            yield Exam(key=key, moment=moment, reason=reason.lower(), finding=finding)


def plan_imaging(
    writer: SubjectWriter,
    problems: Iterable[ClinicalProblem],
    start: int,
    end: int,
    complaint: str,
    stay: Encounter | None,
) -> list[Exam]:
    """Decide the examinations of a stay or ED visit, and order them if there is a stay."""
    exams = [exam for problem in problems for exam in _of_problem(writer, problem, start, end - 40 * MINUTE, complaint)]
    if stay is not None:
        for place in stay.icu_places:
            day = place.start + int(writer.dice.between(18, 30) * HOUR)
            while day < place.end and stay.ventilation is not None and day < stay.ventilation[1]:
                exams.append(
                    Exam(
                        key="chest_xray",
                        moment=at_minute(day),
                        reason="respiratory failure, intubated",
                        finding=_SERIAL,
                    )
                )
                day += int(writer.dice.between(20, 50) * HOUR)
        for exam in exams:
            before = max(stay.arrival, exam.moment - int(writer.dice.between(0.3, 5) * HOUR))
            place_order(writer, before, "Radiology", imaging_subtype(exam.key), stay.hadm_id)
    return sorted(exams, key=lambda exam: exam.moment)


def _report(writer: SubjectWriter, exam: Exam) -> str:
    row, dice = writer.catalog.notes["exams"][exam.key], writer.dice
    who = "man" if writer.subject.sex == "M" else "woman"
    loud = dice.chance(0.85)
    sections = [
        ("EXAMINATION", row["name"]),
        ("INDICATION", f"___ year old {who} with {exam.reason}  // evaluate for acute process"),
        ("TECHNIQUE", row["technique"] + "."),
        ("COMPARISON", "None." if dice.chance(0.3) else "___."),
    ]
    lines = [f"{name if loud else name.capitalize()}:  {text}\n \n" for name, text in sections if not dice.chance(0.06)]
    if dice.chance(0.75):
        lines.append(f"{'FINDINGS' if loud else 'Findings'}: \n \n{exam.finding}\n \n")
    lines.append(f"{'IMPRESSION' if loud else 'Impression'}: \n \n{exam.finding.split('. ')[0].rstrip('.')}.\n")
    return "".join(lines)


def write_reports(writer: SubjectWriter, exams: list[Exam], hadm: str) -> list[tuple[Exam, int | None]]:
    """Write radiology notes with their details; a few get an addendum. Return when each was finished, if that is
    recorded."""
    finished: list[tuple[Exam, int | None]] = []
    subject, dice, counts = writer.subject.subject_id, writer.dice, writer.counts
    add, detail = writer.add("radiology"), writer.add("radiology_detail")
    for exam in exams:
        row = writer.catalog.notes["exams"][exam.key]
        counts["RR"] = number = counts.get("RR", 0) + 1
        note = f"{subject}-RR-{number}"
        stored = exam.moment + int(dice.skewed(2.2, 0.8) * HOUR)
        text = quoted(_report(writer, exam))
        when = "" if dice.chance(0.01) else stamp(at_minute(stored))
        finished.append((exam, stored if when else None))
        add(f"{note},{subject},{hadm},RR,{number},{stamp(exam.moment)},{when},{text}\n")
        for order, (name, value) in enumerate(
            (("exam_code", row["code"]), ("exam_name", row["name"]), ("cpt_code", row["cpt"])), 1
        ):
            detail(f"{note},{subject},{name},{quoted(value)},{order}\n")
        if dice.chance(0.02):
            counts["AR"] = extra = counts.get("AR", 0) + 1
            later = at_minute(stored + dice.between(1, 30) * HOUR)
            words = quoted("ADDENDUM  Findings were discussed with ___ by telephone.\n")
            add(f"{subject}-AR-{extra},{subject},{hadm},AR,{extra},{stamp(exam.moment)},{stamp(later)},{words}\n")
            detail(f"{subject}-AR-{extra},{subject},parent_note_id,{note},1\n")
            detail(f"{note},{subject},addendum_note_id,{subject}-AR-{extra},1\n")
    return finished
