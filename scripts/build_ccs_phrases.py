"""Sort and check the two packaged tables of what people call the content of CCS categories.

    python scripts/build_ccs_phrases.py                               # check and sort ccs_phrases.tsv in place
    python scripts/build_ccs_phrases.py --simple-icd-10-cm <unpacked wheel>   # also rebuild ccs_diagnoses_terms.tsv.gz

`ccs_phrases.tsv` (kind, phrase, CCS number) is our own: abbreviations, eponyms, lay words, British and American
spellings, histologies, devices, operating-list shorthand. `ccs_diagnoses_terms.tsv.gz` holds the inclusion terms of the
ICD-10-CM tabular list (NCHS and CMS, public domain; taken from the PyPI package `simple-icd-10-cm`, MIT, at build time
only), each under the CCS category of its code.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from wardround.clinical.codes import load_ccs, normalise_label

TARGET = Path(__file__).resolve().parents[1] / "src" / "wardround" / "codes" / "data"
KINDS: tuple[Literal["diagnoses", "procedures"], ...] = ("diagnoses", "procedures")
LONGEST = 80
TABULAR = "simple_icd_10_cm/data/icd10c-tabular-*.xml"


def checked_phrases(lines: list[str]) -> list[str]:
    """Comment lines as they are, then the rows sorted and without repeats; a row of no category is an error."""
    groupers = {kind: load_ccs(kind) for kind in KINDS}
    rows: set[tuple[str, str, int]] = set()
    spelled: dict[tuple[str, str, int], str] = {}
    for line in (line for line in lines if line and line[0] != "#"):
        kind, phrase, number = line.split("\t")
        if int(number) not in groupers[kind].categories:  # type: ignore[index]
            raise SystemExit(f"{line!r}: {kind} have no category {number}")
        key = (kind, normalise_label(phrase), int(number))
        rows.add(key)
        spelled[key] = min(phrase, spelled.get(key, phrase))
    return [line for line in lines if line[:1] == "#"] + [
        f"{kind}\t{spelled[kind, phrase, number]}\t{number}" for kind, phrase, number in sorted(rows)
    ]


def inclusion_terms(path: Path) -> Iterator[tuple[int, str]]:
    """(category, term) of every inclusion term whose code, or all of whose longer codes, has one category."""
    diagnoses = load_ccs("diagnoses")
    for entry in ElementTree.parse(path).getroot().iter("diag"):
        category = diagnoses.category(entry.findtext("name") or "", 10)
        for note in entry.findall("inclusionTerm/note"):
            term = " ".join(re.sub(r"\b(NOS|NEC)\b", "", note.text or "").split())
            if category and term and len(term) <= LONGEST:
                yield category.number, term


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simple-icd-10-cm", type=Path, help="the unpacked simple-icd-10-cm 1.5.0 wheel (MIT)")
    root = parser.parse_args().simple_icd_10_cm
    path = TARGET / "ccs_phrases.tsv"
    rows = checked_phrases(path.read_text(encoding="utf-8").splitlines())
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    if root is not None:
        source = next(root.glob(TABULAR))
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        head = f"#source\tICD-10-CM tabular list, {source.name} sha256 {digest} (NCHS, CMS; public domain)"
        terms = [f"{number}\t{term}" for number, term in sorted(set(inclusion_terms(source)))]
        packed = gzip.compress("\n".join([head, *terms, ""]).encode(), compresslevel=9, mtime=0)
        (TARGET / "ccs_diagnoses_terms.tsv.gz").write_bytes(packed)


if __name__ == "__main__":
    main()
