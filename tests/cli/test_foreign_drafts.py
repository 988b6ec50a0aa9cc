"""Drafts of two hospitals that nobody had in mind: monthly files, JSON lines, merged patients, tables without keys."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from foreign_hospitals import kreisklinik, stadtspital
from wardround.cli import main
from wardround.core import UserError
from wardround.records import load_source_spec
from wardround.records.drafts.draft import draft_spec
from wardround.records.drafts.look import grouped_files


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("drafts")
    return {
        "kreisklinik": tomllib.loads(draft_spec(kreisklinik(folder / "kreisklinik", patients=8))),
        "stadtspital": tomllib.loads(draft_spec(stadtspital(folder / "stadtspital", patients=8))),
    }


def test_monthly_files_are_one_table_and_json_lines_are_read(drafts: dict[str, dict[str, Any]]) -> None:
    first, second = drafts["kreisklinik"]["tables"], drafts["stadtspital"]["tables"]
    assert sorted(first) == [
        *("berichte", "faelle", "labor", "notaufnahme", "patienten", "verlegungen", "verordnungen", "vitalwerte"),
        "zusammenfuehrungen",
    ]
    assert sorted(second) == ["anordnungen", "aufenthalte", "bewegungen", "personen", "werte"]
    assert (first["labor"]["path"], second["werte"]["path"]) == ("Labor_*", "werte-*")
    assert first["verordnungen"]["columns"]["angeordnet"] == "time"
    assert second["anordnungen"]["columns"] == {
        "nr": "text",
        "aufenthalt": "text",
        "arznei_name": "text",
        "arznei_dosis": "float",
        "zeiten_von": "time",
        "zeiten_bis": "time",
    }
    assert second["anordnungen"]["files"]["headers"]["zeiten.von"] == "zeiten_von"


def test_keys_persons_and_stays_are_guessed_by_what_the_tables_share(drafts: dict[str, dict[str, Any]]) -> None:
    first, second = drafts["kreisklinik"]["tables"], drafts["stadtspital"]["tables"]
    assert {name: table.get("key", [""])[0] for name, table in first.items()} == {
        "berichte": "bericht",
        "faelle": "fallnr",
        "labor": "labornr",
        "notaufnahme": "na_nr",
        "patienten": "patnr",
        "verlegungen": "",
        "verordnungen": "vo_nr",
        "vitalwerte": "",
        "zusammenfuehrungen": "alte_patnr",
    }
    assert {table["subject"] for table in first.values()} == {"patnr"}
    assert second["werte"]["subject_from"] == {"key": "aufenthalt", "table": "aufenthalte"}
    assert second["bewegungen"]["encounter"] == "aufenthalt"
    assert {name for name, table in first.items() if "encounter" not in table} == {"patienten", "zusammenfuehrungen"}


def test_roles_are_offered_with_what_they_need(tmp_path: Path) -> None:
    text = draft_spec(kreisklinik(tmp_path / "kreisklinik", patients=4))
    role = text.partition("# [roles.note]")[2].partition("# [roles")[0]
    assert '# text = "befundtext"' in role
    assert '# stop = "beendet"' in text.partition("# [roles.order]")[2].partition("# [roles")[0]
    assert "(no end is in this table" not in text
    text = draft_spec(stadtspital(tmp_path / "stadtspital", patients=4))
    role = text.partition("# [roles.admission]")[2].partition("# [roles")[0]
    assert '# table = "aufenthalte"' in role
    assert "# (no column here is the end; ends that are rows of a table" in role


def test_a_table_of_stays_called_by_no_word_is_the_one_that_others_name(tmp_path: Path) -> None:
    _files(
        tmp_path,
        episoden="episode_id,pid,von\n1,1,2020-01-01\n2,1,2020-02-01\n",
        puls="episode_id,wert\n1,2\n1,3\n",
        lab="episode_id,wert\n2,2\n2,3\n",
    )
    tables = tomllib.loads(draft_spec(tmp_path))["tables"]
    assert {table.get("encounter") for table in tables.values()} == {"episode_id"}


def test_no_key_is_guessed_late_on_the_column_that_says_whose_a_row_is(drafts: dict[str, dict[str, Any]]) -> None:
    for draft in drafts.values():
        for table in draft["tables"].values():
            assert table.get("subject") not in table["late"]
            assert table.get("subject_from", {}).get("key") not in table["late"]
    first, second = drafts["kreisklinik"]["tables"], drafts["stadtspital"]["tables"]
    assert first["notaufnahme"]["late"]["fallnr"] == "known(fallnr, faelle)"
    assert second["bewegungen"]["late"]["aufenthalt"] == "known(aufenthalt, aufenthalte)"


def test_a_key_of_another_type_names_no_row(tmp_path: Path) -> None:
    _files(tmp_path, a="a_id,pid\n1,1\n2,1\n", b="a_id,pid\n2020-01-01,1\n2020-01-02,1\n")
    assert tomllib.loads(draft_spec(tmp_path))["tables"]["b"]["late"] == {"a_id": "a_id"}


def test_a_person_s_number_that_more_tables_lack_is_still_whose_a_row_is(tmp_path: Path) -> None:
    """``fallnr`` stood in more tables than ``kundennr``, which became a late key of the table without one."""
    cases = "".join(f"{100 + n},{n % 5},{n}\n" for n in range(10))
    _files(
        tmp_path,
        stamm="kundennr,geschlecht\n" + "".join(f"{n},m\n" for n in range(5)),
        faelle="fallnr,kundennr,x\n" + cases,
        labor="fallnr,wert\n" + "".join(f"{100 + n % 10},1.5\n" for n in range(30)),
        ops="fallnr,code\n" + "".join(f"{100 + n % 10},a\n" for n in range(20)),
        puls="kundennr,puls\n" + "".join(f"{n % 5},{60 + n % 7}\n" for n in range(40)),
    )
    tables = tomllib.loads(draft_spec(tmp_path))["tables"]
    assert {name: table.get("subject") for name, table in tables.items()} == {
        **dict.fromkeys(("stamm", "faelle", "puls"), "kundennr"),
        **dict.fromkeys(("labor", "ops")),
    }
    assert tables["labor"]["subject_from"] == {"key": "fallnr", "table": "faelle"}
    assert "kundennr" not in tables["puls"]["late"]


def test_a_late_column_that_says_whose_a_row_is_is_refused(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "foreign" / "kreisklinik.toml").read_text(encoding="utf-8")
    assert "[tables.vitalwerte.columns]" in text
    late = '[tables.vitalwerte.late]\npatnr = "known(patnr, patienten)"\n[tables.vitalwerte.columns]'
    (tmp_path / "x.toml").write_text(text.replace("[tables.vitalwerte.columns]", late), encoding="utf-8")
    with pytest.raises(UserError, match=r"tables\.vitalwerte\.late: patnr says whose row it is"):
        load_source_spec(tmp_path / "x.toml")


def test_what_may_be_filled_in_later_is_late_until_somebody_says_otherwise(drafts: dict[str, dict[str, Any]]) -> None:
    for draft in drafts.values():
        for name, table in draft["tables"].items():
            late = {column.strip() for columns in table["late"] for column in columns.split(",")}
            owner = table.get("subject_from", {}).get("key", table.get("subject"))
            assert late == set(table["columns"]) - {owner, *table.get("key", ())}, name
    first = drafts["kreisklinik"]["tables"]
    assert first["faelle"]["late"] == {
        "aufnahme": "aufnahme",
        "entlassung": "entlassung",
        "aufnahmeart, fachabteilung, verweildauer, entlassungsart": "max(aufnahme, entlassung)",
    }


def test_a_table_of_one_time_or_none_is_never_shown_until_somebody_says_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An order with a beginning alone has a status that was filled in at its end; nobody is born into a record."""
    _files(
        tmp_path / "haus",
        patienten="patnr,geburtsdatum,dod,x\n1,1950-01-01,2020-01-01,\n2,1951-01-01,,y\n",
        personal="patnr,geb_datum,sexe\n1,1950-01-01,m\n2,1951-01-01,w\n",
        allergien="patnr,stoff\n1,a\n1,b\n2,a\n",
        orders="patnr,beginn,status\n1,2020-01-01 10:00,x\n1,2020-01-02 10:00,y\n",
    )
    text = draft_spec(tmp_path / "haus")
    tables = tomllib.loads(text)["tables"]
    assert tables["allergien"]["late"] == {"stoff": "never"}
    assert tables["orders"]["late"] == {"beginn": "beginn", "status": "never"}
    assert tables["personal"]["late"]["sexe"] == tables["patienten"]["late"]["x"] == "never"
    answered = text.replace('event_time = "TODO', 'event_time = "always" #').replace("person =", "# person =")
    answered = answered.replace('available_at = "TODO', 'available_at = "always" #').replace('"TODO', '"')
    (tmp_path / "haus.toml").write_text(answered, encoding="utf-8")
    assert main(["spec", "check", str(tmp_path / "haus.toml")]) == 0
    assert "never shown until a rule says when: allergien.stoff, orders.status" in capsys.readouterr().out


def test_a_name_that_could_be_an_empty_cell_stays_a_name(tmp_path: Path) -> None:
    """NA is sodium among the tests; among numbers it is nothing."""
    _files(tmp_path, labor="pid,test,wert\n1,NA,1.5\n1,K,n/a\n2,NA,2.5\n", p="pid,x\n1,-\n2,y\n")
    assert tomllib.loads(draft_spec(tmp_path))["source"]["files"]["empty"] == ["n/a"]


def test_days_beyond_the_twelfth_are_found_among_many(tmp_path: Path) -> None:
    """The first four hundred of the sorted times were all of the first days of a month."""
    days = [
        f"{day:02}/{month:02}/2022 {hour:02}:00" for day in range(1, 29) for month in range(1, 13) for hour in (1, 9)
    ]
    _files(tmp_path, labor="pid,am\n" + "".join(f"1,{day}\n" for day in days))
    assert tomllib.loads(draft_spec(tmp_path))["source"]["files"]["times"] == ["%d/%m/%Y %H:%M"]


def test_an_open_question_of_days_names_the_formats_that_stay(tmp_path: Path) -> None:
    _files(tmp_path, a="pid,am\n1,03/04/2020\n", b="pid,um\n1,2020-05-06 10:00\n")
    times = tomllib.loads(draft_spec(tmp_path))["source"]["files"]["times"]
    assert times[0].endswith("one of %d/%m/%Y, %m/%d/%Y, beside %Y-%m-%d %H:%M")


def test_a_key_of_another_name_is_known_by_what_stands_in_it(tmp_path: Path) -> None:
    stays = "".join(f"S{n},{n % 6:06},2020-01-0{n % 9 + 1} 10:00,2020-02-01 10:00\n" for n in range(12))
    _files(
        tmp_path,
        patients="ipp,sexe,ipp_maitre\n" + "".join(f"{n:06},M,\n" for n in range(6)),
        sejours="iep,ipp,entree,sortie\n" + stays,
        biologie="N° séjour;analyse;valeur\n" + "".join(f"S{n % 12};Na;1,5\n" for n in range(40)),
        consultations="malade,acte\n" + "".join(f"{n % 6:06},a\n" for n in range(20)),
    )
    text = draft_spec(tmp_path)
    draft = tomllib.loads(text)
    tables = draft["tables"]
    assert '# label = "analyse"' in text.partition("# [roles.lab]")[2]
    assert tables["biologie"]["subject_from"] == {"key": "n_sejour", "table": "sejours"}
    assert tables["biologie"]["encounter"] == "n_sejour"
    assert tables["consultations"]["subject"] == "malade"
    assert draft["source"]["person"].endswith("may contain it: patients.ipp_maitre")


def test_who_became_whom_is_asked(drafts: dict[str, dict[str, Any]]) -> None:
    asked = {name: draft["source"]["person"] for name, draft in drafts.items()}
    assert all(text.startswith("TODO: are patients merged") for text in asked.values())
    assert asked["kreisklinik"].endswith("zusammenfuehrungen.alte_patnr, zusammenfuehrungen.patnr")
    assert asked["stadtspital"].endswith("may contain it: personen.fuehrende_pid")


def test_every_file_that_is_not_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "haus"
    _files(folder, patienten="pid,x\n1,2\n", leer="", ohne=" , \n1,2\n", breit=f"a\n{'x' * 200_000}\n")
    (folder / "alt").mkdir()
    (folder / "alt" / "Notizen.xlsx").write_bytes(b"PK\x03\x04")
    (folder / "brief.txt").write_text("a;b\n", encoding="utf-8")
    (folder / "kaputt.parquet").write_bytes(b"PAR1 nothing")
    (folder / "bild.csv").write_bytes(b"\x00\x01\x02\x03")
    (folder / "liste.jsonl").write_text("[1]\n", encoding="utf-8")
    assert main(["spec", "init", str(folder), "--out", str(tmp_path / "haus.toml")]) == 0
    said, text = capsys.readouterr().out, (tmp_path / "haus.toml").read_text(encoding="utf-8")
    for line in (
        "not used: alt/Notizen.xlsx (its name does not end in one of",
        "not used: brief.txt (its name does not end in one of",
        "not used: leer.csv (it is empty)",
        "not used: kaputt.parquet (cannot be read as Parquet",
        "not used: bild.csv (not a text file)",
        "not used: ohne.csv (the first line has no column name)",
        "not used: breit.csv (not a table (field larger than field limit",
        "not used: liste.jsonl (no line is a JSON object)",
    ):
        assert line in said
        assert f"# {line}" in text
    assert list(tomllib.loads(text)["tables"]) == ["patienten"]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["labor_2021_01", "labor_2021_02", "labor_2022_01"], {"labor_*": 3}),
        (["Labor Januar 2021", "Labor März 2021"], {"Labor *": 2}),
        (["export_v2_jan_labor", "export_v2_feb_labor"], {"export_v*_labor": 2}),
        (["2021/labor_1", "2022/labor_1"], {"*/labor_*": 2}),
        (["labor_1", "labor_2", "labor_einheiten"], {"labor_[0-9]*": 2, "labor_einheiten": 1}),
        (["labor_mai", "labor_juni", "labor_einheiten"], {"labor_mai": 1, "labor_juni": 1, "labor_einheiten": 1}),
        (["juliane", "marta"], {"juliane": 1, "marta": 1}),
    ],
)
def test_files_that_differ_by_a_number_or_a_month_are_one_table(
    tmp_path: Path, names: list[str], found: dict[str, int]
) -> None:
    _files(tmp_path, **dict.fromkeys(names, "pid,wert\n1,2\n"))
    assert {one.path: len(one.files) for one in grouped_files(tmp_path)[0]} == found


def test_files_of_such_names_with_other_headers_stay_apart(tmp_path: Path) -> None:
    _files(tmp_path, icd_9="pid,a,b\n1,2,3\n", icd_10="pid,c,d\n1,2,3\n")
    assert [one.path for one in grouped_files(tmp_path)[0]] == ["icd_10", "icd_9"]


def test_a_column_that_some_of_the_files_lack_is_named_and_is_no_key(tmp_path: Path) -> None:
    _files(tmp_path, l_1="pid,a,b,c\n1,2,3,4\n", l_2="pid,a,b,c,nr\n1,2,3,4,5\n", p="pid,x\n1,y\n")
    text = draft_spec(tmp_path)
    assert "# not in all of these files: nr\n" in text
    assert "key" not in tomllib.loads(text)["tables"]["l"]


def test_two_files_of_one_name_have_their_folders_in_theirs(tmp_path: Path) -> None:
    _files(tmp_path, **{"nord/labor": "pid,x\n1,2\n", "sued/labor": "pid,y,z\n1,2,3\n"})
    text = draft_spec(tmp_path)
    assert sorted(tomllib.loads(text)["tables"]) == ["nord_labor", "sued_labor"]
    assert re.findall(r'^path = "(.*)"', text, re.MULTILINE) == ["nord/labor", "sued/labor"]


def _files(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
