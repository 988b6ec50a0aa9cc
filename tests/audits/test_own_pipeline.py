"""The leak test on a source of one's own, by a second person's answers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from wardround.audits.own import pipeline_table
from wardround.audits.pipeline import audit_pipeline, draw_samples
from wardround.core import UserError
from wardround.records import load_source_spec

SPEC = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.visits]
path = "visits"
key = ["visit"]
subject = "person"
event_time = "came"
available_at = "came"
[tables.visits.columns]
visit = "int"
person = "int"
came = "time"
gone = "time"
outcome = "text"
[tables.visits.late]
"gone, outcome" = "gone"
[tables.results]
path = "results_*"
id_columns = ["person", "drawn"]
subject = "person"
event_time = "drawn"
available_at = "drawn"
[tables.results.columns]
person = "int"
drawn = "time"
told = "time"
value = "float"
[roles.stay]
table = "visits"
id = "visit"
start = "came"
ends = ["gone"]
"""
ANSWERS = """
[source]
name = "ward"
answered_by = "a nurse"
[files.visits]
row = "came"
cells = { came = "row", "gone, outcome" = "gone" }
[files.results]
row = "told"
event = "drawn"
cells = { "drawn, told, value" = "row" }
"""


def written(folder: Path, *, spec: str = SPEC) -> tuple[Path, Path, Path]:
    raw = folder / "raw"
    raw.mkdir(parents=True)
    people = range(1, 21)
    visits = [
        f"{50 + who},{who},2150-01-01 08:00,2150-01-0{3 + who % 3} 08:00,{'dead' if who % 4 else 'well'}"
        for who in people
    ]
    (raw / "visits.csv").write_text("visit,person,came,gone,outcome\n" + "\n".join(visits) + "\n")
    for month in ("2150-01", "2150-02"):
        rows = [f"{who},{month}-02 06:00,{month}-02 09:00,{who}.5" for who in people]
        (raw / f"results_{month}.csv").write_text("person,drawn,told,value\n" + "\n".join(rows) + "\n")
    (folder / "ward.toml").write_text(spec)
    (folder / "answers.toml").write_text(ANSWERS)
    return raw, folder / "ward.toml", folder / "answers.toml"


def test_answers_tell_what_a_pipeline_of_ones_own_source_knew(tmp_path: Path) -> None:
    """After 24 hours: the outcome is of the future, a result that was drawn and not yet told was recorded later."""
    raw, spec, answers = written(tmp_path)
    table = pipeline_table(answers, load_source_spec(spec))
    samples = draw_samples(table, [raw], "stay+24h")
    assert {f"{one.time:%d %H:%M}" for one in samples} == {"02 08:00"}

    def run(raw: Path, out: Path) -> None:
        with (raw / "visits.csv").open() as visits, (raw / "results_2150-01.csv").open() as results:
            values = {
                row["person"]: row["value"] for row in csv.DictReader(results) if row["drawn"] <= "2150-01-02 08:00"
            }
            rows = [
                f"{row['visit']},{row['came']},{row['outcome']},{values.get(row['person'], '')}"
                for row in csv.DictReader(visits)
            ]
        out.joinpath("f.csv").write_text("visit,came,outcome,drawn_value\n" + "\n".join(rows) + "\n")

    report = audit_pipeline(run, raw, samples, read="rows:{out}/f.csv,key=visit", source=table)
    assert [(one.verdict, one.feature) for one in report.findings] == [
        ("LEAK", "outcome"),
        ("LATE-RECORDED", "drawn_value"),
    ]
    assert report.problems == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            ('title = "A ward"', 'title = "A ward"\nfiles = { delimiter = ";" }'),
            "copies are written in UTF-8, with commas",
        ),
        (('person = "int"\ndrawn', 'who = "int"\ndrawn'), "must stand in one column of all files.*: person, who$"),
    ],
)
def test_files_that_cannot_be_copied_as_they_are_are_refused(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    text = SPEC.replace(*change)
    if "who" in change[1]:
        text = text.replace('subject = "person"\nevent_time = "drawn"', 'subject = "who"\nevent_time = "drawn"')
        text = text.replace('id_columns = ["person", "drawn"]', 'id_columns = ["who", "drawn"]')
    _, spec, answers = written(tmp_path, spec=text)
    with pytest.raises(UserError, match=words):
        pipeline_table(answers, load_source_spec(spec))
