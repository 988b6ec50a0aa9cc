"""The tasks with pictures (ClinSeekAgent, section 3.1 and table 6), with their vocabulary shown and without."""

from __future__ import annotations

from collections.abc import Mapping

from wardround.tasks.answers import AnswerKind, FreeLabels, OneClass
from wardround.tasks.benchmarks.task import CHEXPERT_LABELS, TASKS, QuestionText, Task

FAMILY = "clinseek-mm"
NO_CHANGE = "no new finding"
PHENOTYPES = (
    "Acute and unspecified renal failure",
    "Acute cerebrovascular disease",
    "Acute myocardial infarction",
    "Cardiac dysrhythmias",
    "Chronic kidney disease",
    "Chronic obstructive pulmonary disease and bronchiectasis",
    "Complications of surgical procedures or medical care",
    "Conduction disorders",
    "Congestive heart failure; nonhypertensive",
    "Coronary atherosclerosis and other heart disease",
    "Diabetes mellitus with complications",
    "Diabetes mellitus without complication",
    "Disorders of lipid metabolism",
    "Essential hypertension",
    "Fluid and electrolyte disorders",
    "Gastrointestinal hemorrhage",
    "Hypertension with complications and secondary hypertension",
    "Other liver diseases",
    "Other lower respiratory disease",
    "Other upper respiratory disease",
    "Pleurisy; pneumothorax; pulmonary collapse",
    "Pneumonia (except that caused by tuberculosis or sexually transmitted disease)",
    "Respiratory failure; insufficiency; arrest (adult)",
    "Septicemia (except in labor)",
    "Shock",
)
"""The 25 CCS categories of the phenotyping task (Harutyunyan et al., 2019)."""
PUBLISHED_COUNTS: Mapping[str, int] = {
    "finding_presence": 177,
    "finding_enumeration": 98,
    "finding_enumeration_stay": 122,
    "finding_change": 222,
    "mortality_24h": 125,
    "mortality_inpatient": 125,
    "phenotypes": 120,
}
"""The paper's samples per task, 989 in all."""
MAX_SAMPLES: Mapping[str, int] = {**PUBLISHED_COUNTS, "finding_change_yes_no": PUBLISHED_COUNTS["finding_change"]}
"""How many of each task are drawn at most. EHRXQA also asks about change with yes or no: the paper's 222 hold both."""
_YES_NO = OneClass(classes=(("0", "no"), ("1", "yes")))
_WORDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "finding_presence": ("Presence of a finding", "Does the latest linked chest radiograph show the finding?", ()),
    "finding_enumeration": (
        "Findings of one examination",
        "Which findings does the latest linked chest radiograph show?",
        CHEXPERT_LABELS,
    ),
    "finding_enumeration_stay": (
        "Findings of several examinations",
        "Which findings does at least one of the linked chest radiographs show?",
        CHEXPERT_LABELS,
    ),
    "finding_change": (
        "New findings since the examination before",
        f'Which findings are on the latest linked chest radiograph and not on the one before? If none: "{NO_CHANGE}".',
        (NO_CHANGE, *CHEXPERT_LABELS),
    ),
    "finding_change_yes_no": (
        "A finding's change since the examination before",
        "Is the finding on the latest linked chest radiograph as the question says, compared with the one before?",
        (),
    ),
    "mortality_24h": ("Death within 24 hours", "Will the patient die within 24 hours from now?", ()),
    "mortality_inpatient": ("Death in this hospital stay", "Will the patient die in this hospital stay?", ()),
    "phenotypes": (
        "Phenotypes of the stay",
        "The patient leaves intensive care now. Which conditions will this hospital stay be coded with?",
        PHENOTYPES,
    ),
}
GROUPS: Mapping[str, str] = {
    "finding_presence": "presence",
    "finding_enumeration": "enumeration",
    "finding_enumeration_stay": "enumeration",
    "finding_change": "change",
    "finding_change_yes_no": "change",
    "mortality_24h": "death-24h",
    "mortality_inpatient": "death",
    "phenotypes": "phenotypes",
}
"""The groups of table 6, by task."""


def _task(what: str, *, shown: bool) -> Task:
    title, description, vocabulary = _WORDS[what]
    answer: AnswerKind = FreeLabels(vocabulary=vocabulary, shown=shown) if vocabulary else _YES_NO
    return Task(
        name=mm_name(what, shown=shown),
        title=title,
        answer=answer,
        about=GROUPS[what],
        template="clinseek_mm",
        family=FAMILY,
        words=QuestionText(category="Chest radiograph and record", description=description),
    )


def mm_name(what: str, *, shown: bool) -> str:
    """Return the name of a task; with ``.open`` where both arms do not see its vocabulary."""
    return f"{FAMILY}.{what}" if shown or not _WORDS[what][2] else f"{FAMILY}.{what}.open"


CLINSEEK_MM_TASKS: Mapping[str, Task] = {
    task.name: task for what in _WORDS for shown in (True, False) for task in (_task(what, shown=shown),)
}
"""Every task, by its name here."""

for _name, _one in CLINSEEK_MM_TASKS.items():
    TASKS.add(_name, _one)
