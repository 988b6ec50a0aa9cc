"""The leak test on pipelines with planted leaks, and on one with oddities that are none."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import leaking_pipeline
import pytest
from leaking_pipeline import READ, SAMPLES, of_people, swap_table, write_features, write_hospital

from declared import beginnings_of
from wardround.audits.pipeline import (
    PipelineCommand,
    PipelineReport,
    PipelineSettings,
    assert_no_future,
    audit_pipeline,
    draw_samples,
    read_samples,
)
from wardround.audits.pipeline.compare import Change, PipelineFinding, grouped
from wardround.audits.pipeline.samples import PipelineSample
from wardround.audits.swap import load_swap_table
from wardround.cli import main
from wardround.core import UserError
from wardround.reports import leak_test_page
from wardround.synth import synthesize


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leak-test") / "hospital"
    write_hospital(folder)
    return folder


@pytest.fixture(scope="module")
def small_hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leak-test") / "small"
    synthesize(folder, patients=8, seed=3)
    return folder


def audited(
    hospital: Path, kind: Callable[[Path, Iterable[Mapping[str, str]]], Iterator[dict[str, object]]], *, bisect: bool
) -> PipelineReport:
    def run(raw: Path, out: Path) -> None:
        write_features(kind(raw, [one.keys for one in SAMPLES]), out)

    settings = PipelineSettings(bisect=bisect, most_runs=150)
    return audit_pipeline(run, hospital, SAMPLES, read=READ, source=swap_table(), settings=settings)


@pytest.fixture(scope="module")
def leaks(hospital: Path) -> PipelineReport:
    return audited(hospital, leaking_pipeline.leaks, bisect=True)


@pytest.mark.parametrize(
    ("feature", "verdict", "columns", "hours"),
    [
        ("later_lab", "LEAK", {"labevents.valuenum"}, 24),
        ("not_stored_yet", "LATE-RECORDED", {"labevents.valuenum"}, None),
        ("mid_stay_code", "LATE-RECORDED", {"hcpcsevents.chartdate", "hcpcsevents.hcpcs_cd"}, None),
        ("length_of_stay", "LEAK", {"icustays.los"}, 24),
        ("next_visit", "LEAK", {"admissions.(rows)"}, 168),
        ("last_in_file", "LEAK", {"services.curr_service"}, 24),
        ("newest_key", "IDENTIFIERS", {"labevents.(rows)"}, 24),
        ("scaled", "POPULATION", set(), None),
        ("merged_patient", "LEAK", {"merges.merged_from"}, 168),
        ("has_no_end", "LATE-RECORDED", {"prescriptions.stoptime"}, None),
        ("rounded_time", "LEAK", {"chartevents.charttime"}, 6),
        ("vocabulary", "POPULATION", set(), None),
        ("(sample)", "LEAK", {"admissions.deathtime"}, 24),
    ],
)
def test_a_planted_leak_is_found_with_its_column_and_how_early(
    leaks: PipelineReport, feature: str, verdict: str, columns: set[str], hours: int | None
) -> None:
    """By the hospital's hours: results after 26 and 50, charting after 10, 12 and 23, the stay's end after 48 or 72."""
    (found,) = (one for one in leaks.findings if one.feature == feature)
    assert (found.verdict, set(found.columns), found.hours) == (verdict, columns, hours)


def test_nothing_else_is_found(leaks: PipelineReport) -> None:
    assert len(leaks.findings) == 13 + 1  # the label
    assert leaks.controls == 4


def test_twelve_oddities_are_no_leaks(hospital: Path) -> None:
    report = audited(hospital, leaking_pipeline.oddities, bisect=False)
    assert report.findings == []
    assert report.conclusion.startswith("CLEAN: 32 samples, 12 features")


def test_a_feature_that_changes_from_run_to_run_is_named_and_judged_no_further(small_hospital: Path) -> None:
    samples = draw_samples(load_swap_table("mimiciv"), [small_hospital], "admission+12h", count=6)
    runs = iter(range(100))

    def run(raw: Path, out: Path) -> None:
        out.joinpath("f.jsonl").write_text(
            "".join(json.dumps({"subject_id": one.subject, "nth": next(runs), "one": 1}) + "\n" for one in samples)
        )

    report = audit_pipeline(run, small_hospital, samples, read="rows:{out}/f.jsonl")
    assert [one.verdict for one in report.findings if one.feature == "nth"] == ["NOT DETERMINISTIC"]
    assert report.status == 2
    assert report.conclusion == "NO LEAK FOUND, NOT CLEAN: nth (NOT DETERMINISTIC)"


def test_a_feature_that_hangs_on_the_order_of_later_rows_is_called_so(hospital: Path) -> None:
    """Only values may change; the time of the last row on file is no value, nor is the latest time."""

    def run(raw: Path, out: Path) -> None:
        drawn = {who: [row["charttime"] for row in rows] for who, rows in of_people(raw, "hosp/labevents").items()}
        lines = [f"{one.subject},{drawn[one.subject][-1]},{max(drawn[one.subject])}\n" for one in SAMPLES]
        out.joinpath("f.csv").write_text("subject_id,last_drawn,latest\n" + "".join(lines))

    settings = PipelineSettings(only={"labevents": ["valuenum"]})
    report = audit_pipeline(run, hospital, SAMPLES, read="rows:{out}/f.csv", source=swap_table(), settings=settings)
    assert [(one.verdict, one.feature) for one in report.findings] == [("ORDER", "last_drawn")]


def test_the_originals_are_never_handed_out(small_hospital: Path) -> None:
    samples = draw_samples(load_swap_table("mimiciv"), [small_hospital], "admission+1h", count=2)
    before = {path: path.read_bytes() for path in small_hospital.rglob("*") if path.is_file()}

    def run(raw: Path, out: Path) -> None:
        for path in raw.rglob("*.csv*"):
            path.chmod(0o600)
            path.write_bytes(b"spoilt")
        out.joinpath("f.csv").write_text("subject_id,a\n" + "".join(f"{one.subject},1\n" for one in samples))

    with pytest.raises(UserError, match="writes into its raw files"):
        assert_no_future(run, small_hospital, samples, read="rows:{out}/f.csv")
    assert {path: path.read_bytes() for path in small_hospital.rglob("*") if path.is_file()} == before


def test_reports_for_ci_and_for_people(leaks: PipelineReport) -> None:
    suite = ElementTree.fromstring(leaks.as_junit())
    assert int(suite.attrib["failures"]) == len(suite.findall(".//failure")) == 11
    levels = {one["level"] for one in leaks.as_sarif()["runs"][0]["results"]}
    assert levels == {"error", "note"}
    page = leak_test_page(leaks)
    assert "length_of_stay" in page
    assert "<script" not in page
    assert "LEAK" in leaks.as_text().splitlines()[-1]


def test_the_command_line_ends_with_1_at_a_leak_and_writes_the_page(
    small_hospital: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samples = draw_samples(load_swap_table("mimiciv"), [small_hospital], "icu+24h", count=6)
    listed = [word for one in samples for word in (f"{one.subject},{one.time:%Y-%m-%dT%H:%M}",)]
    script = tmp_path / "los.py"
    script.write_text(
        "import csv, gzip, sys\n"
        "raw, out = sys.argv[1:]\n"
        "rows = csv.DictReader(gzip.open(raw + '/icu/icustays.csv.gz', 'rt'))\n"
        "with open(out + '/f.csv', 'w') as f:\n"
        "    f.write('subject_id,los\\n')\n"
        "    f.writelines(f\"{row['subject_id']},{row['los']}\\n\" for row in rows)\n"
    )
    page = tmp_path / "leaks.html"
    status = main(
        [
            *("audit", "pipeline", "--raw", str(small_hospital), "--sample", *listed, "--out", str(page)),
            *(
                "--run",
                f"{sys.executable} {script} {{raw}} {{out}}",
                "--read",
                "rows:{out}/f.csv",
                "--only",
                "icustays.los",
            ),
        ]
    )
    assert status == 1
    printed = capsys.readouterr().out
    assert "LEAK" in printed
    assert "los: " in printed
    assert "<h2>LEAK</h2>" in page.read_text()
    assert "<td>los<br>" in page.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("python extract.py", "names no {raw}"),
        ("python 'extract.py {raw}", "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        PipelineCommand.parse(text)


def test_a_pipeline_that_fails_as_it_is_is_no_verdict(small_hospital: Path) -> None:
    samples = draw_samples(load_swap_table("mimiciv"), [small_hospital], "admission", count=2)
    command = PipelineCommand.parse(f"{sys.executable} -c 'raise SystemExit(\"no such column\")' {{raw}}")
    with pytest.raises(UserError, match=r"(?s)fails on the files as they are.*no such column"):
        audit_pipeline(command, small_hospital, samples, read=READ)


def test_hunted_moments_lie_between_a_row_and_its_recording(small_hospital: Path) -> None:
    samples = draw_samples(load_swap_table("mimiciv"), [small_hospital], "hunt", count=30)
    assert len({one.subject for one in samples}) == len(samples) > 4


def test_a_feature_that_reads_whether_a_later_visit_is_on_file_is_not_called_clean(hospital: Path) -> None:
    samples = SAMPLES

    def run(raw: Path, out: Path) -> None:
        with gzip.open(raw / "hosp" / "admissions.csv.gz", "rt") as lines:
            visits = Counter(row["subject_id"] for row in csv.DictReader(lines))
        rows = [f"{one.subject},{visits[one.subject]}\n" for one in samples[1:] if one.subject in visits]
        out.joinpath("f.csv").write_text("subject_id,visits\n" + "".join(rows))

    report = audit_pipeline(run, hospital, samples, read="rows:{out}/f.csv", source=swap_table())
    assert report.status != 0
    assert not report.conclusion.startswith("CLEAN")
    assert report.compared == len(samples) - 1
    assert "1 samples are not in the pipeline's results" in report.as_text()


def test_a_subject_whose_events_all_come_later_is_not_there_and_no_finding(small_hospital: Path) -> None:
    drawn = draw_samples(load_swap_table("mimiciv"), [small_hospital], "admission")
    samples = [replace(one, time=one.time - timedelta(days=1)) for one in drawn]

    def run(raw: Path, out: Path) -> None:
        with gzip.open(raw / "hosp" / "labevents.csv.gz", "rt") as lines:
            rows = [row for row in csv.DictReader(lines) if row["storetime"]]
        out.joinpath("f.csv").write_text(
            "subject_id,time,code,value\n"
            + "".join(f"{row['subject_id']},{row['storetime']},{row['itemid']},{row['valuenum']}\n" for row in rows)
        )

    report = audit_pipeline(run, small_hospital, samples, read="events:{out}/f.csv,code=code")
    assert report.status == 0, report.as_text()
    assert 0 < report.compared < len(samples)


def test_samples_without_a_time_are_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    file.write_text("subject_id,time\n1,2150-01-01 10:00\n2,yesterday\n")
    with pytest.raises(UserError, match="line 3: 'yesterday' is no time"):
        read_samples(file)


def test_a_file_of_people_without_a_rule_is_no_ground_for_clean(hospital: Path, tmp_path: Path) -> None:
    """Without the rule of merges nobody can say what of them was known."""

    def run(raw: Path, out: Path) -> None:
        out.joinpath("f.csv").write_text("subject_id,one\n" + "".join(f"{one.subject},1\n" for one in SAMPLES))

    report = audit_pipeline(run, hospital, SAMPLES, read="rows:{out}/f.csv")
    assert report.status == 2
    assert "no rule says when hosp/merges could be known" in report.conclusion


def test_people_left_alone_have_the_files_that_they_had(hospital: Path) -> None:
    seen: list[set[str]] = []

    def run(raw: Path, out: Path) -> None:
        seen.append(set(leaking_pipeline.of_people(raw, "hosp/labevents")))
        write_features(leaking_pipeline.oddities(raw, [one.keys for one in SAMPLES[:5]]), out)

    settings = PipelineSettings(alone=True)
    report = audit_pipeline(run, hospital, SAMPLES[:5], read=READ, source=swap_table(), settings=settings)
    assert report.status == 0
    assert {frozenset(people) for people in seen} == {frozenset({"1", "2", "3", "4", "5"})}


def test_minutes_from_a_unit_are_compared_by_stays_in_hospital(tmp_path: Path) -> None:
    """Of eICU, two units of one stay have one clock: the second begins 600 minutes after the first."""
    units = [
        "patientunitstayid,patienthealthsystemstayid,uniquepid,hospitaladmitoffset,hospitaldischargeoffset,unitdischargeoffset,hospitaldischargestatus"
    ]
    labs = ["labid,patientunitstayid,labresultoffset,labresultrevisedoffset,labname,labresult"]
    for who in range(1, 21):
        units += [
            f"{2 * who},{100 + who},p{who},-60,4000,3000,Alive",
            f"{2 * who + 1},{100 + who},p{who},-660,3400,2400,Alive",
        ]
        labs += [f"{9 * who},{2 * who},100,130,BUN,{who}", f"{9 * who + 1},{2 * who + 1},1500,1530,BUN,{50 + who}"]
    raw = tmp_path / "eicu"
    raw.mkdir()
    (raw / "patient.csv").write_text("\n".join(units) + "\n")
    (raw / "lab.csv").write_text("\n".join(labs) + "\n")
    table = load_swap_table("eicu")
    samples = draw_samples(table, [raw], "unit+24h")
    first = [one for one in samples if int(one.keys["patientunitstayid"]) % 2 == 0]
    assert {(one.time, one.keys["minutes"]) for one in first} == {(datetime(2000, 1, 2, 1), "1440")}
    given = tmp_path / "samples.csv"
    given.write_text("patientunitstayid,minutes,label\n3,90,1\n")
    (one,) = read_samples(given, table=table, folders=[raw])
    assert (one.subject, one.time, one.label) == ("101", datetime(2000, 1, 1, 12, 30), "1")
    for words, fault in {
        "3,soon,1": "'soon' is no number of minutes",
        "7000,90,1": "no patientunitstayid '7000'",
    }.items():
        given.write_text(f"patientunitstayid,minutes,label\n{words}\n")
        with pytest.raises(UserError, match=f"line 2: .*{fault}"):
            read_samples(given, table=table, folders=[raw])
    given.write_text("subject_id,time\n1,2150-01-01\n")
    with pytest.raises(UserError, match="no column minutes, patientunitstayid; of source eicu"):
        read_samples(given, table=table, folders=[raw])

    def run(raw: Path, out: Path) -> None:
        with (raw / "lab.csv").open() as lines, (raw / "patient.csv").open() as stays:
            results = list(csv.DictReader(lines))
            rows = [
                f"{row['patientunitstayid']},{row['unitdischargeoffset']},"
                + "+".join(
                    each["labresult"]
                    for each in results
                    if each["patientunitstayid"] == row["patientunitstayid"]
                    and int(each["labresultrevisedoffset"]) <= 1440
                )
                for row in csv.DictReader(stays)
            ]
        out.joinpath("f.csv").write_text("patientunitstayid,minutes_there,results\n" + "\n".join(rows) + "\n")

    report = audit_pipeline(run, raw, samples, read="rows:{out}/f.csv,key=patientunitstayid", source=table)
    assert [(one.verdict, one.feature) for one in report.findings] == [("LEAK", "minutes_there")]


def test_a_person_whom_a_reference_names_is_swapped_too(tmp_path: Path) -> None:
    """The subject of a visit is Patient/pN: its number is that of pN, or nothing would be changed."""
    people = range(1, 17)
    coming, going = "2150-01-01T08:00:00", "2150-01-09T08:00:00"
    visits = [
        {
            "resourceType": "Encounter",
            "id": f"e{who}",
            "status": "finished",
            "subject": {"reference": f"Patient/p{who}"},
            "period": {"start": coming, "end": going},
        }
        for who in people
    ]
    raw = tmp_path / "fhir"
    raw.mkdir()
    (raw / "Patient.ndjson").write_text(
        "".join(json.dumps({"resourceType": "Patient", "id": f"p{who}"}) + "\n" for who in people)
    )
    (raw / "Encounter.ndjson").write_text("".join(json.dumps(visit) + "\n" for visit in visits))
    table = load_swap_table("fhir")
    samples = draw_samples(table, [raw], "admission+24h")
    assert {one.subject for one in samples} == {f"p{who}" for who in people}

    def run(raw: Path, out: Path) -> None:
        found = [json.loads(line) for line in (raw / "Encounter.ndjson").read_text().splitlines()]
        rows = [f"{one['subject']['reference'].partition('/')[2]},{one['period'].get('end', '')}" for one in found]
        out.joinpath("f.csv").write_text("subject_id,gone\n" + "\n".join(rows) + "\n")

    report = audit_pipeline(run, raw, samples, read="rows:{out}/f.csv", source=table)
    assert [(one.verdict, one.feature) for one in report.findings] == [("LEAK", "gone")]


def test_features_of_a_family_are_told_as_one_with_the_first_of_them_as_example() -> None:
    noon = datetime(2150, 1, 1, 12)
    early, late = PipelineSample(subject="1", time=noon), PipelineSample(subject="2", time=noon)
    sodium, urea = (
        Change(kind="value", before=(140.0,), after=()),
        Change(kind="value", before=(1, 2, 3, 4), after=("x",)),
    )
    places = {(late, "LAB//sodium"): urea, (early, "LAB//urea"): urea, (early, "LAB//sodium"): sodium}
    (found,) = grouped("LEAK", places, 5, {"LAB//sodium": ("labs.value",), "LAB//urea": ("labs.item",)})
    assert (found.feature, found.features, found.samples, found.compared) == ("LAB", 2, 2, 5)
    assert (found.columns, found.example) == (("labs.item", "labs.value"), early)
    assert found.shown == f"{early}: 140 -> nothing"
    assert "LAB (2 features): " in found.sentence
    (alone,) = grouped("LEAK", {(late, "LAB//urea"): urea}, 5)
    assert (alone.feature, alone.columns) == ("LAB//urea", ())
    assert alone.shown == f"{late}: 1, 2, 3 ... (4) -> x"
    assert PipelineFinding(verdict="LEAK", feature="a", samples=1, compared=2).shown == ""
    assert beginnings_of(PipelineReport).keys() == {"source"}, "what is counted begins at nothing"
