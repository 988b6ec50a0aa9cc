"""The leak test on what people use: our own MEDS export, and public MIMIC concepts as SQL run by DuckDB.

Run: python benchmarks/leak_survey.py --raw mimic-iv-demo-2.2 --concepts mimic-code-concepts-duckdb [--count 60]

Prints a table in Markdown for docs/leak-test.md, and each report in full. ``--concepts`` is the folder with the SQL of
the MIMIC code repository in DuckDB's dialect; without it only the export is looked at.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wardround.audits.pipeline import (
    PipelineCommand,
    PipelineReport,
    PipelineSettings,
    audit_pipeline,
    draw_samples,
)
from wardround.audits.swap import load_swap_table
from wardround.core import silent
from wardround.exports import export_meds
from wardround.records import Store, ingest

CONCEPTS = ("demographics/age", "comorbidity/charlson", "demographics/icustay_detail", "measurement/chemistry")
RAW_TABLES = ("hosp/admissions", "hosp/patients", "hosp/diagnoses_icd", "hosp/labevents", "icu/icustays")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """One pipeline: what it is, which part of this script makes it, how its results are read."""

    name: str
    make: str
    read: str


SURVEYED = (
    Surveyed(name="wardround export meds", make="own-meds", read="meds:{out}/meds"),
    Surveyed(name="concept charlson", make="concepts", read="rows:{out}/charlson.parquet,key=hadm_id,skip=subject_id"),
    Surveyed(
        name="concept icustay_detail",
        make="concepts",
        read="rows:{out}/icustay_detail.parquet,key=stay_id,skip=subject_id,label=hospital_expire_flag+dod",
    ),
    Surveyed(
        name="concept chemistry, events up to the sample's time",
        make="concepts",
        read="events:{out}/chemistry.parquet,time=charttime",
    ),
)


def make_own_meds(raw: Path, out: Path) -> None:
    """Ingest, and export a MEDS data set."""
    ingest("mimiciv", raw, out / "store")
    export_meds(Store.open(out / "store"), out / "meds")


def make_concepts(raw: Path, out: Path, concepts: Path) -> None:
    """Run the public SQL of four concepts, each as it stands, on the raw files."""
    import duckdb

    with duckdb.connect() as connection:
        for schema in ("mimiciv_hosp", "mimiciv_icu", "mimiciv_derived"):
            connection.execute(f"CREATE SCHEMA {schema}")
        for table in RAW_TABLES:
            module, _, name = table.partition("/")
            files = connection.read_csv(str(raw / f"{table}.csv.gz"))
            files.create(f"mimiciv_{module}.{name}")
        for concept in CONCEPTS:
            name = Path(concept).name
            connection.execute((concepts / f"{concept}.sql").read_text(encoding="utf-8"))
            connection.table(f"mimiciv_derived.{name}").write_parquet(str(out / f"{name}.parquet"))


def survey(one: Surveyed, raw: Path, concepts: Path, draw: str, count: int) -> PipelineReport:
    """Test one pipeline at moments drawn in one way."""
    words = [sys.executable, __file__, "--make", one.make, "--concepts", str(concepts.resolve())]
    command = PipelineCommand.parse(f"{shlex.join(words)} --raw {{raw}} --out {{out}}", limit_s=600)
    samples = draw_samples(load_swap_table("mimiciv"), [raw], draw, count=count)
    return audit_pipeline(command, raw, samples, read=one.read, settings=PipelineSettings(bisect=True), report=silent)


def row(one: Surveyed, draw: str, found: PipelineReport, seconds: float) -> str:
    """A line of the table."""
    verdicts = "; ".join(
        f"{verdict}: {', '.join(f'{each.feature} ({each.samples})' for each in findings[:4])}"
        for verdict, findings in found.verdicts.items()
        if verdict != "LABELS"
    )
    columns = ", ".join(sorted({name for each in found.findings for name in each.columns})[:6])
    return (
        f"| {one.name} | {draw} | {found.samples} | {verdicts or 'CLEAN'} | {columns} | {found.runs} | {seconds:.0f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Survey, or make what one pipeline makes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--concepts", type=Path, default=Path("concepts"))
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--draw", nargs="+", default=["icu+24h"])
    parser.add_argument("--only", help="surveyed pipelines whose name holds this")
    parser.add_argument("--make", choices=("own-meds", "concepts"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.make == "own-meds":
        make_own_meds(given.raw, given.out)
        return
    if given.make == "concepts":
        make_concepts(given.raw, given.out, given.concepts)
        return
    if not given.raw.is_dir():
        print(f"{given.raw} is not there: nothing to survey")
        return
    lines = [
        "| pipeline | moments | samples | verdicts (samples) | raw columns | runs | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in SURVEYED:
        if given.only and given.only not in one.name:
            continue
        if one.make == "concepts" and not given.concepts.is_dir():
            print(f"not there, left out: {one.name} (--concepts)")
            continue
        for draw in given.draw:
            began = time.process_time()
            found = survey(one, given.raw, given.concepts, draw, given.count)
            print(f"\n## {one.name}, {draw}\n\n{found.as_text()}", flush=True)
            lines.append(row(one, draw, found, time.process_time() - began))
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
