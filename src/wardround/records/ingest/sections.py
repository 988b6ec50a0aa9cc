"""Discharge summary sections that were known at admission, and tables derived from text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from string import ascii_lowercase, ascii_uppercase

import pyarrow as pa

from wardround.records.specs.spec import Derivation

# The part of a discharge summary that was known at admission, found by its section headers.
#
# A discharge summary is written at the end of a stay, but repeats what was recorded at its start. Only the sections in
# ``ADMISSION_SECTIONS`` are kept. Anything that looks like another header ends a section: it is better to lose the rest
# of a history than to leak a hospital course. Sentences inside a kept section are not checked.


ADMISSION_SECTIONS = (
    "Chief Complaint",
    "History of Present Illness",
    "Past Medical History",
    "Social History",
    "Family History",
    "Allergies",
    "Medications on Admission",
)
"""Titles of the kept sections, in the order in which they are given back."""

_SPELLINGS = {
    "Chief Complaint": "chief complaint, chief complaints, cc, presenting complaint, reason for admission, "
    "reason for hospitalization, reason for hospitalisation",
    "History of Present Illness": "history of present illness, history of the present illness, present illness, hpi, "
    "hx, history, history of presenting illness, history of presenting complaint, brief history of present illness",
    "Past Medical History": "past medical history, past history, pmh, pmhx, past surgical history, psh, pshx, "
    "medical history, surgical history, past medical surgical history, previous medical history, "
    "other past medical history",
    "Social History": "social history, social hx, sh, shx, soc hx, personal history",
    "Family History": "family history, family hx, fh, fhx, fam hx, family medical history",
    "Allergies": "allergies, allergy, drug allergies, medication allergies, known allergies, adverse drug reactions, "
    "allergies adverse drug reactions, allergies adverse reactions",
    "Medications on Admission": "medications on admission, medication on admission, meds on admission, "
    "admission medications, admission meds, home medications, home meds, medications at home, meds at home, "
    "preadmission medications, pre admission medications, medications prior to admission, outpatient medications, "
    "medications before admission, preadmission medication list, admitting medications, home medication list",
}
_TITLES = {spelling.strip(): title for title, text in _SPELLINGS.items() for spelling in text.split(",")}
_INSIDE = (
    "ed course|in the ed|ros|review of systems|review of symptoms|interval history|ed vitals|initial vitals|"
    "vitals in ed|on arrival|on arrival to the floor|on the floor|per report|of note|past obstetric history|"
    "cardiac risk factors|cardiac history|risk factors|tobacco|smoking|alcohol|etoh|drugs|illicits|illicit drugs|"
    "occupation|mother|father|brother|sister|siblings|lives|marital status|children"
)
_KEPT_INSIDE = frozenset(_INSIDE.split("|"))
"""Headings that stand inside kept sections and end none."""

_FOREIGN = (
    "major surgical or invasive procedure|procedure|procedures|physical exam|physical examination|admission exam|"
    "discharge exam|exam|examination|pe|vital signs|vitals|vs|pertinent results|results|labs|laboratory data|"
    "laboratory|imaging|studies|micro|microbiology|radiology|ekg|ecg|echo|brief hospital course|hospital course|course|"
    "assessment|assessment and plan|plan|a p|impression|active issues|chronic issues|acute issues|transitional issues|"
    "discharge medications|discharge meds|discharge disposition|discharge diagnosis|discharge diagnoses|"
    "discharge condition|discharge instructions|discharge date|followup instructions|follow up instructions|"
    "follow up|followup|facility|attending|service|sex|date of birth|admission date|name|unit no|disposition|condition|"
    "medications|current medications|meds|admission diagnosis|admitting diagnosis|principal diagnosis|final diagnosis|"
    "diagnosis|diagnoses|secondary diagnoses|consults|consultations|operations|operation|surgery|general|gen|heent|"
    "neck|cv|cardiac|cardiovascular|heart|lungs|lung|pulm|chest|resp|respiratory|abdomen|abd|gi|gu|ext|extremities|skin|"
    "neuro|neurologic|neurological|psych|msk|rectal|pelvic|back|nutrition|activity|diet|code status|contact|"
    "immunizations|instructions|recommendations|prognosis|pathology|findings|complications|anesthesia|indications|"
    "hospitalization|bhc|ti|ap|imp|final dx|recs|dispo|outcome|goc|goals of care|evolution|addendum|narrative"
)
_FOREIGN_NAMES = frozenset(_FOREIGN.split("|"))
_ALARM = re.compile(
    r"discharg|hospital (?:course|stay)|hospitali[sz]ation|\bcourse\b|\bexam|physical|procedure|operat|surger|invasive|"
    r"\bresult|\blab|imaging|stud(?:y|ies)|patholog|microbiolog|radiolog|cultur|assessment|\bplan|impression|diagnos|"
    r"disposition|condition|follow|instruction|consult|transitional|\bissues?\b|findings|complication|events?\b|"
    r"post ?op|intra ?op|anesth|expired|death|autops|progress|treatment|therap|management|recommend|summary|problem|"
    r"\bd ?c (?:med|dx|diag|exam|instr|lab|plan|summ|vital|date|cond)|\bon d ?c$|\bpod\b|\bhosp course|"
    r"(?:new|changed|stopped|held|discontinued) med|med(?:ication)?s? changes|\bin the icu\b"
)
"""Words that make an unknown header end a kept section whatever its shape."""

_PREFIX = r"(?:<\w{1,10}>|\[\*\*)?[\s>#*=_~\-•·]*(?:\(?\d{1,2}[.)]\s+|[A-Za-z][.)]\s+)?[#*=_~\s]*"
_COLON = re.compile(rf"^{_PREFIX}([^\W\d_][^:\n]{{0,78}}?)[\s*_#=]*:(?!\d)[*_]*(.*)$")
_BARE = re.compile(rf"^{_PREFIX}([^\W\d_][^:\n]{{0,78}}?)[\s*_#=~\-–—]*$")
_DASHED = re.compile(rf"^{_PREFIX}([^\W\d_][^:\n]{{0,60}}?)\s+[\-–—]+\s+(.*)$")
_PHRASES = sorted(
    (name for name in (*_TITLES, *_FOREIGN_NAMES) if len(name) > 7 or " " in name), key=lambda name: (-len(name), name)
)
_PHRASE = "|".join(re.escape(name).replace(r"\ ", r"[\s/\-]+") for name in _PHRASES)
_INLINE = re.compile(
    rf"(?<![\w/\-])(?P<known>(?i:{_PHRASE}))\s*:|(?<=[.,;!?)\]])\s?(?P<capital>[A-Z][A-Z/&()'\- ]{{1,60}}):"
)
_SENTENCE_END = re.compile(r"(?:[.,;!?)\]]\s*|\s{2,})$")
_OPENING = re.compile(
    rf"^{_PREFIX}(?:major\s+surgical|brief\s+hospital|hospital\s+course|physical\s+exam|pertinent\s+results|discharge\s+"
    r"(?:home\s+)?(?:med|diag|disp|cond|instr|exam|phys|lab|summ)|follow[\s\-]?up\s+instr|transitional\s+issues)",
    re.IGNORECASE,
)
_SPACE = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_MARK = re.compile(r"[-–—(\[]")
_PROSE_LETTERS = 40
_HEADER_WORDS = 11
"""More words than any header has, a number or letter before it included."""
_FIRST_WORDS = "|".join(sorted({name.split()[0] for name in _TITLES} | {"history"}))
_MAY_OPEN = re.compile(rf"(?<![^\W_])(?:{_FIRST_WORDS})(?![^\W_])")
"""A line without one of these words, case folded, opens no kept section."""
_LOWER, _UPPER = ascii_lowercase.encode(), ascii_uppercase.encode()


def admission_sections(text: str) -> str:
    """Return the sections of a discharge summary known at admission, each under its title; empty when there is none."""
    found: dict[str, list[str]] = {title: [] for title in ADMISSION_SECTIONS}
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    shouts = _shouts(text)
    title: str | None = None
    folded = text.casefold()
    start = _next_opening(text, folded, 0)
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        for line in _pieces(text[start:end], shouts=shouts):
            kind, rest = (None, line.strip()) if _is_prose(line) else _read(line, shouts=shouts)
            if kind is not None:
                title = kind or None
            if title is not None and rest:
                found[title].append(rest)
        start = end + 1 if title is not None else _next_opening(text, folded, end + 1)
    blocks = {name: "\n".join(line.strip() for line in lines).strip(" ,\n") for name, lines in found.items()}
    return "\n\n".join(f"{name}:\n{body}" for name, body in blocks.items() if body)


def _next_opening(text: str, folded: str, start: int) -> int:
    """Return the start of the next line that may open a kept section; the text's length if there is none.

    Case folding gives at least one letter for each letter, so that places agree exactly when the lengths do.
    """
    if len(folded) != len(text):
        return start
    match = _MAY_OPEN.search(folded, start)
    return len(text) if match is None else text.rfind("\n", start, match.start()) + 1 or start


def _shouts(text: str) -> bool:
    """Return whether a text is all in capitals, so that capitals do not mark a header."""
    if not text.isascii():
        return sum(map(str.islower, text)) < 0.2 * sum(map(str.isalpha, text))
    plain = text.encode()
    lower = len(plain) - len(plain.translate(None, _LOWER))
    return lower < 0.2 * (lower + len(plain) - len(plain.translate(None, _UPPER)))


def _is_prose(line: str) -> bool:
    """Return quickly whether a long line cannot be a header: too many words, and no sign of one."""
    if ":" in line or len(line) < _PROSE_LETTERS or _MARK.search(line) or "history" in line.casefold():
        return False
    return len(_WORD.findall(line)) > _HEADER_WORDS and not _OPENING.match(line)


def _pieces(line: str, *, shouts: bool) -> Iterator[str]:
    """Split a line before headers inside it: known ones, and in a text of mixed case also unknown ones in capitals."""
    start = 0
    for match in _INLINE.finditer(line) if ":" in line and (line.count(":") > 1 or len(line) > 80) else ():
        known = match["known"]
        cut = match.start("known" if known else "capital")
        before = line[start:cut]
        if re.fullmatch(_PREFIX, before) or (known is None and shouts):
            continue
        if known is not None and _normal(known) in _TITLES and not _SENTENCE_END.search(before):
            continue
        yield before
        start = cut
    yield line[start:]


def _read(line: str, *, shouts: bool) -> tuple[str | None, str]:
    colon = _COLON.match(line)
    if colon:
        name = _normal(colon[1])
        known = _known(name)
        if known is not None:
            return known, colon[2].strip()
        return ("", "") if _ends(colon[1], name, colon[2], shouts=shouts) else (None, line.strip())
    bare = _BARE.match(line)
    name = _normal(bare[1]) if bare else ""
    known = _known(name)
    if known is not None:
        return known, ""
    dashed = _DASHED.match(line)
    if dashed and _known(_normal(dashed[1])):
        return _known(_normal(dashed[1])), dashed[2].strip()
    if _OPENING.match(line) or (bare and _may_head(bare[1], name) and _ALARM.search(name)):
        return "", ""
    return None, line.strip()


def _known(name: str) -> str | None:
    """Return a kept section's title, "" for a known other header, None for no known header.

    A joint header ("social and family history") is kept under its first part if every part is kept.
    """
    if name in _TITLES:
        return _TITLES[name]
    if name in _FOREIGN_NAMES:
        return ""
    parts = [part for part in re.split(r" and | ", name) if part] if name.endswith("history") else []
    if parts and all(part in {"past", "medical", "surgical", "social", "family", "history"} for part in parts):
        return _TITLES.get(f"{parts[0]} history", "Past Medical History")
    return None


def _ends(shown: str, name: str, rest: str, *, shouts: bool) -> bool:
    """Return whether an unknown header before a colon ends its section."""
    if name in _KEPT_INSIDE:
        return False
    if _ALARM.search(name):
        return True
    if name.endswith(("history", " hx")):
        return False
    words = re.findall(r"[^\W\d_]+", shown)
    if len(words) > 7:
        return False
    if shown.isupper() and not shouts:
        return len("".join(words)) > 3
    return not rest.strip() and _is_title(shown)


def _may_head(shown: str, name: str) -> bool:
    """Return whether a line of its own could be a header: in title case, or a few words that end no sentence."""
    words = len(name.split())
    return words <= 8 and (_is_title(shown) or (words <= 4 and shown[:1].isupper() and shown[-1:] not in ".,;!?"))


def _is_title(shown: str) -> bool:
    """Return whether every longer word starts with a capital."""
    return all(word[0].isupper() for word in re.findall(r"[^\W\d_]{4,}", shown))


@lru_cache(maxsize=8192)
def _normal(header: str) -> str:
    """Fold case, remove remarks in brackets and join the words by single spaces."""
    plain = re.sub(r"\([^)]*\)|\[[^\]]*\]", " ", header)
    return _SPACE.sub(" ", plain.casefold()).strip()


# Tables that ingest makes from the text of another table.


DERIVATIONS: Mapping[str, Callable[[str], str]] = {"admission_sections": admission_sections}


def derive_rows(rows: pa.Table, derivation: Derivation) -> pa.Table:
    """Return the rows with their text replaced by the function's result; rows without a result are dropped."""
    function = DERIVATIONS[derivation.function]
    texts = [function(text) or None if text else None for text in rows.column(derivation.text).to_pylist()]
    place = rows.schema.get_field_index(derivation.text)
    rows = rows.set_column(place, derivation.text, pa.array(texts, pa.string()))
    return rows.filter(rows.column(derivation.text).is_valid())
