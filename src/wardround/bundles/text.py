"""A bundle in words (section 4 of the paper): gaps as tokens, abnormal values spelt out, normal panels folded."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from itertools import groupby

from wardround.bundles.events import Bundle, BundleEvent
from wardround.bundles.kinds import STOPS, EventKind, ValueLevel

GAP_HOURS = 2
"""A gap of so many hours or more is said (the paper prints no threshold; this is ours)."""
SECTIONS: Mapping[str, tuple[EventKind, ...]] = {
    "Stay": (EventKind.ADMISSION, EventKind.TRANSFER, EventKind.DISCHARGE),
    "Diagnoses": (EventKind.DIAGNOSIS,),
    "Allergies": (EventKind.ALLERGY,),
    "Medications": (EventKind.MEDICATION_START, EventKind.MEDICATION_STOP),
    "Given": (EventKind.ADMINISTRATION,),
    "Labs": (EventKind.LAB,),
    "Cultures": (EventKind.CULTURE_TAKEN, EventKind.CULTURE),
    "Vitals": (EventKind.VITAL,),
    "Intake": (EventKind.INTAKE, EventKind.INFUSION_START, EventKind.INFUSION_STOP),
    "Output": (EventKind.OUTPUT,),
    "Procedures": (EventKind.PROCEDURE, EventKind.PROCEDURE_STOP),
    "Corrections": (EventKind.RETRACTION,),
}
"""The sections of a bundle's text, in order, and what stands in them."""
_SECTION_OF_KIND = {kind: section for section, kinds in SECTIONS.items() for kind in kinds}
VERBS = {
    EventKind.MEDICATION_START: "start",
    EventKind.MEDICATION_STOP: "stop",
    EventKind.INFUSION_START: "run",
    EventKind.INFUSION_STOP: "end of",
    EventKind.PROCEDURE_STOP: "end of",
    EventKind.CULTURE_TAKEN: "taken",
    EventKind.ADMISSION: "admitted",
    EventKind.DISCHARGE: "discharged",
    EventKind.RETRACTION: "withdrawn",
}
ENDED = (*STOPS.values(), EventKind.RETRACTION)
LEVEL_WORDS = {
    ValueLevel.LOW: "Low",
    ValueLevel.HIGH: "High",
    ValueLevel.BELOW_BASELINE: "below own baseline",
    ValueLevel.ABOVE_BASELINE: "above own baseline",
}
MANY_NORMAL = 3
"""A panel of so many normal results or more is said in a word."""


def bundle_text(bundle: Bundle) -> str:
    """Return a bundle as lines: the gap before it where there is one, the hour, and a line per section."""
    lines = []
    if bundle.gap_hours is not None and bundle.gap_hours >= GAP_HOURS:
        lines.append(f"[TIME_DELTA: +{bundle.gap_hours} hours]")
    lines.append(f"[{bundle.hour:%Y-%m-%d %H:00}]")
    for section, events in _by_section(bundle.events).items():
        lines.append(f"{section}: {'; '.join(_section(events))}")
    return "\n".join(lines)


def _by_section(events: Iterable[BundleEvent]) -> Mapping[str, list[BundleEvent]]:
    """Return the sections that have events, in their order."""
    found: dict[str, list[BundleEvent]] = {section: [] for section in SECTIONS}
    for event in events:
        found[_SECTION_OF_KIND[event.kind]].append(event)
    return {section: several for section, several in found.items() if several}


def _section(events: Sequence[BundleEvent]) -> Iterator[str]:
    folded = list(_folded(events))
    hidden = {name for _, names, _ in folded for name in names}
    yield from dict.fromkeys(
        _series(list(several))
        for (_, concept), several in groupby(sorted(events, key=_place), key=_place)
        if concept not in hidden
    )
    yield from (f"{panel}: {word} normal ({len(names)})" for panel, names, word in folded)


def _place(event: BundleEvent) -> tuple[int, str]:
    return int(event.kind), event.concept


def _folded(events: Iterable[BundleEvent]) -> Iterator[tuple[str, set[str], str]]:
    """Yield panels of which some tests are normal, with the names of these, and whether they are all that was done."""
    labs = [event for event in events if event.kind is EventKind.LAB]
    abnormal = {event.concept for event in labs if event.level is not ValueLevel.NORMAL or event.revision}
    by_panel: dict[str, set[str]] = {}
    for event in labs:
        panel = panel_of(event.concept)
        if panel is not None:
            by_panel.setdefault(panel, set()).add(event.concept)
    for panel, names in by_panel.items():
        normal = names - abnormal
        if len(normal) >= MANY_NORMAL:
            yield panel, normal, "all" if normal == names else "others"


@cache
def panel_of(concept: str) -> str | None:
    folded = concept.strip().casefold()
    fits = (panel for panel, names in _panels().items() if any(fnmatchcase(folded, name) for name in names))
    return next(fits, None)


@cache
def _panels() -> Mapping[str, Sequence[str]]:
    text = files("wardround.bundles").joinpath("data/panels.toml").read_text(encoding="utf-8")
    panels: Mapping[str, Sequence[str]] = tomllib.loads(text)["panels"]
    return panels


def _series(events: Sequence[BundleEvent]) -> str:
    """Say the events of one concept: the last in full, what was measured before it in brackets."""
    last = events[-1]
    said = event_text(last)
    before = [f"{event.value:g}" for event in events[:-1] if event.value is not None]
    if before and last.value is not None:
        return f"{said} [before: {', '.join(before)}]"
    return f"{said} (x{len(events)})" if len(events) > 1 else said


def event_text(event: BundleEvent) -> str:
    """Say one event: ``Creatinine 2.1 mg/dL (High)``, ``start Vancomycin 1000 mg``."""
    words = [VERBS.get(event.kind, ""), event.concept]
    if event.kind not in ENDED:
        words += [f"{event.value:g}" if event.value is not None else event.text or ""]
        words += [event.unit or ""] if event.value is not None or event.text else []
    words += [f"({LEVEL_WORDS[event.level]})"] if event.level in LEVEL_WORDS else []
    words += ["(corrected)"] if event.revision and event.kind not in ENDED else []
    return " ".join(word for word in words if word)
