"""The leak test on what people use: a MEDS extraction, a cohort, two preparations, public concepts, our own export.

Run: python benchmarks/leak_survey.py --raw mimic-iv-demo-2.2 --concepts mimic-code-concepts-duckdb \\
         --environments survey-environments [--count 24] [--draw icu+24h random] [--only es-aces] [--bisect]

Each outside package has a virtual environment of its own, with the versions pinned below; one that is missing is made
with ``--python`` (3.12), which needs a package index. What cannot be made, and data that is not there, is left out and
named. All pipelines run on the same copies; people without a sample are left out of them. Prints each report and a
table in Markdown for docs/leak-test.md.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from wardround.audits.pipeline import (
    Output,
    PipelineReport,
    PipelineSample,
    PipelineSettings,
    audit_pipeline,
    draw_samples,
)
from wardround.audits.pipeline.readers import parse_reading
from wardround.audits.pipeline.samples import write_samples
from wardround.audits.swap import load_swap_table
from wardround.audits.swap.files import files_below, link
from wardround.exports import export_meds
from wardround.records import Store, ingest

HERE = Path(__file__).parent / "surveyed"
CONCEPTS = ("demographics/age", "comorbidity/charlson", "demographics/icustay_detail", "measurement/chemistry")
RAW_TABLES = ("hosp/admissions", "hosp/patients", "hosp/diagnoses_icd", "hosp/labevents", "icu/icustays")
MAPS = (
    "d_labitems_to_loinc",
    "inputevents_to_rxnorm",
    "outputevents_to_loinc",
    "meas_chartevents_main",
    "meas_chartevents_value",
    "proc_datetimeevents",
    "proc_itemid",
)
"""Concept maps that MIMIC-IV-MEDS downloads; here they are headers without a row: they name codes, and date nothing."""
_MAP = "itemid (omop_source_code),label,omop_concept_id,omop_concept_name,omop_domain_id,omop_vocabulary_id,"
_MAP += "omop_concept_class_id,omop_standard_concept,omop_concept_code,value,valueuom\n"
_CHARTED = "subject_id,hadm_id,stay_id,caregiver_id,charttime,storetime,itemid,value,valuenum,valueuom,warning\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """One pipeline. ``pins``: what its environment holds; none: ours. ``needs``: the one whose results it reads, as
    ``{needed}``. ``concepts``: it needs the folder of public SQL."""

    name: str
    commands: tuple[str, ...]
    reads: tuple[str, ...]
    pins: tuple[str, ...] = ()
    needs: str | None = None
    concepts: bool = False
    draw: str | None = None
    """The moments that the pipeline itself takes, where it has its own."""


SURVEYED = (
    Surveyed(
        name="MIMIC-IV-MEDS",
        pins=("mimic-iv-meds==0.2.0", "meds-extract==0.7.1"),
        commands=("meds-extract-run spec=MIMIC-IV output_dir={out}/meds do_download=false input_dir={raw}",),
        reads=("meds:{out}/meds",),
    ),
    Surveyed(
        name="es-aces",
        pins=("es-aces==0.7.3", "polars==1.44.2"),
        needs="MIMIC-IV-MEDS",
        commands=("python {here}/aces_mortality.py {needed}/meds {out}",),
        reads=("events:{out}/cohort.parquet,time=index_timestamp,label=label",),
    ),
    Surveyed(
        name="meds-tab",
        pins=("meds-tab==0.2.0",),
        needs="MIMIC-IV-MEDS",
        commands=("python {here}/meds_tab_features.py {needed}/meds {out} {samples}",),
        reads=("rows:{out}/features.parquet,key=stay_id",),
    ),
    Surveyed(
        name="PyHealth",
        pins=("pyhealth==2.1.0",),
        commands=("python {here}/pyhealth_labs.py {raw} {out}",),
        reads=(
            "events:{out}/labs.csv,time=time,code=code",
            "rows:{out}/admissions.csv,key=hadm_id,label=mortality",
        ),
        draw="admission+48h",
    ),
    Surveyed(
        name="ReciPies",
        pins=("recipies==1.3.1", "polars==2.1.0"),
        commands=("python {here}/hourly_table.py {raw} {out} {samples}", "python {here}/recipies_prepared.py {out}"),
        reads=("rows:{out}/prepared.csv,skip=hour",),
    ),
    Surveyed(
        name="ehrapy",
        pins=("ehrapy==0.15.0", "ehrdata==0.4.0"),
        commands=("python {here}/hourly_table.py {raw} {out} {samples}", "python {here}/ehrapy_prepared.py {out}"),
        reads=("rows:{out}/neighbours.csv",),
    ),
    Surveyed(
        name="concept charlson",
        concepts=True,
        commands=("python {survey} --make concepts --raw {raw} --concepts {concepts} --out {out}",),
        reads=("rows:{out}/charlson.parquet,key=hadm_id,skip=subject_id",),
    ),
    Surveyed(
        name="concept icustay_detail",
        concepts=True,
        needs="concept charlson",
        commands=(),
        reads=("rows:{needed}/icustay_detail.parquet,key=stay_id,skip=subject_id,label=hospital_expire_flag+dod",),
    ),
    Surveyed(
        name="concept chemistry",
        concepts=True,
        needs="concept charlson",
        commands=(),
        reads=("events:{needed}/chemistry.parquet,time=charttime",),
    ),
    Surveyed(
        name="wardround export meds",
        commands=("python {survey} --make own-meds --raw {raw} --out {out}",),
        reads=("meds:{out}/meds",),
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


def environment(one: Surveyed, there: Path, python: str) -> str | None:
    """Return the folder of programs of a pipeline's environment, made if it is missing; None: it cannot be had."""
    if not one.pins:
        return str(Path(sys.executable).parent)
    folder = there / one.name.replace(" ", "-")
    if not (folder / "made").exists():
        try:
            subprocess.run([python, "-m", "venv", str(folder)], check=True)
            subprocess.run([str(folder / "bin" / "pip"), "install", "-q", *one.pins], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {one.name}: no environment ({error})", flush=True)
            return None
        (folder / "made").touch()
    return str(folder / "bin")


def prepared(raw: Path, into: Path) -> Path:
    """Link the raw files, with headers in place of the tables and maps that the open demo lacks."""
    for path in files_below(raw):
        link(path, into / path.relative_to(raw))
    if not list((into / "icu").glob("chartevents.csv*")):
        with gzip.open(into / "icu" / "chartevents.csv.gz", "wt") as stream:
            stream.write(_CHARTED)
    for name in MAPS:
        if not list(into.glob(f"{name}.csv*")):
            (into / f"{name}.csv").write_text(_MAP, encoding="utf-8")
    return into


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Some pipelines that run one after another on the same copy. ``programs``: by name, where those of its
    environment lie."""

    pipelines: Sequence[Surveyed]
    programs: Mapping[str, str]
    samples: Sequence[PipelineSample]
    concepts: Path

    def run(self, raw: Path, out: Path) -> None:
        """Run each in a folder of its own; what one wrote at its failure is not read."""
        write_samples(self.samples, out / "samples.csv")
        for one in self.pipelines:
            places = self._places(one, raw, out)
            Path(places["out"]).mkdir()
            with (out / f"{places['name']}.log").open("wb") as log:
                for command in one.commands:
                    words = [word.format_map(places) for word in shlex.split(command)]
                    path = os.pathsep.join((self.programs[one.name], os.environ["PATH"]))
                    settings = {**os.environ, "PATH": path, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
                    done = subprocess.run(["/usr/bin/env", *words], stdout=log, stderr=log, env=settings, check=False)
                    if done.returncode:
                        print(f"{one.name} failed on {raw}: {log.name}", flush=True)
                        (Path(places["out"]) / "failed").touch()
                        break

    def read(self, out: Path, samples: Sequence[PipelineSample]) -> Output:
        """Read what all of them wrote, each feature with the name of its pipeline."""
        made = Output()
        for one in self.pipelines:
            places = self._places(one, out, out)
            whose = Path(places["needed"] if not one.commands else places["out"])
            for reading in () if (whose / "failed").exists() else one.reads:
                text = reading.replace("{out}", places["out"]).replace("{needed}", places["needed"])
                made.add(parse_reading(text)(out, samples), f"{one.name}: ")
        return replace_places(made)

    def _places(self, one: Surveyed, raw: Path, out: Path) -> dict[str, str]:
        name = one.name.replace(" ", "-")
        return {
            "name": name,
            "raw": str(raw),
            "out": str(out / name),
            "needed": str(out / (one.needs or "").replace(" ", "-")),
            "samples": str(out / "samples.csv"),
            "here": str(HERE),
            "survey": __file__,
            "concepts": str(self.concepts.resolve()),
        }


def replace_places(made: Output) -> Output:
    """Leave out where samples stand: several outputs have several orders."""
    return replace(made, places={})


def rows(survey: Survey, draw: str, found: PipelineReport) -> list[str]:
    """Return a line of the table for each pipeline."""
    lines = []
    for one in survey.pipelines:
        mine = [each for each in found.findings if each.feature.startswith(f"{one.name}: ")]
        verdicts: dict[str, list[str]] = {}
        for each in mine:
            if each.verdict != "LABELS":
                name = each.feature.removeprefix(f"{one.name}: ").replace("|", "/")
                verdicts.setdefault(each.verdict, []).append(f"`{name}` ({each.samples})")
        told = "; ".join(f"{verdict}: {', '.join(names[:6])}" for verdict, names in verdicts.items())
        columns = ", ".join(sorted({f"`{name}`" for each in mine for name in each.columns}))
        hours = max((each.hours or 0 for each in mine), default=0)
        pins = ", ".join(one.pins)
        early = f"{hours} h" if hours else ""
        lines.append(f"| {one.name} | {pins} | {draw} | {found.compared} | {told or 'CLEAN'} | {columns} | {early} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Survey, or make what one pipeline makes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, required=True)
    parser.add_argument("--concepts", type=Path, default=Path("concepts"))
    parser.add_argument("--environments", type=Path, help="without it outside packages are left out")
    parser.add_argument("--python", default="python3.12", help="makes the environments (default: %(default)s)")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--draw", nargs="+", default=["icu+24h"])
    parser.add_argument("--only", nargs="+", default=[], help="pipelines whose name holds one of these words")
    parser.add_argument("--bisect", action="store_true", help="also find the raw columns, and how early")
    parser.add_argument("--most-runs", type=int, default=60)
    parser.add_argument("--keep", type=Path, help="keep copies and results in this new folder")
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
    chosen: list[Surveyed] = []
    programs: dict[str, str] = {}
    for one in SURVEYED:
        if given.only and not any(word in one.name for word in given.only):
            continue
        if one.concepts and not given.concepts.is_dir():
            print(f"left out: {one.name}: no folder of concepts (--concepts)", flush=True)
            continue
        if one.pins and given.environments is None:
            print(f"left out: {one.name}: no folder for its environment (--environments)", flush=True)
            continue
        if one.needs is not None and one.needs not in programs:
            print(f"left out: {one.name}: needs {one.needs}", flush=True)
            continue
        found = environment(one, given.environments or Path(), given.python)
        if found is not None:
            programs[one.name] = found
            chosen.append(one)
    lines = [
        "| pipeline | versions | moments | samples | verdicts (samples) | raw columns | how early |",
        "|---|---|---|---|---|---|---|",
    ]
    with TemporaryDirectory(prefix="wardround-survey-") as folder:
        raw = prepared(given.raw, Path(folder) / "raw")
        drawn: list[tuple[str, str | None]] = [(draw, None) for draw in given.draw]
        drawn += [(draw, draw) for draw in sorted({one.draw for one in chosen if one.draw})]
        for draw, own in drawn:
            there = [one for one in chosen if one.draw == own]
            if not there:
                continue
            samples = draw_samples(load_swap_table("mimiciv"), [raw], draw, count=given.count)
            survey = Survey(pipelines=there, programs=programs, samples=samples, concepts=given.concepts)
            keep = None if given.keep is None else given.keep / draw
            settings = PipelineSettings(bisect=given.bisect, most_runs=given.most_runs, alone=True, keep=keep)
            began = time.process_time()
            report = audit_pipeline(survey.run, raw, samples, read=survey.read, settings=settings)
            print(
                f"\n## {draw}\n\n{report.as_text()}\n\n{time.process_time() - began:.0f} s of CPU for copies",
                flush=True,
            )
            lines += rows(survey, draw, report)
    print("\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
