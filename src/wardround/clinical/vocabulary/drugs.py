"""Look up drugs by their ingredients and classes, and find allergies that conflict with a drug.

A combination or a brand is its ingredients (Unasyn: ampicillin and sulbactam); a class is its members. A drug that is
not in our tables has its own name as its ingredient. Whether it conflicts with an unknown allergen is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from rapidfuzz.distance import OSA

from wardround.clinical.codes import load_drug_synonyms, normalise_drug_name, normalise_label
from wardround.clinical.vocabulary.measurements import words_of
from wardround.clinical.vocabulary.tables import cell_parts, table_rows
from wardround.clinical.vocabulary.time import Truth, any_of

_CACHED = 65_536
_LONG_ENOUGH = 8
"""The shortest name, in letters, that is recognised with one wrong letter."""
_VERDICTS: Mapping[str, Truth] = {"yes": True, "no": False, "unknown": None}
_CHEMICAL = frozenset(
    {
        "beta-lactams",
        "penicillins",
        "cephalosporins",
        "carbapenems",
        "sulfonamide antibiotics",
        "opioids",
        "heparin products",
    }
)


@lru_cache(maxsize=_CACHED)
def drug_name(text: str) -> str:
    """Return the one name of a drug: its ingredient, or several joined by a hyphen; else the normalised name itself."""
    return normalise_drug_name(text) or normalise_label(text)


@lru_cache(maxsize=_CACHED)
def ingredients(name: str) -> frozenset[str]:
    """Return the ingredients of a drug; its own name if it is not in our tables; nothing for a class.

    >>> sorted(ingredients("Unasyn 3 g IV")), sorted(ingredients("Aspirin EC 81 mg"))
    (['ampicillin', 'sulbactam'], ['aspirin'])
    """
    if drug_class(name) is not None:
        return frozenset()
    name = _ORDERING.sub("", _PACKED.sub("", normalise_label(name))) or name
    if _NO_DRUG.search(normalise_label(name)):
        return frozenset({drug_name(name)})
    read = _read_ingredients(name)
    if not read.isdisjoint(_known()):
        return read
    words = _DOSING.split(normalise_label(name))[0].split()
    starts = (" ".join(words[:length]) for length in range(min(len(words), 4), 0, -1))
    found = (_read_ingredients(start) for start in starts if start not in _MINERALS)
    known = next((one for one in found if not one.isdisjoint(_known())), read)
    return known | {normalise_label(name)} if known is not read and _WITH_MORE.search(" ".join(words)) else known


def _read_ingredients(name: str) -> frozenset[str]:
    """Return the ingredients of a name without order words; its own name if none is in our tables."""
    for candidate in (normalise_label(name), drug_name(name)):
        if candidate in _known():
            return frozenset({candidate})
    parts = [load_drug_synonyms().get(part.strip(), part.strip()) for part in _SPLIT.split(candidate) if part]
    return frozenset(parts) if any(part in _known() for part in parts) else frozenset({candidate})


@lru_cache(maxsize=_CACHED)
def drug_classes(name: str) -> tuple[str, ...]:
    """Return the classes that a drug, or a class, belongs to, narrowest first; none if the table does not have it."""
    own = drug_class(name)
    within = load_drug_classes()
    if own is not None:
        matching = [(len(members), class_name) for class_name, members in within.items() if within[own] <= members]
    else:
        inside = _actives(name)
        matching = [(len(members), class_name) for class_name, members in within.items() if inside & members]
    return tuple(class_name for _, class_name in sorted(matching))


@lru_cache(maxsize=_CACHED)
def main_class(name: str) -> str | None:
    """Return the class that a drug is counted under: the first of the table that holds it; None if none does."""
    own, classes = drug_class(name), set(drug_classes(name))
    return own or next((main_class for main_class in _main_classes() if main_class in classes), None)


@lru_cache(maxsize=_CACHED)
def drug_groups(name: str) -> frozenset[str]:
    """Return all keys of a drug: its own name, its ingredients and their classes."""
    own = drug_class(name)
    return frozenset({own or drug_name(name), *ingredients(name), *drug_classes(name)})


@cache
def load_drug_classes() -> Mapping[str, frozenset[str]]:
    """Return class -> its ingredients, including those of the classes within it."""
    rows = {name.lstrip("~"): cell_parts(members) for name, _, members in table_rows("drug_classes", 3)}
    return MappingProxyType({name: frozenset(_members(name, rows)) for name in rows})


@lru_cache(maxsize=_CACHED)
def drug_class(text: str) -> str | None:
    """Return the class that a text names (``broad spectrum antibiotic``), None if it names none."""
    found = _class_spellings().get(words_of(text))
    if found is None and (ordered := _ORDERING.sub("", normalise_label(text))) != normalise_label(text):
        return _class_spellings().get(words_of(ordered))
    return found


@lru_cache(maxsize=_CACHED)
def is_known_drug(name: str) -> bool:
    """Return whether our tables have a drug, or one of its ingredients, or the class that a name is."""
    return drug_class(name) is not None or not _known().isdisjoint(ingredients(name))


@lru_cache(maxsize=_CACHED)
def misspelled_drug(name: str) -> str | None:
    """Return the drug that an unknown name is one letter away from; None if it is known, short, or near several.

    >>> misspelled_drug("amoxicilin"), misspelled_drug("amoxicillin"), misspelled_drug("Xylozomab")
    ('amoxicillin', None, None)
    """
    words = [] if is_known_drug(name) else normalise_label(name).split()[:1]
    if not words or len(words[0]) < _LONG_ENOUGH or words[0] in _known_words() or _NO_DRUG.search(name.lower()):
        return None
    near = {known_word for known_word in _known_words() if OSA.distance(words[0], known_word, score_cutoff=1) <= 1}
    return near.pop() if len(near) == 1 else None


@lru_cache(maxsize=_CACHED)
def is_drug(given: str, wanted: str) -> bool:
    """Return whether a given drug is the wanted one, contains it, or is of the wanted class.

    >>> is_drug("Unasyn", "penicillins"), is_drug("Unasyn", "ampicillin"), is_drug("ampicillin", "Unasyn")
    (True, True, False)
    """
    if drug_class(wanted) is not None:
        return drug_class(wanted) in drug_groups(given)
    return drug_name(wanted) == drug_name(given) or (
        bool(ingredients(given)) and ingredients(wanted) <= ingredients(given)
    )


@lru_cache(maxsize=_CACHED)
def may_hold(given: str, wanted: str) -> bool:
    """Return whether a given drug is, contains, or may be the wanted one. A class may be any of its members."""
    given, mineral = _given(given), normalise_label(wanted)
    is_salt = mineral in _MINERALS and not _NO_DRUG.search(normalise_label(given))
    if is_salt and any(f"{ingredient} ".startswith(f"{mineral} ") for ingredient in ingredients(given)):
        return True
    return is_drug(given, wanted) or not _contents(given).isdisjoint(_actives(wanted))


@lru_cache(maxsize=_CACHED)
def conflicts(drug: str, allergen: str) -> Truth:
    """Return whether an allergy, as charts write it, conflicts with a drug or class.

    Cross-reactions are listed in ``data/cross_reactions.tsv``. An allergen that is in no table is unknown.

    >>> conflicts("Unasyn", "Allergy to penicillin (finding)"), conflicts("furosemide", "Sulfa")
    (True, False)
    >>> conflicts("metoprolol", "blue stuff")
    """
    allergens, drug = read_allergens(allergen), _given(drug)
    if names_some_agent(allergen):
        within = any_of(_conflict(drug, known_allergen) for known_allergen in allergens)
        return None if within else within
    if words_of(drug) in _others():
        return (
            True
            if any(words_of(drug) == words_of(known_allergen) for known_allergen in allergens)
            else (False if all(map(_is_read, allergens)) else None)
        )
    return any_of(_conflict(drug, known_allergen) for known_allergen in allergens)


@lru_cache(maxsize=_CACHED)
def read_allergens(text: str) -> tuple[str, ...]:
    """Return the allergens of an allergy, without the words around them ("Allergy to penicillin (finding)":
    penicillin)."""
    text = allergy_code_title(text) or text
    if words_of(text) in _others():
        return (normalise_label(text),)
    if words_of(text) in (("hit",), ("hitt",)):
        return ("heparin",)
    text = _ENCOUNTER.sub("", _AS_REACTION.sub("", normalise_label(text)))
    if _NO_MEDICINE.search(text):
        return ("nonmedicinal substance",)
    plain = _SOME_AGENT.sub(" ", _AROUND.sub(" ", _BRACKETS.sub(" ", normalise_label(text))))
    whole = " ".join(plain.strip(" .:-").split()) or normalise_label(text)
    for candidate in (whole, _INNER.sub(" ", whole), *_INNER.findall(whole)):
        if _is_read(" ".join(candidate.strip("() ").split())):
            return (" ".join(candidate.strip("() ").split()),)
    parts = tuple(part.strip() for part in re.split(r"[,;/+&]|\band\b|\bor\b", whole) if part.strip())
    return parts if len(parts) > 1 and any(map(_is_read, parts)) else (whole,)


def names_some_agent(allergen: str) -> bool:
    """Return whether an allergy is to some member of a class that is not named ("other antibiotic agents")."""
    return _SOME_AGENT.search(normalise_label(allergy_code_title(allergen) or allergen)) is not None


def allergy_code_title(code: str) -> str | None:
    """Return what an ICD code of an allergy status means ("Z88.0": allergy to penicillin); None for other text."""
    spelt = code.replace(".", "").strip().upper()
    if _ICD_ALLERGY.fullmatch(spelt) is None:
        return None
    titles = {cell_part: title for codes, title in table_rows("allergy_codes", 2) for cell_part in cell_parts(codes)}
    starts = (spelt[:length] for length in range(len(spelt), 2, -1))
    return next((titles[start] for start in starts if start in titles), None)


def _is_read(allergen: str) -> bool:
    return words_of(allergen) in _others() or is_known_drug(allergen)


def _conflict(drug: str, allergen: str) -> Truth:
    if words_of(allergen) in _others():
        # a food conflicts only where the table has the pair (egg and a fat emulsion)
        food = " ".join(words_of(allergen))
        contents = {one for part in ingredients(drug) for one in (part, *drug_classes(part))}
        return any_of(_VERDICTS[_crossing().get((food, one), "no")] for one in sorted(contents))
    if drug_name(drug) == drug_name(allergen):
        return True
    if not is_known_drug(allergen):
        return True if allergen in normalise_label(drug) else None
    if not is_known_drug(drug):
        return None
    if drug_class(drug) is not None:
        return any_of(_between(content, allergen) for content in sorted(_contents(drug)))
    if not ingredients(drug).isdisjoint(_sources(allergen)):
        return True
    return any_of(_between(active, allergen) for active in sorted(_actives(drug)))


def _between(ingredient: str, allergen: str) -> Truth:
    """Return whether an allergy conflicts with one ingredient: by itself, then by the closest row of the table."""
    sources = _sources(allergen)
    if ingredient in sources:
        return True
    sources_and_classes = (
        [drug_class(allergen)] if drug_class(allergen) else [*sorted(sources), *drug_classes(allergen)]
    )
    for source in sources_and_classes:
        for target in (ingredient, *drug_classes(ingredient)):
            verdict = _crossing().get((str(source), target))
            if verdict is not None:
                return _VERDICTS[verdict]
    alike = set(drug_classes(allergen)) & set(drug_classes(ingredient)) & _CHEMICAL
    return None if alike or ingredient not in _known() else False


def _sources(allergen: str) -> frozenset[str]:
    return _actives(allergen) if drug_class(allergen) is None else _contents(allergen)


def _given(action: str) -> str:
    """Return what an order gives, without the verb before it; for a scan with contrast, the contrast."""
    plain = normalise_label(action)
    if _WITH_CONTRAST.search(plain):
        return "iodinated contrast"
    return _ORDERING.sub("", plain) if _ORDERING.match(plain) else action


def _contents(name: str) -> frozenset[str]:
    """Return the ingredients of a drug, or the members of a class."""
    own = drug_class(name)
    return load_drug_classes()[own] if own is not None else ingredients(name)


def _actives(name: str) -> frozenset[str]:
    """Return the ingredients that matter for an allergy. An inhibitor that only occurs with another drug is not an
    allergen."""
    contents = _contents(name)
    return contents - load_drug_classes()["beta-lactamase inhibitors"] or contents


@cache
def _crossing() -> Mapping[tuple[str, str], str]:
    return MappingProxyType({(source, target): verdict for source, target, verdict in table_rows("cross_reactions", 3)})


@cache
def _others() -> frozenset[tuple[str, ...]]:
    return frozenset(words_of(text) for _, texts in table_rows("other_allergens", 2) for text in cell_parts(texts))


@cache
def _known() -> frozenset[str]:
    members = frozenset[str]().union(*load_drug_classes().values())
    return members | {part for name in load_drug_synonyms().values() for part in _SPLIT.split(name)}


@cache
def _known_words() -> frozenset[str]:
    """Names of one word, brands too, that are long enough to be known when one letter is wrong."""
    return frozenset(
        name for name in (*_known(), *load_drug_synonyms()) if name.isalpha() and len(name) >= _LONG_ENOUGH
    )


@cache
def _class_spellings() -> Mapping[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for name, spellings, _ in table_rows("drug_classes", 3):
        for text in (name, *cell_parts(spellings)):
            found.setdefault(words_of(text), name.lstrip("~"))
    return MappingProxyType(found)


@cache
def _main_classes() -> tuple[str, ...]:
    return tuple(name for name, _, _ in table_rows("drug_classes", 3) if not name.startswith("~"))


def _members(name: str, rows: Mapping[str, tuple[str, ...]]) -> set[str]:
    found: set[str] = set()
    for member in rows[name]:
        found |= _members(member[1:-1], rows) if member.startswith("[") else {member}
    return found


_AS_REACTION = re.compile(r"[- ]induced\b.*|\s[-:]\s.*")
"""What it does, after an allergen ("heparin-induced thrombocytopenia", "ACE inhibitors - cough")."""
_ORDERING = re.compile(
    r"^(?:(?:start|give|begin|initiate|administer|continue|resume|restart|order|add|empiric|iv)\s+)+"
)
_PACKED = re.compile(
    r"^(?:<+|[\d.]+ ?(?:ml|g) - |(?:each|cup|prmx|plas cont|flex cont|glass cont|crtrdg-ndl|custom ndc) (?=[a-z]))+"
)
"""How a pharmacy says what a drug comes in, before its name ("2 ml - ondansetron")."""
_WITH_CONTRAST = re.compile(
    r"\b(?:ct|cat scan)\b.*(?:\bwith (?:iv |oral and iv )?contrast|w/ ?contrast|\bangiogra)|\bcta\b"
)
_ICD_ALLERGY = re.compile(r"V14\d{0,2}|V150\d?|Z88\d?|Z910\d{0,3}|V1381|Z87892|T(?:782|784|886)[\dXADS]*")
_SOME_AGENT = re.compile(r"\b(?:other|unspecified|specified|agents?|serum(?: and| or)?)\b")
"""What makes a class some member of it that is not named ("allergy to other antibiotic agents")."""
_ENCOUNTER = re.compile(r",? (?:initial encounter|subsequent encounter|sequela)$")
_NO_MEDICINE = re.compile(r"\bother than to (?:drugs|medicinal)|\bnon-?medicinal substance")
_INNER = re.compile(r"\([^()]*\)")
_DOSING = re.compile(r"\s(?:\d|q\s?\d|in\s|for\s|at\s|iv\b|po\b|x\d)")
"""Where an order's dose, route or times begin ("Heparin 5000 UNIT SC TID")."""
_NO_DRUG = re.compile(
    r"[ -](?:induced|resistan(?:t|ce)|exacerbated|susceptible|eluting|deficien(?:t|cy)|toxicity|poisoning|overdose"
    r"|withdrawal|intolerance|dependence|abuse|(?:level|trough|assay)s?$)\b"
)
"""What makes a drug's name the name of something else ("aspirin-induced asthma")."""
_WITH_MORE = re.compile(r"\s(?:pm|dm|hct|d|plus|cold|flu|sinus)\b|-d\b")
"""What a brand's name ends with where more is in it than in the brand alone ("Advil Cold")."""
_MINERALS = frozenset({"potassium", "sodium", "calcium", "magnesium", "aluminum", "iron", "zinc", "lithium"})
"""Beginnings of names that are of other drugs than the mineral (potassium iodide)."""
_SPLIT = re.compile(r"\s*[-/+]\s*")
_BRACKETS = re.compile(r"\((?:finding|disorder|substance|situation|product|medication|drug)\)")
_AROUND = re.compile(
    r"\b(?:known |severe |documented |reported |personal |past |prior |history of |h/o |hx of |type i |drug )*"
    r"(?:allerg(?:y|ies|ic)(?: reactions?)?|anaphyla(?:xis|ctic(?: reactions?| shock)?)|hypersensitivity"
    r"|intolerance|intolerant"
    r"|adverse reaction|adverse drug reaction|propensity to adverse reactions|angioedema|rash|hives|drug allergy)"
    r"(?: status)?(?: (?:to|with|from|due to|caused by|after))?\b| status\b"
    r"|\b(?:antibiotics? class|containing products?|antigen|extract)\b"
)
