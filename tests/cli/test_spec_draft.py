"""An export like nobody's goes from ``spec init`` and a person's answers to a report; what ``check`` says."""

from __future__ import annotations

import gzip
import json
import re
import runpy
import tomllib
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store, load_source_spec
from wardround.records.drafts.draft import draft_spec
from wardround.records.specs.spec_file import spec_problems
from wardround.tasks.benchmarks import Benchmark, leak_check

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_hospital"
SPECS = Path(__file__).parents[2] / "src" / "wardround" / "records" / "sources"
ANSWERS = {
    "aufenthalte": {
        "description": "Aufenthalte, von der Aufnahme bis zur Entlassung.",
        "event_time": "aufnahme",
        "available_at": "aufnahme",
    },
    "laborwerte": {
        "description": "Laborwerte: abgenommen, später befundet.",
        "event_time": "abnahme",
        "available_at": "befund_am",
    },
    "verordnungen": {
        "description": "Verordnete Arzneien.",
        "event_time": "angeordnet",
        "available_at": "angeordnet",
    },
}


STATION = ('"station, entlassungsart"', '"entlassungsart"')
ORDERS = ('"wirkstoff, dosis_in_mg" = "never"   # drafted\n', "")
"""Known with the row."""


def answered(draft: str) -> str:
    """Return a draft as a person hands it back: every question answered, the roles that fit without their #, and taken
    from the safe side what is known with its row."""
    roles = ("# [roles", '# table = "', '# id = "', "# start", "# ends", "# label", "# time", "# value", "# unit")
    table = ""
    lines: list[str] = []
    for line in draft.splitlines():
        table = found[1] if (found := re.match(r"\[tables\.(\w+)\]", line)) else table
        if line.startswith("# sensitivity"):
            line = 'sensitivity = "synthetic"'
        if '= "TODO' in line:
            key = line.partition(" ")[0]
            if key == "person":
                continue
            line = f'{key} = "{ANSWERS[table][key]}"'
        if line.startswith(roles):
            line = line.removeprefix("# ")
        lines.append(line)
    return "\n".join(lines).replace(*STATION).replace(*ORDERS) + "\n"


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The invented export."""
    folder = tmp_path_factory.mktemp("own") / "krankenhaus"
    runpy.run_path(str(EXAMPLE / "make_hospital.py"))["main"](folder)
    return folder


def test_a_foreign_export_goes_from_a_draft_to_a_report_on_two_tasks(
    hospital: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, store, bench, run = (tmp_path / name for name in ("krankenhaus.toml", "store", "bench", "run"))
    assert main(["spec", "init", str(hospital), "--out", str(spec)]) == 0
    assert main(["spec", "check", str(spec)]) == 1
    assert "10 problems" in capsys.readouterr().out
    assert main(["ingest", "--spec", str(spec), str(hospital), "--store", str(store)]) == 2
    assert not store.exists()
    spec.write_text(answered(spec.read_text(encoding="utf-8")), encoding="utf-8")
    assert spec.read_text(encoding="utf-8") == (EXAMPLE / "krankenhaus.toml").read_text(encoding="utf-8")
    assert main(["spec", "check", str(spec)]) == 0
    assert main(["ingest", "--spec", str(spec), str(hospital), "--store", str(store)]) == 0
    build = ["bench", "build", "agentehr", "--store", str(store), "--out", str(bench), "--per-task", "3"]
    assert main(build) == 0
    benchmark, opened = Benchmark.open(bench), Store.open(store)
    assert {sample.task for sample in benchmark.all_samples} == {"labevents", "prescriptions"}
    assert "Hämoglobin" in benchmark.spaces["labevents_candidates"].labels.labels
    assert leak_check(benchmark, opened) == ()
    assert opened.subject_key(int(opened.subjects[0])).startswith("P-")
    play = ["run", "--benchmark", str(bench), "--store", str(store), "--agent", "react", "--model", "offline"]
    assert main([*play, "--out", str(run)]) == 0
    capsys.readouterr()
    assert main(["report", str(run)]) == 0
    table = capsys.readouterr().out
    assert "labevents" in table
    assert "prescriptions" in table
    audit = ["audit", "leaks", "--store", str(store), "--benchmark", str(bench), "--raw", str(hospital), "--limit", "4"]
    assert main(audit) == 0


def test_no_clock_is_guessed(hospital: Path) -> None:
    draft = draft_spec(hospital)
    clocks = re.findall(r"^(?:event_time|available_at) = (.*)$", draft, re.MULTILINE)
    assert len(clocks) == 6
    assert all(clock.startswith('"TODO') for clock in clocks)


def test_show_prints_tables_clocks_and_roles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "show", str(EXAMPLE / "krankenhaus.toml")]) == 0
    said = capsys.readouterr().out
    assert re.search(r"laborwerte +labornummer +abnahme +befund_am", said)
    assert re.search(r"aufenthalte +entlassungsart +max\(aufnahme, entlassung\)", said)
    assert re.search(r"order +verordnungen", said)
    assert re.search(r"culture +- ", said)


def test_check_says_of_every_table_what_is_wrong_and_the_nearest_name(tmp_path: Path) -> None:
    text = (EXAMPLE / "krankenhaus.toml").read_text(encoding="utf-8")
    text = text.replace('available_at = "befund_am"', 'available_at = "befund"')
    text = text.replace('available_at = "angeordnet"', 'available_at = "angeordnett"')
    (tmp_path / "haus.toml").write_text(text, encoding="utf-8")
    assert spec_problems(tmp_path / "haus.toml") == [
        "tables.laborwerte.available_at: no column 'befund'; did you mean 'befund_am'?",
        "tables.verordnungen.available_at: no column 'angeordnett'; did you mean 'angeordnet'?",
    ]


def test_the_schema_knows_every_key_that_our_own_specs_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "schema"]) == 0
    shapes = json.loads(capsys.readouterr().out)["$defs"]
    tables = [
        table
        for file in SPECS.glob("*/*.toml")
        for table in tomllib.loads(file.read_text(encoding="utf-8"))["tables"].values()
    ]
    assert len(tables) > 50
    assert {key for table in tables for key in table} <= set(shapes["TableKeys"]["properties"])
    assert {key for table in tables for key in table.get("derive", {})} <= set(shapes["Derivation"]["properties"])
    assert shapes["Derivation"]["required"] == ["from", "function"]
    assert shapes["FileFormat"]["properties"]["decimal"]["enum"] == [",", "."]


def drafted(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
    return draft_spec(folder)


def test_zeros_before_a_number_make_it_a_text(tmp_path: Path) -> None:
    draft = drafted(tmp_path, gaben="pid,ndc,dose\n1,058,1.5\n2,051079007820,2\n")
    assert 'ndc = "text"' in draft
    assert 'dose = "float"' in draft
    assert 'pid = "int"' in draft


def test_days_that_may_be_months_are_a_question(tmp_path: Path) -> None:
    draft = drafted(tmp_path, a="pid,at\n1,03/04/2020 10:00\n2,05/06/2020 11:00\n")
    assert 'times = ["TODO: the rows that were read do not show which number is the day' in draft
    decided = drafted(tmp_path, a="pid,at\n1,03/04/2020 10:00\n2,25/06/2020 11:00\n")
    assert 'times = ["%d/%m/%Y %H:%M"]' in decided


def test_what_looks_like_versions_of_a_row_is_named_and_left_to_a_person(tmp_path: Path) -> None:
    rows = "1,7,final,2020-01-02 10:00\n1,6,final,2020-01-02 11:00\n"
    rows += "1,7,korrigiert,2020-01-02 12:00\n2,8,storniert,2020-01-03 09:00\n"
    draft = drafted(tmp_path, befund=f"pid,befund_nr,status,geaendert_am\n{rows}", pat="pid,name\n1,a\n2,b\n")
    assert '# amended = { status = "status", withdrawn = ["storniert"], row = "befund_nr" }' in draft
    assert '# version = "geaendert_am"' in draft
    (tmp_path / "other").mkdir()
    other = drafted(tmp_path / "other", befund="pid,nr,status\n1,7,final\n1,8,offen\n2,9,final\n")
    assert "amended" not in other


def test_drips_and_documents_are_offered_a_role(tmp_path: Path) -> None:
    infusions = "pid,mittel,beginn,ende\n1,Noradrenalin,2020-01-02 10:00,2020-01-02 12:00\n"
    again = "1,Noradrenalin,2020-01-02 14:00,2020-01-02 15:00\n"
    papers = "pid,art,datum,inhalt\n1,Brief,2020-01-02 10:00,Es geht gut\n1,Brief,2020-01-03 10:00,Es geht besser\n"
    draft = drafted(tmp_path, infusionen=infusions + again, dokumente=papers)
    assert "# [roles.intake]" in draft
    assert '# table = "infusionen"\n# label = "mittel"\n# time = "beginn"\n# stop = "ende"' in draft
    assert '# table = "dokumente"\n# label = "art"\n# time = "datum"\n# text = "inhalt"' in draft


def test_dates_among_times_are_a_question(tmp_path: Path) -> None:
    draft = drafted(tmp_path, a="pid,at\n1,2020-01-02 10:00:00\n2,2020-01-03\n")
    assert 'bare_dates = "TODO: at' in draft
    assert "times =" not in draft


def test_a_file_that_is_written_otherwise_than_the_rest_says_so_itself(tmp_path: Path) -> None:
    draft = drafted(tmp_path, a="pid;x\n1;ä\n", b="pid;x\n1;ö\n", c="pid\tx\n1\ty\n")
    assert 'delimiter = ";"' in draft
    assert '[tables.c.files]\ndelimiter = "\\t"' in draft


def test_each_file_has_its_own_decimal_sign(tmp_path: Path) -> None:
    """The sign of the others made every number of the third a broken one."""
    draft = drafted(tmp_path, a="pid;x\n1;1,5\n", b="pid;x\n1;2,25\n", c="pid,x\n1,98.6\n", d="pid,n\n1,7\n")
    files = tomllib.loads(draft)
    assert files["source"]["files"]["decimal"] == ","
    assert files["tables"]["c"]["files"] == {"delimiter": ",", "decimal": "."}
    assert files["tables"]["d"]["files"] == {"delimiter": ",", "decimal": "."}, "a sign that parts cells is none"


def test_headers_of_another_script_have_names_of_their_own(tmp_path: Path) -> None:
    draft = drafted(tmp_path, a="pid,Ώρα,Τιμή,Prénom,prenom\n1,2,3,x,y\n")
    table = tomllib.loads(draft)["tables"]["a"]
    assert list(table["columns"]) == ["pid", "c", "c_2", "prenom", "prenom_2"]
    assert table["files"]["headers"] == {"ώρα": "c", "τιμή": "c_2", "prénom": "prenom", "prenom": "prenom_2"}


def test_a_file_of_a_header_alone_says_so(tmp_path: Path) -> None:
    draft = drafted(tmp_path, a="pid,x\n1,2\n", b="pid,x\n")
    assert "[tables.b]   # b.csv: 0 rows read\n# A header and no row:" in draft
    assert draft.count("A header and no row") == 1


def test_a_draft_is_never_written_over_a_file(hospital: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("# my answers", encoding="utf-8")
    assert main(["spec", "init", str(hospital), "--out", str(tmp_path / "mine.toml")]) == 2
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == "# my answers"


def test_an_open_question_is_no_spec(hospital: Path, tmp_path: Path) -> None:
    (tmp_path / "draft.toml").write_text(draft_spec(hospital), encoding="utf-8")
    with pytest.raises(UserError, match=r"source\.person: TODO.*and 9 more"):
        load_source_spec(tmp_path / "draft.toml")


def test_tables_parted_by_tabs_are_drafted_and_read_as_their_commas_would_be(tmp_path: Path) -> None:
    header, rows = "patient\tabnahme\ttest\twert", ["1\t2150-01-01 08:00:00\tKalium, im Serum\t4.1"] * 3
    for name in ("labor.tsv", "befunde.tsv.gz"):
        text = "\n".join([header, *rows, ""]).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    draft = tomllib.loads(draft_spec(tmp_path))
    assert {table["path"] for table in draft["tables"].values()} == {"labor", "befunde"}
    assert draft["source"]["files"]["delimiter"] == "\t"
    assert set(draft["tables"]["labor"]["columns"]) == {"patient", "abnahme", "test", "wert"}
