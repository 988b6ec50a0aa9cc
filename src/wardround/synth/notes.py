"""Discharge summaries: the usual sections, in varying case, some missing, with ``___`` where a name or date was."""

from __future__ import annotations

from wardround.synth.catalog import Drug
from wardround.synth.imaging import Exam
from wardround.synth.labs import Results, Signals
from wardround.synth.medication import Course
from wardround.synth.micro import CultureOrder
from wardround.synth.output import number_text, quoted
from wardround.synth.person import HOUR, at_minute, day_stamp, stamp
from wardround.synth.planning import ClinicalProblem, Encounter
from wardround.synth.subject_writer import SubjectWriter

_PLACES = {
    "HOME": "Home", "HOME HEALTH CARE": "Home With Service", "DIED": "Expired", "HOSPICE": "Home With Service",
    "": "Home", "AGAINST ADVICE": "Home",
}  # fmt: skip
_BLOOD = (
    ("WBC", "white_cells"), ("Hgb", "hemoglobin"), ("Hct", "hematocrit"), ("Plt Ct", "platelets"),
    ("Glucose", "glucose"), ("UreaN", "urea"), ("Creat", "creatinine"),
    ("Na", "sodium"), ("K", "potassium"), ("Cl", "chloride"),
    ("HCO3", "bicarbonate"), ("Lactate", "lactate"), ("ALT", "alt"), ("AST", "ast"), ("TotBili", "bilirubin"),
    ("Lipase", "lipase"), ("cTropnT", "troponin"), ("proBNP", "ntprobnp"), ("INR(PT)", "inr"),
)  # fmt: skip
_FREQUENCIES = {
    "DAILY": "DAILY",
    "QHS": "QHS",
    "QPM": "QPM",
    "BID": "BID",
    "TID": "TID",
    "Q24H": "DAILY",
    "Q12H": "Q12H",
}


class _Summary:
    """Builds one discharge summary section by section."""

    def __init__(self, writer: SubjectWriter, stay: Encounter, signals: Signals) -> None:
        self.writer, self.dice, self.stay, self.signals = writer, writer.dice, stay, signals
        female = writer.subject.sex == "F"
        self.title, self.who = ("Ms.", "woman") if female else ("Mr.", "man")
        self.they, self.their = ("She", "her") if female else ("He", "his")
        self.words = writer.catalog.notes["text"]

    def _pick(self, name: str) -> str:
        text: str = self.dice.pick(self.words[name])
        return text

    def _acute(self) -> list[ClinicalProblem]:
        return [problem for problem in self.stay.problems if problem.role in ("principal", "complication")]

    def chronic(self) -> list[str]:
        """Long-standing conditions in words."""
        return [problem.condition.title for problem in self.stay.problems if problem.role == "chronic"]

    def history(self) -> str:
        """Present illness: who, with what behind them, came how."""
        principal = self.stay.principal.condition
        past = self.chronic()[:4]
        behind = (
            f" with a history of {', '.join(item.lower() if item[1:2].islower() else item for item in past)}"
            if past
            else ""
        )
        story = principal.get("hpi").format(days=self.dice.pick(("two", "three", "four", "several")))
        where = "In the ED" if self.stay.ed_out is not None else "On arrival"
        vitals = self.vitals(self.stay.arrival + 600)
        return (
            f"{self.title} ___ is a ___ year old {self.who}{behind} who {story}.\n\n"
            f"{where}, initial vitals were: {vitals}. Exam was notable as below.\n"
            f"{self.they} was seen on the floor and confirmed the history above. ROS otherwise negative."
        )

    def vitals(self, moment: int) -> str:
        """Write a vitals line."""
        rows, measure = self.writer.catalog.vitals, self.signals.measure
        systolic = measure(rows["systolic"], moment)
        return (
            f"T {measure(rows['temperature'], moment):.1f} HR {measure(rows['heart_rate'], moment):.0f} "
            f"BP {systolic:.0f}/{systolic * 0.57:.0f} RR {measure(rows['respiratory_rate'], moment):.0f} "
            f"O2 {measure(rows['oxygen_saturation'], moment):.0f}%"
        )

    def examination(self, moment: int, *, sick: bool) -> str:
        """Write a physical examination that fits the problems."""
        key, ward = self.stay.principal.condition.key, self.stay.principal.condition.get("ward")
        lungs = sick and "oxygen_saturation" in self.stay.principal.condition.vitals
        belly = sick and (ward == "surgery" or key in ("pancreatitis", "gi_bleed", "variceal_bleed", "abdominal_pain"))
        brain = sick and self.signals.level(self.writer.catalog.vitals["coma_scale"], moment) < 14
        irregular = any(p.condition.key in ("atrial_fibrillation", "rapid_fibrillation") for p in self.stay.problems)
        fast = self.signals.level(self.writer.catalog.vitals["heart_rate"], moment) > 100
        heart = "heart_irregular" if irregular else "heart_fast" if fast else "heart"
        return (
            f"Vitals: {self.vitals(moment)}\nGeneral: {self._pick('general')}\nCV: {self._pick(heart)}\n"
            f"Lungs: {self._pick('lungs_sick' if lungs else 'lungs')}\n"
            f"Abdomen: {self._pick('abdomen_sick' if belly else 'abdomen')}\n"
            f"Ext: {self._pick('extremities')}\nNeuro: {self._pick('neuro_sick' if brain else 'neuro')}"
        )

    def results(self, results: Results, cultures: list[CultureOrder], exams: list[Exam]) -> str:
        """First and last laboratory values, cultures, imaging."""
        parts = [f"ADMISSION LABS:\n{self._labs(results[:3])}"] if results else []
        if len(results) > 3:
            parts.append(f"DISCHARGE LABS:\n{self._labs(results[-2:])}")
        if cultures:
            lines = [f"___ {culture.name}: {culture.finding or 'no growth to date'}" for culture in cultures[:6]]
            parts.append("MICROBIOLOGY:\n" + "\n".join(lines))
        if exams:
            names = self.writer.catalog.notes["exams"]
            parts.append(
                "IMAGING:\n" + "\n".join(f"___ {names[exam.key]['name']}: {exam.finding}" for exam in exams[:4])
            )
        return "\n\n".join(parts)

    def _labs(self, results: Results) -> str:
        lines, seen = [], set()
        for moment, values in results:
            found = []
            for name, key in _BLOOD:
                if key in values and key not in seen:
                    seen.add(key)
                    analyte = self.writer.catalog.analytes[key]
                    text = number_text(values[key], analyte.digits)
                    column = self.writer.subject.column
                    low, high = analyte.low[column], analyte.high[column]
                    odd = (low and float(text) < float(low)) or (high and float(text) > float(high))
                    found.append(f"{name}-{text}{'*' if odd else ''}")
            if found:
                half = "AM" if moment // HOUR % 24 < 12 else "PM"
                clock = f"{moment // HOUR % 12 or 12:02d}:{moment // 60 % 60:02d}{half}"
                lines.append(f"___ {clock} BLOOD {' '.join(found)}")
        return "\n".join(lines)

    def course(self) -> str:
        """Write the hospital course by problem."""
        lead = self.stay.principal.condition
        parts = [f"{self.title} ___ is a ___ year old {self.who} admitted with {lead.title.lower()}."]
        if self.stay.icu_places:
            parts.append(f"{self.they} was initially cared for in the intensive care unit.")
        for problem in self._acute():
            parts.append(f"\n# {problem.condition.title}: {problem.condition.get('course')}")
        for title in self.chronic()[:6]:
            parts.append(f"# {title}: Continued home regimen as tolerated.")
        if self.stay.death is not None:
            parts.append(
                f"\nDespite these measures {self.their} condition worsened with failure of several organs. After "
                "discussion with the family the goals of care were changed to comfort, and the patient "
                "died peacefully on ___."
            )
        return "\n".join(parts)

    def home_list(self) -> str:
        """Medications on admission."""
        items = self.writer.subject.home_at(self.stay.admit)
        if not items:
            return "None"
        rows = [f"{number}. {_dosing(item.drug, item.dose)} " for number, item in enumerate(items, 1)]
        return "The Preadmission Medication list is accurate and complete.\n" + "\n".join(rows)

    def discharge_list(self, courses: list[Course]) -> str:
        """Write the discharge drugs: home-type drugs running at the end, oral antibiotics to finish, held drugs to
        resume."""
        last = self.stay.discharge - 14 * HOUR
        kept = {course.drug.key: course for course in courses if course.stop >= last and _goes_home(course)}
        lines = [_dosing(course.drug, course.dose) for course in kept.values()]
        for item in self.writer.subject.home_at(self.stay.admit):
            if item.drug.key not in kept and item.drug.kinds & {"metformin", "sulfonylurea", "statin"}:
                lines.append(f"{_dosing(item.drug, item.dose)} (resume)")
        return "\n".join(f"{number}.  {line} " for number, line in enumerate(lines, 1)) or "None"

    def diagnoses(self) -> str:
        """Discharge diagnoses in words."""
        acute = [problem.condition.title for problem in self._acute()]
        chronic = self.chronic()[:5]
        text = "PRIMARY DIAGNOSIS:\n" + "\n".join(dict.fromkeys(acute))
        return text + ("\n\nSECONDARY DIAGNOSIS:\n" + "\n".join(chronic) if chronic else "")

    def condition(self) -> str:
        """Mental status and activity at the end."""
        if self.stay.death is not None:
            return "Expired"
        dementia = any(problem.condition.key == "dementia" for problem in self.stay.problems)
        mind = "Confused - sometimes." if dementia else "Clear and coherent."
        walks = (
            "Ambulatory - requires assistance or aid (walker or cane)."
            if self.stay.age > 78
            else "Ambulatory - Independent."
        )
        return f"Mental Status: {mind}\nLevel of Consciousness: Alert and interactive.\nActivity Status: {walks}"


def _dosing(drug: Drug, dose: float) -> str:
    route, often = drug.route.split("/")[0], _FREQUENCIES.get(drug.freq, drug.freq)
    return f"{drug.name.strip()} {number_text(dose, 3)} {drug.unit} {route} {often}"


def _goes_home(course: Course) -> bool:
    drug = course.drug
    by_mouth = drug.route.startswith("PO")
    return bool((course.ending == "discharge" and drug.home) or (by_mouth and "antibiotic" in drug.kinds))


def _header(name: str, style: int) -> str:
    return name.upper() if style == 1 else name.lower() if style == 2 else name


def _compose(
    writer: SubjectWriter,
    summary: _Summary,
    stay: Encounter,
    *,
    results: Results,
    cultures: list[CultureOrder],
    exams: list[Exam],
    courses: list[Course],
    where: str,
) -> str:
    dice, condition = writer.dice, stay.principal.condition
    names = writer.catalog.people["allergy_names"]
    allergies = " / ".join(names[item] for item in sorted(writer.subject.allergies) if item in names)
    operations = "\n".join(dict.fromkeys(f"___: {act.row['title']}" for act in stay.acts)) or "None"
    dead = stay.death is not None
    sick, well = stay.arrival + HOUR, stay.discharge - 3 * HOUR
    physical = f"ADMISSION PHYSICAL EXAM:\n{summary.examination(sick, sick=True)}"
    physical += "" if dead else f"\n\nDISCHARGE PHYSICAL EXAM:\n{summary.examination(well, sick=False)}"
    bodies = (
        stay.complaint,
        operations,
        summary.history(),
        "\n".join(f"- {title}" for title in summary.chronic()) or "None",
        "___",
        dice.pick(summary.words["family"]),
        physical,
        summary.results(results, cultures, exams),
        summary.course(),
        summary.home_list(),
        "Expired" if dead else summary.discharge_list(courses),
        _PLACES.get(where, "Extended Care") + ("\n \nFacility:\n___" if where not in _PLACES else ""),
        summary.diagnoses(),
        summary.condition(),
        "Expired"
        if dead
        else f"Dear {summary.title} ___,\n\n{condition.get('advice')} Please take your medicines as "
        "listed and keep your appointments.\n\nWe wish you the best,\nYour ___ Team",
        "___",
    )
    style = dice.weighted({0: 74, 1: 16, 2: 10})
    service = writer.catalog.services[condition.get("service", "MED")]
    text = (
        " \nName:  ___                     Unit No:   ___\n \nAdmission Date:  ___              Discharge Date:   ___"
        "\n \n"
        f"Date of Birth:  ___             Sex:   {writer.subject.sex}\n \nService: {service}\n \n"
        f"{_header('Allergies', style)}: \n{allergies or 'No Known Allergies / Adverse Drug Reactions'}\n \n"
        "Attending: ___.\n \n"
    )
    for name, body in zip(summary.words["headers"], bodies, strict=True):
        if not dice.chance(0.025):
            text += f"{_header(name, style)}:\n{body}\n \n"
    return text


def write_summary(
    writer: SubjectWriter,
    stay: Encounter,
    *,
    results: Results,
    cultures: list[CultureOrder],
    exams: list[Exam],
    courses: list[Course],
    where: str,
) -> None:
    """Write the discharge summary of a stay: dated the day of discharge, signed later."""
    if writer.dice.chance(0.04):
        return
    signals = Signals(
        writer.dice, writer.subject, stay.problems, stay.arrival, stay.discharge, fatal=stay.death is not None
    )
    summary = _Summary(writer, stay, signals)
    text = _compose(
        writer, summary, stay, results=results, cultures=cultures, exams=exams, courses=courses, where=where
    )
    subject, counts = writer.subject.subject_id, writer.counts
    counts["DS"] = number = counts.get("DS", 0) + 1
    note = f"{subject}-DS-{number}"
    signed = at_minute(stay.discharge + writer.dice.skewed(20, 1.0) * HOUR)
    when = "" if writer.dice.chance(0.01) else stamp(signed)
    day = day_stamp(stay.discharge) + " 00:00:00"
    writer.add("discharge")(f"{note},{subject},{stay.hadm_id},DS,{number},{day},{when},{quoted(text)}\n")
    writer.add("discharge_detail")(f"{note},{subject},author,___,1\n")
