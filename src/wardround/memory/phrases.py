"""Read a condition or exclusion as something to check, and a patient's findings to check it against."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from math import isnan
from typing import Any, Final, Protocol

from wardround.clinical.vocabulary import (
    KnownFindings,
    Quantity,
    Relation,
    Sex,
    Status,
    TextReading,
    Truth,
    all_of,
    any_of,
    as_past,
    charted_allergies,
    clinical_name,
    compare,
    defining_values,
    denies,
    find_measurement,
    leaves_a_mark,
    negate,
    parse_quantity,
    read_person,
    read_text,
    records_allergy,
    words_of,
)
from wardround.clinical.vocabulary.care_units import is_in, places_of, read_place

# The findings of one patient that the limits of an experience are checked against: age, sex, the latest value of each
# measurement, and what is present, denied, possible or past.
#
# A finding that is not named is unknown. Only a denied finding is absent.


_AROUND_A_NAME = frozenset(
    {"serum", "plasma", "blood", "total", "level", "value", "latest", "current", "count", "last"}
)
_ALSO_MEASURED = {"fever": "temperature"}
_STAYS = frozenset({"admission", "encounter", "emergency visit"})
_MEASURED = frozenset({"lab", "vital sign", "vital signs", "charted value", "output", "intake and output"})
_OF_A_STAY = frozenset(
    {"diagnosis", "procedure", "prescription", "medication", "medication given", "medication dispensed", "infusion",
     "pharmacy order", "dispense", "order", "treatment", "diagnosis list", "billing code", "care plan", "device"}
)  # fmt: skip
"""Kinds of rows that describe their own stay: in a later stay they are past."""
_BEFORE_STAY = timedelta(hours=24)
"""Measurements up to this long before an admission, in the emergency room, belong to it, as in rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One patient as of a moment.

    ``days``: the age if it is given in days. ``measured``: clinical name to latest value. ``places``: the service and
    the unit, by the record's own names. ``in_words``: the case is a text without a record.
    """

    age: int | None = None
    days: float | None = None
    sex: Sex | None = None
    known: KnownFindings = field(default_factory=KnownFindings)
    measured: Mapping[str, Quantity] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    in_words: bool = False

    def statuses(self, name: str) -> frozenset[Status]:
        """Return every status of a finding of the patient; empty if nothing names it."""
        return self.known.statuses(name)

    def allergic_to(self, substance: str) -> Truth:
        """Return whether an allergy to a substance or class is recorded."""
        return self.known.allergic_to(substance)

    def latest(self, name: str) -> Quantity | None:
        """Return the latest value of what is measured under a name."""
        return self.measured.get(measurement_name(name))


class FindingsChart(Protocol):
    """The part of a chart that is used here; ``records.Chart`` is one."""

    @property
    def age(self) -> int | None: ...
    @property
    def ended_rows(self) -> frozenset[str]: ...
    def events(self) -> Iterator[Any]: ...


def findings_of_chart(chart: FindingsChart) -> Findings:
    """Read the findings on a chart, from its visible rows only.

    Findings of an earlier stay are past. So is a procedure, a line or a catheter whose row has ended. An ended row does
    not prove that a device was removed, since rows also end when a unit stops charting.
    """
    events, ended = list(chart.events()), chart.ended_rows
    began = max((event.time for event in events if event.kind in _STAYS and event.time is not None), default=None)
    measured: dict[str, Quantity] = {}
    known = KnownFindings()
    sex: Sex | None = None
    for event in events:
        text = event.text_value or ""
        is_number = event.numeric_value is not None and not isnan(event.numeric_value)
        if is_number and not _is_of_earlier_stay(event, began):
            measured[measurement_name(event.description)] = Quantity(value=event.numeric_value, unit=event.unit or None)
        if event.kind == "person":
            sex = sex or read_person(f"sex: {text}" if len(text) < 2 else text).sex
        elif event.kind == "allergy":
            allergies = charted_allergies(f"{event.description} {text}".strip())
            known.add(TextReading(allergies=allergies))
        elif not is_number or not (event.kind in _MEASURED or find_measurement(event.description) is not None):
            text_of_event = f"{event.description}: {text}" if text and "\n" not in text else text or event.description
            reading = read_text(text_of_event if not is_number else event.description)
            is_past = event.row_id in ended or _is_past(event, began)
            known.add(as_past(reading) if is_past else reading)
            if records_allergy(event.description):
                known.add(TextReading(allergies=charted_allergies(event.description)))
    return Findings(age=chart.age, sex=sex, known=known, measured=measured, places=places_of(events))


def findings_of_text(text: str) -> Findings:
    """Read the findings of a text case, such as a question stem or a report."""
    reading, person = read_text(text), read_person(text)
    known = KnownFindings()
    known.add(reading)
    measured = {
        measurement_name(" ".join(finding.words) if finding.concept is None else finding.concept.name): finding.quantity
        for finding in reading.findings
        if finding.quantity is not None and finding.status == "present"
    }
    return Findings(age=person.age, days=person.days, sex=person.sex, known=known, measured=measured, in_words=True)


def measurement_name(text: str) -> str:
    """Return the clinical name of a measurement, without the words that laboratories add.

    >>> measurement_name("serum potassium level"), measurement_name("SBP")
    ('potassium', 'systolic blood pressure')
    """
    if find_measurement(text) is None:
        text = _ALSO_MEASURED.get(text, text.rstrip("+-"))
        shorter = " ".join(word for word in words_of(text) if word not in _AROUND_A_NAME)
        return clinical_name(shorter) if shorter else clinical_name(text)
    return clinical_name(text)


def _is_of_earlier_stay(event: Any, began: datetime | None) -> bool:
    """Return whether a value was measured before the newest stay, and the day before it."""
    return began is not None and event.time is not None and event.time < began - _BEFORE_STAY


def _is_past(event: Any, began: datetime | None) -> bool:
    return event.kind in _OF_A_STAY and began is not None and event.time is not None and event.time < began


# Words for a person: man, pregnant woman, infant, elderly patients; alone or before more ("women over 50").


_Check = Callable[[Findings], Truth]
_LATEST_PREGNANCY = 60


def _age_from(low: float, below: float = 999) -> _Check:
    """Return a check of an age in years: ``low`` included, ``below`` excluded."""

    def check(found: Findings) -> Truth:
        years = found.age if found.days is None else found.days / 365.25
        if years is None:
            return None
        if found.days is None and found.age == 0 and 0 < below < 1:
            return None
        return low <= years < below

    return check


def _sex(wanted: str) -> _Check:
    return lambda found: None if found.sex is None else found.sex == wanted


def _pregnant(found: Findings) -> Truth:
    if found.sex == "male" or (found.age is not None and not 9 <= found.age <= _LATEST_PREGNANCY):
        return False
    statuses = found.statuses("pregnancy")
    return True if "present" in statuses else False if statuses == {"absent"} else None


def _all(*checks: _Check) -> _Check:
    return lambda found: all_of([check(found) for check in checks])


_CHILD, _MALE, _FEMALE = _age_from(0, 18), _sex("male"), _sex("female")
_FERTILE = _all(_FEMALE, _age_from(15, 50))
_STAGES: Final[Mapping[str, _Check]] = {
    "adult": _age_from(18), "grown-up": _age_from(18), "elderly": _age_from(65), "geriatric": _age_from(65),
    "older adult": _age_from(65), "child": _CHILD, "children": _CHILD, "pediatric": _CHILD, "paediatric": _CHILD,
    "minor": _CHILD, "adolescent": _age_from(10, 20), "teenager": _age_from(13, 20), "octogenarian": _age_from(80, 90),
    "septuagenarian": _age_from(70, 80),
    "nonagenarian": _age_from(90, 100), "infant": _age_from(0, 1),
    "neonate": _age_from(0, 29 / 365.25), "newborn": _age_from(0, 29 / 365.25), "toddler": _age_from(1, 3),
    "male": _MALE, "man": _MALE, "men": _MALE, "boy": _all(_MALE, _CHILD), "female": _FEMALE, "woman": _FEMALE,
    "women": _FEMALE, "girl": _all(_FEMALE, _CHILD), "pregnant": _pregnant, "pregnancy": _pregnant, "gravid": _pregnant,
    "women of childbearing age": _FERTILE, "woman of childbearing age": _FERTILE,
    "women of childbearing potential": _FERTILE, "women of reproductive age": _FERTILE,
}  # fmt: skip
_NAMES = "|".join(sorted(_STAGES, key=len, reverse=True))
_AGES = re.compile(
    r"(?:adult|elderly|child|children|adolescent|teenager|infant|neonate|newborn|toddler)s?(?: patients)?"
)
"""Stages of life: if "and" joins two of them, one is enough."""
_WORD = re.compile(
    rf"^(?:(?:sex|aged|currently|known|a|an|the|patients?|persons?|people|is|are|in|on)\s+)*({_NAMES})s?\b(?!-)\s*"
)
_FILLED = re.compile(
    r"^(?:patients?|persons?|people|sex|population|subjects?|individuals?)?\s*"
    r"(?:who are|who is|who have|with|that are|aged)?\s*"
)


def read_person_words(text: str, read_rest: Callable[[str], _Check | None]) -> _Check | None:
    """Return the check of a phrase that begins with words for a person. ``read_rest`` reads what follows them."""
    checks: list[_Check] = []
    rest = text
    while found := _WORD.match(rest):
        checks.append(_STAGES[found[1]])
        rest = rest[found.end() :]
    if not checks:
        return None
    rest = _FILLED.sub("", rest, count=1).removeprefix("and ")
    if rest.startswith(("or ", ",", "/")):
        return None
    parts = text.split(" and ")
    if len(parts) > 1 and all(map(_AGES.fullmatch, parts)):
        stages = [_STAGES[found[1]] for part in parts if (found := _WORD.match(part))]
        return lambda found: any_of([stage(found) for stage in stages])
    if rest:
        further = read_rest(rest)
        if further is None:
            return None
        checks.append(further)
    return _all(*checks)


# Reading one phrase of a condition or an exclusion as a check: an age, a sex, a limit on the latest value of a
# measurement, an allergy, a drug, a finding that is present, past or denied. An unreadable phrase is not checked.


Check = Callable[[Findings], Truth]
"""True: it holds; False: it does not hold; None: unknown."""
_LONGEST_NAME = 8
_TOP_AGE = 90
"""An age of 90 stands for 90 and more."""
_RELATIONS: Final[dict[str, Relation]] = {
    "<=": "<=", "≤": "<=", "at most": "<=", "no more than": "<=", "up to": "<=", ">=": ">=", "≥": ">=",
    "at least": ">=",
    "<": "<", "less than": "<", "lower than": "<", "below": "<", "under": "<", "younger than": "<", "fewer than": "<",
    ">": ">", "greater than": ">", "more than": ">", "higher than": ">", "above": ">", "over": ">", "older than": ">",
    "exceeding": ">", "exceeds": ">",
}  # fmt: skip
_SIDE = "|".join(re.escape(side) for side in sorted(_RELATIONS, key=len, reverse=True))
_YEARS = r"(?:\s*(?P<unit>years?|y|yrs?|yo|months?|weeks?|days?)(?:[\s-]*(?:old|of age))?)?(?: of age)?"
_PER_YEAR = {"m": 12.0, "w": 52.18, "d": 365.25}
_AGE = re.compile(rf"^(?:aged?\s*(?:is\s*)?)?(?P<side>{_SIDE})\s*(?:the age of\s*)?(?P<bound>\d{{1,3}}){_YEARS}$")
_SPAN = re.compile(rf"^(?:age[ds]?\s*)?(?:between\s*)?(\d{{1,3}})\s*(?:-|–|to|and)\s*(\d{{1,3}}){_YEARS}$")
_OR_OLDER = re.compile(
    rf"^(?:aged?\s*)?(\d{{1,3}}){_YEARS}\s*(?:or|and)\s*(?P<which>older|over|above|younger|under|more)$"
)
_LIMIT = re.compile(
    rf"^(?:a |an |the |latest |last |current )*(?P<name>[a-z][\w ,/()%+-]*?)\s*(?:\bis\s+|\bof\s+)?(?P<side>{_SIDE})\s*"
    r"(?P<quantity>-?[\d.].*)$"
)
_OPENING = re.compile(
    r"^(?:(?:do not (?:use|apply|give)|not (?:for|in|to be used in|applicable (?:in|to)|valid (?:in|for))|avoid|never|"
    r"contraindicated|use with caution|exclude[sd]?|unless|except)\s+)?(?:(?:in|for|if|when|where|to|with)\s+)?"
    r"(?:(?:he|she|they|this|there|it)\s+(?:is|are|has|have|was)\s+)?(?:(?:a|an|the|any|all|those|some)\s+)*"
    r"(?:(?:patients?|persons?|people|individuals?|cases?|subjects?|anyone|somebody|someone)\b\s*"
    r"(?:who\s+|that\s+)?(?:(?:is|are|has|have|had|having|was|were|with|in|on|currently|reports|reported)\b\s*)*)?"
    r"(?:(?:a|an|the|any|all)\s+)*"
)
_CLOSING = re.compile(
    r"[\s-]+(?:patients?|persons?|people|individuals?|subjects?|cases|recipients?|users?|mothers?|positive|"
    r"dependent|state|orders?|status|in place)$"
    r"|\s+(?:is|are)?\s*(?:present|known|documented|confirmed)$"
)
_DENIED = re.compile(
    r"^(?:no|not|without|absence of|absent|negative for|free of|lack of|denies|never had)\s+"
    r"(?:(?:any|known|a|an|the|evidence of|signs of)\s+)*(?P<rest>.+)$"
)
_EVER: Final[tuple[Status, ...]] = ("present", "past")
_TENSES: Final[tuple[tuple[re.Pattern[str], tuple[Status, ...]], ...]] = (
    (re.compile(r"^(?:a |known |positive )*family history of (?P<rest>.+)$"), ("family",)),
    (re.compile(r"^(?:at )?(?:a )?(?:high|increased|elevated|higher|low|moderate)?[ -]?risk (?:of|for) (?P<rest>.+)$"),
     ("risk",)),
    (re.compile(r"^(?:suspected|possible|probable|suspicion of|concern for|presumed|rule out|r/o) (?P<rest>.+)$"),
     ("possible", "present")),
    (re.compile(r"^(?:(?:a|any|known|prior|previous|past|remote|personal) )*(?:history of|h/o) (?P<rest>.+)$"),
     _EVER),
    (re.compile(r"^(?:prior|previous|past|remote|former|previously had|ever had|old) (?P<rest>.+)$"), _EVER),
    (re.compile(r"^(?:status post|s/p|post)[ -](?P<rest>.+)$"), _EVER),
    (re.compile(r"^(?P<rest>.+) history$"), _EVER),
)  # fmt: skip
_ALLERGY = re.compile(
    r"^(?:known |documented |reported |severe |prior |any |a |an |true )*(?:allergy|allergic(?: reactions?)?|"
    r"hypersensitivity|hypersensitive|intolerance|intolerant|anaphylaxis|anaphylactic reactions?|reactions?)"
    r"\s+(?:to|of|from)\s+(?P<to>.+)$|^(?:known |documented |reported |severe |any )*(?P<before>.+?)[ -]"
    r"(?:allergy|allergic|hypersensitivity|anaphylaxis)$"
)
_USE = re.compile(
    r"^(?:(?:already|currently|concurrently|concomitant|concurrent|current|chronic|long-term|active)\s+)*"
    r"(?:(?:(?:who )?(?:takes?|uses?|receives?)|on|taking|receiving|using|given|treated with|use of|treatment with|"
    r"therapy with|being treated with)\s+)"
    r"(?:(?:a|an|the|any|use of)\s+)*(?P<drug>.+?)(?:\s+(?:therapy|treatment|use|infusion|drip))?$"
    r"|^(?:(?:current|concurrent|concomitant|chronic|long-term|active|any)\s+)*(?P<named>.+?)\s+(?:use|therapy|treatment|"
    r"infusion|drip)$"
)
_UNREADABLE = re.compile(
    r"\bcontraindication|\bcontraindicated (?:for|with|to)\b|\bprefer|\bcannot\b|\brefus|\bunable\b|\bavailable\b"
)
_LEADING = re.compile(
    r"^(?:(?:known|current|currently|active|ongoing|concurrent|concomitant|coexisting|documented|established|confirmed|"
    r"presence of|diagnosis of|diagnosed with|evidence of|has|have|had|having|is|are|with|in|who have|who are|already|"
    r"a|an|the|any)\s+)+"
)
_JOINING = (" and ", " with ", " requiring ", " on ")
_ASIDE = re.compile(r"^(?P<before>[^()]+?)\s*\((?P<inside>[^()]+)\)\s*(?P<after>[^()]*)$")
_STAGED = re.compile(r"\b(?:class|stage|grade|type|nyha|severe|moderate|mild|only|child|[iv]{1,3})\b")
_WHO = re.compile(
    r"^(?P<rest>.+?)[\s-]+(?P<who>women|woman|men|man|females?|males?|adults?|children|child|infants?|girls?|boys?)$"
)
_SHARED = re.compile(
    r"^(?:(?:no|not|without|history of|prior|previous|past|known|active|suspected|possible|recent|current|on|taking|"
    r"receiving|allergic to|allergy to|high risk of|at risk of|family history of|severe|chronic|acute)\s+)+"
)
"""Words before a list that apply to each of its parts."""


def split_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a condition, which are separated by semicolons."""
    return tuple(phrase for part in text.split(";") if (phrase := part.strip(" .,\n\t")))


def read_phrase(phrase: str) -> Check | None:
    """Return the check of a phrase; None if nothing in it can be checked."""
    text = " ".join(phrase.casefold().replace("and/or", "or").replace("\u2019", "'").split()).strip(" .,;")
    if _UNREADABLE.search(text):
        return None
    negated = re.match(r"^not in (?:patients )?without ", text)
    return None if negated else _read(text)


def _read(text: str) -> Check | None:
    if re.fullmatch(r"\([^()]*\)", text):
        text = text[1:-1].strip()
    opened = _OPENING.sub("", text, count=1).strip()
    for fromkey in dict.fromkeys((opened, text)):
        check = _place(fromkey) or _age(fromkey) or read_person_words(fromkey, _read) or _limit(fromkey)
        if check is not None:
            return check
    aside = _ASIDE.match(opened)
    if aside is not None:
        inside = _age(aside["inside"].strip()) or _limit(aside["inside"].strip())
        if inside is None and _STAGED.search(aside["inside"]):
            return None
        return inside or _read(" ".join(f"{aside['before']} {aside['after']}".split()))
    text = opened or text
    who = _WHO.match(text)
    if who is not None and " or " not in text:
        rest, person = _read(who["rest"]), read_person_words(who["who"], _read)
        return None if rest is None or person is None else lambda found: all_of((rest(found), person(found)))
    text = text.removeprefix("device:").strip()
    return _denied(text) or _list(text, " or ", any_of) or _list(text, " / ", any_of) or _slashed(text) or _joined(text)


def _joined(text: str) -> Check | None:
    """Return a phrase as a whole, else both of its parts: "ESRD on hemodialysis", "COPD and asthma"."""
    whole = _allergy(text) or _recently(text) or _tense(text) or _use(text) or _named(text)
    parts = next((one for word in _JOINING if (one := _list(text, word, all_of)) is not None), None)
    if whole is None or parts is None:
        return whole or parts
    return lambda found: _first_known(whole(found), parts(found))


def _first_known(whole: Truth, parts: Truth) -> Truth:
    return parts if whole is None else whole


def _place(text: str) -> Check | None:
    """Return the check of a service or a unit: columns of the record, compared by their names."""
    place = read_place(text)
    return None if place is None else lambda found: is_in(found.places, *place)


def _age(text: str) -> Check | None:
    if found := _AGE.match(text):
        return _age_beside(_RELATIONS[found["side"]], _years(found["bound"], found))
    if found := _OR_OLDER.match(text):
        return _age_beside(
            ">=" if found["which"] in ("older", "over", "above", "more") else "<=", _years(found[1], found)
        )
    found = _SPAN.match(text)
    if found and (found["unit"] or text.startswith(("age", "between"))):
        low, high = _age_beside(">=", _years(found[1], found)), _age_beside("<=", _years(found[2], found))
        return lambda patient: all_of((low(patient), high(patient)))
    return None


def _years(number: str, found: re.Match[str]) -> float:
    return int(number) / _PER_YEAR.get((found["unit"] or "y")[0], 1.0)


def _age_beside(relation: Relation, bound: float) -> Check:
    def check(found: Findings) -> Truth:
        if found.age is None or (found.age >= _TOP_AGE and bound >= _TOP_AGE):
            return None
        if bound % 1 and found.days is None and found.age == int(bound):
            return None
        return compare(found.age if found.days is None else found.days / 365.25, None, relation, bound)

    return check


def _limit(text: str) -> Check | None:
    read = _LIMIT.match(text)
    quantity = parse_quantity(read["quantity"]) if read else None
    if read is None or quantity is None:
        return None
    if quantity.multiple_of is not None or quantity.high is not None or quantity.comparator is not None:
        return lambda found: None
    name, relation = _LEADING.sub("", read["name"].strip()), _RELATIONS[read["side"]]
    if " or " in name:
        return None
    split = re.match(r"(?P<rest>.+?) (?:with|and) (?P<name>[^ ].*)$", name)
    limit = partial(_measured, name=split["name"] if split else name, relation=relation, limit=quantity)
    other = _read(split["rest"]) if split else None
    if split is None:
        return limit
    return None if other is None else lambda found: all_of((other(found), limit(found)))


def _measured(found: Findings, *, name: str, relation: Relation, limit: Quantity) -> Truth:
    """Compare the latest value with a limit: both ends of a range, and of "<5" only what follows from it."""
    latest = found.latest(name)
    if latest is None:
        return None
    unit, wanted = (one and one.replace("/1.73m2", "") for one in (latest.unit, limit.unit))
    values = [value for value in (latest.value, latest.high) if value is not None]
    truths = [compare(value, unit, relation, limit.value, wanted, measurement_name(name)) for value in values]
    truth = truths[0] if len(set(truths)) == 1 else None
    if latest.comparator in ("<", "<="):
        return truth if truth is (relation in ("<", "<=")) else None
    if latest.comparator in (">", ">="):
        return truth if truth is (relation in (">", ">=")) else None
    return truth


def _slashed(text: str) -> Check | None:
    """Read names with a slash between them: "HIV/AIDS"."""
    return _list(text.replace("/", " / "), " / ", any_of) if re.fullmatch(r"[a-z]{3,}(?:/[a-z]{3,})+", text) else None


def _list(text: str, word: str, join: Callable[[Sequence[Truth]], Truth]) -> Check | None:
    parts = [part.strip(" ,") for part in text.split(word)]
    if word == " or " and len(parts) == 2:
        parts = [*(part.strip() for part in parts[0].split(",")), parts[1]]
    if len(parts) < 2 or not all(parts):
        return None
    head, _, last = parts[0].rpartition(" ")
    if word == " or " and head and len(parts[-1]) <= 2 and len(last) <= 2:
        parts = [parts[0], *(f"{head} {part}" for part in parts[1:])]
    shared = _SHARED.match(parts[0])
    if shared is not None and word in (" or ", " / "):
        parts = [parts[0], *(part if _SHARED.match(part) else shared[0] + part for part in parts[1:])]
    if word == " on ":
        parts = [parts[0], f"on {' on '.join(parts[1:])}"]
    checks = [_read(part) for part in parts]
    known = [check for check in checks if check is not None]
    return (lambda found: join([check(found) for check in known])) if len(known) == len(checks) else None


def _denied(text: str) -> Check | None:
    read = _DENIED.match(text)
    check = _read(read["rest"]) if read else None
    return None if check is None else lambda found: negate(check(found))


def _allergy(text: str) -> Check | None:
    read = _ALLERGY.match(_CLOSING.sub("", re.sub(r"^history of ", "", text)))
    if read is None:
        return None
    names = re.split(r",|\bor\b|\band\b", read["to"] or read["before"])
    known = [name.strip() for name in names if name.strip()]
    return lambda found: any_of([found.allergic_to(name) for name in known])


def _tense(text: str) -> Check | None:
    for pattern, statuses in _TENSES:
        read = pattern.match(text)
        if read is not None:
            name = _plain_name(read["rest"])
            return partial(_stands, name=name, wanted=statuses) if name else None
    return None


def _recently(text: str) -> Check | None:
    """Read a finding that is present, or was present some days or weeks ago."""
    read = re.match(r"^(?:a |any )?(?:recent|recently had) (?:history of )?(?P<rest>.+)$", text)
    name = _plain_name(read["rest"]) if read else ""
    if not name:
        return None
    now = partial(_stands, name=name, wanted=("present",))
    return lambda found: True if found.known.has_recent(name) else now(found)


def _use(text: str) -> Check | None:
    read = _USE.match(text)
    name = _plain_name(read["drug"] or read["named"]) if read else ""
    return partial(_stands, name=name, wanted=("present",)) if name else None


def _named(text: str) -> Check | None:
    name = _plain_name(text)
    wanted: tuple[Status, ...] = ("present", "past") if leaves_a_mark(name) else ("present",)
    if not name:
        return None
    check = partial(_stands, name=name, wanted=wanted)
    return (lambda found: negate(check(found))) if denies(name) else check


def _plain_name(text: str) -> str:
    """Return a name without words that do not change its meaning; empty if it is too long to be a name."""
    name = _LEADING.sub("", text)
    while (shorter := _CLOSING.sub("", name)) != name:
        name = shorter
    name = name.strip(" .,")
    return name if 0 < len(name.split()) <= _LONGEST_NAME else ""


def _stands(found: Findings, *, name: str, wanted: tuple[Status, ...]) -> Truth:
    """Return whether a finding has a wanted status: false if it is only denied, unknown in all other cases."""
    statuses = found.statuses(name)
    if not statuses.isdisjoint(wanted):
        return True
    if "present" in wanted:
        if any(_measured(found, name=one, relation=side, limit=limit) for one, side, limit in defining_values(name)):
            return True
        if statuses == {"absent"}:
            return False
    return None
