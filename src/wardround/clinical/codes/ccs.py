"""HCUP's Clinical Classifications Software: which of its 283 diagnosis or 231 procedure categories an ICD code is in.

The tables are packaged (`data/ccs_*.tsv.gz`, built by `scripts/build_ccs_tables.py`, which names their sources).
Source: HCUP CCS, Agency for Healthcare Research and Quality; ICD-9-CM to 2015, ICD-10-CM and -PCS fiscal year 2019.
"""

from __future__ import annotations

import gzip
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from wardround.clinical.codes.labels import LabelSet
from wardround.clinical.codes.user_codes import read_user_codes
from wardround.core import UserError

SCHEMA = "1"
SHORTEST_PREFIX = 3
PCS_LENGTH = 7
Kind = Literal["diagnoses", "procedures"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One CCS category. ``aliases`` are the other ICD version's spellings of its label.

    ``inferred`` is True when the code itself is in no table and its neighbours by prefix decided.
    """

    number: int
    label: str
    aliases: tuple[str, ...] = ()
    inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeGrouper:
    """Codes of one kind to categories; ``sources`` says where each table came from.

    Every answer for a version in ``guessed_versions`` is ``inferred``.
    """

    kind: Kind
    categories: Mapping[int, Category]
    codes: Mapping[int, Mapping[str, int]]
    explicit: Mapping[str, int]
    sources: tuple[str, ...]
    guessed_versions: frozenset[int] = frozenset()
    _ordered: dict[int, list[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def category(self, code: str, version: int | str) -> Category | None:
        """Return the category of an ICD code (dots, spaces and case do not matter); None if unknown.

        A code that the tables lack takes the category that all known codes with its longest shared prefix (3 or more
        characters) agree on, marked ``inferred``; where they disagree it stays None. See ``_by_prefix``.
        """
        plain, number = plain_code(code), int(version)
        known = self.codes.get(number)
        if known is None or not plain:
            return None
        if plain in known:
            found = self.categories[known[plain]]
            return replace(found, inferred=True) if number in self.guessed_versions else found
        if number == 10 and plain in self.explicit:
            return replace(self.categories[self.explicit[plain]], inferred=True)
        guessed = self._by_prefix(plain, number)
        return replace(self.categories[guessed], inferred=True) if guessed else None

    def label_set(self, name: str | None = None) -> LabelSet:
        """Return all category labels, with both versions' spellings as aliases."""
        aliases = {alias: category.label for category in self.categories.values() for alias in category.aliases}
        labels = tuple(category.label for category in self.categories.values())
        return LabelSet(name=name or f"ccs_{self.kind}", labels=labels, aliases=aliases)

    def _by_prefix(self, plain: str, version: int) -> int:
        """Return the category of the nearest known codes; 0 if there are none or they disagree.

        An ICD-10-PCS code is first compared with codes of its own last character: a diagnostic procedure (X) and a
        therapeutic one (Z) share prefixes but no category. (Left out one by one, 96 % of FY2019 codes come right
        instead of 83 %.)
        """
        known = self.codes[version]
        if version not in self._ordered:
            self._ordered[version] = sorted(known)
        for codes in _nearest(plain, self._ordered[version], self.kind):
            if codes:
                found = {known[code] for code in codes}
                return found.pop() if len(found) == 1 else 0
        return 0


def plain_code(code: str) -> str:
    """Return an ICD code in the spelling of the tables.

    >>> plain_code(" e11.65 ")
    'E1165'
    """
    return code.replace(".", "").replace(" ", "").strip().upper()


def load_ccs(kind: Kind, user_codes: Path | None = None) -> CodeGrouper:
    """Return the packaged grouper of diagnoses (ICD-9-CM, ICD-10-CM) or procedures (ICD-10-PCS).

    ICD-9-CM procedures are only in it if the user added HCUP's file under ``user_codes``, or else CMS's mapping to
    ICD-10-PCS: then a code gets the category all its targets share, marked ``inferred``.
    """
    packaged = _packaged(kind)
    if kind != "procedures" or user_codes is None:
        return packaged
    official = read_user_codes("icd9-procedures", user_codes)
    if official:
        icd9 = {code: int(number) for code, number, _ in official if int(number) in packaged.categories}
        return replace(packaged, codes={9: icd9, **packaged.codes})
    mapping = read_user_codes("icd9-procedure-gem", user_codes)
    if mapping:
        return replace(
            packaged, codes={9: _through_icd10(mapping, packaged), **packaged.codes}, guessed_versions=frozenset({9})
        )
    return packaged


def _through_icd10(mapping: Iterable[tuple[str, ...]], packaged: CodeGrouper) -> dict[str, int]:
    """ICD-9 codes whose ICD-10-PCS targets all lie in one category."""
    reached: dict[str, set[int]] = {}
    for icd9, icd10 in mapping:
        if icd10 in packaged.codes[10]:
            reached.setdefault(icd9, set()).add(packaged.codes[10][icd10])
    return {icd9: next(iter(numbers)) for icd9, numbers in reached.items() if len(numbers) == 1}


@cache
def _packaged(kind: Kind) -> CodeGrouper:
    if kind not in ("diagnoses", "procedures"):
        raise UserError(f"no CCS grouper for {kind!r}; choose 'diagnoses' or 'procedures'")
    return parse_table(kind, _read(f"ccs_{kind}"))


def _read(name: str) -> str:
    return gzip.decompress((files("wardround.clinical.codes") / "data" / f"{name}.tsv.gz").read_bytes()).decode()


@cache
def load_ccs_words(kind: Kind) -> Mapping[str, tuple[str, ...]]:
    """Label -> what its content is called, for searching: phrases of clinicians, inclusion terms, words of code titles.

    The words of titles come one row per block of codes.
    """
    grouper = _packaged(kind)
    rows: dict[str, list[str]] = {}
    lines = _read(f"ccs_{kind}_words").splitlines()
    lines += _read("ccs_diagnoses_terms").splitlines() if kind == "diagnoses" else []
    for line in lines:
        number, _, words = line.partition("\t")
        if not line.startswith("#"):
            rows.setdefault(grouper.categories[int(number)].label, []).append(words)
    for phrase, label in load_ccs_phrases(kind):
        rows.setdefault(label, []).append(phrase)
    return MappingProxyType({label: tuple(found) for label, found in rows.items()})


@cache
def load_ccs_phrases(kind: Kind) -> tuple[tuple[str, str], ...]:
    """(phrase, label) rows of our own table: abbreviations, eponyms, lay words, histologies, devices, shorthand."""
    categories = _packaged(kind).categories
    text = (files("wardround.clinical.codes") / "data" / "ccs_phrases.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if line.startswith(f"{kind}\t"))
    return tuple((phrase, categories[int(number)].label) for _, phrase, number in rows)


def parse_table(kind: Kind, text: str) -> CodeGrouper:
    """Read the packaged form: comments, category rows, explicit rows, then front-coded blocks of codes."""
    categories: dict[int, Category] = {}
    codes: dict[int, dict[str, int]] = {}
    explicit: dict[str, int] = {}
    sources: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        match line.split("\t"):
            case ["#schema", schema] if schema != SCHEMA:
                raise UserError(f"the packaged CCS table has schema {schema}, not {SCHEMA}; reinstall wardround")
            case ["#source" | "#licence", source]:
                sources.append(source)
            case ["category", number, label, *aliases]:
                categories[int(number)] = Category(number=int(number), label=label, aliases=tuple(aliases))
            case ["explicit", _, code, number]:
                explicit[code] = int(number)
            case ["codes", version, count]:
                codes[int(version)] = _decode_front(lines, int(count))
    return CodeGrouper(kind=kind, categories=categories, codes=codes, explicit=explicit, sources=tuple(sources))


def _decode_front(lines: Iterator[str], count: int) -> dict[str, int]:
    """`count` lines of: characters shared with the previous code (one digit), the rest, the category if it changed."""
    codes: dict[str, int] = {}
    previous, category = "", 0
    for _ in range(count):
        rest, _, changed = next(lines).partition("\t")
        previous = previous[: int(rest[0])] + rest[1:]
        category = int(changed) if changed else category
        codes[previous] = category
    return codes


def _nearest(plain: str, ordered: Sequence[str], kind: Kind) -> Iterator[Sequence[str]]:
    """Yield the known codes that share ever shorter prefixes with a code; for ICD-10-PCS those with its last character
    first, then all."""
    lengths = range(len(plain), SHORTEST_PREFIX - 1, -1)
    if kind == "procedures" and len(plain) == PCS_LENGTH:
        for length in lengths[1:]:
            shared = _beginning(plain[:length], ordered)
            yield [code for code in shared if len(code) == PCS_LENGTH and code[-1] == plain[-1]]
    yield from (_beginning(plain[:length], ordered) for length in lengths)


def _beginning(prefix: str, ordered: Sequence[str]) -> Sequence[str]:
    return ordered[bisect_left(ordered, prefix) : bisect_left(ordered, prefix + chr(sys.maxunicode))]
