"""Roles: every shipped source has some, what a spec misspells is named, an older store has those of its source."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.records import list_sources, load_source_spec
from wardround.records.specs.roles import ROLES, CodeForm, ImageRole, MomentRole, RowRole, SpanRole, unplayed

HEAD = """
[source]
name = "haus"
[tables.faelle]
path = "faelle"
key = ["fall"]
event_time = "aufnahme"
available_at = "aufnahme"
[tables.faelle.columns]
subject_id = "int"
fall = "int"
art = "text"
aufnahme = "time"
entlassung = "time"
[tables.faelle.late]
entlassung = "entlassung"
"""


def spec_with(folder: Path, roles: str) -> Path:
    file = folder / "haus.toml"
    file.write_text(HEAD + roles, encoding="utf-8")
    return file


def test_every_source_has_a_stay_in_hospital_results_and_diagnoses() -> None:
    for source in list_sources():
        roles = load_source_spec(source).roles
        played = {role for role in ROLES if getattr(roles, role)}
        assert played >= {"admission", "stay", "lab", "diagnosis", "order"}, source


def test_an_own_source_has_the_roles_it_declares(tmp_path: Path) -> None:
    roles = load_source_spec(
        spec_with(
            tmp_path,
            """
[source.lists]
[roles.admission]
table = "faelle"
id = "fall"
start = "aufnahme"
ends = ["entlassung"]
kind = "art"
where = [{ art = ["stationaer"] }]
no_stays = ["ambulant"]
[roles.transfer]
table = "faelle"
label = "art"
time = ["_event", "aufnahme"]
""".replace("[source.lists]\n", ""),
        )
    ).roles
    assert roles.admission is not None
    assert roles.admission.looked_for() == "faelle with art 'stationaer'"
    assert roles.transfer == (RowRole(table="faelle", label=("art",), time=("_event", "aufnahme")),)
    assert roles.first("lab") is None
    assert unplayed("culture").startswith("no table plays the role `culture`")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ('[roles.admision]\ntable = "faelle"', r"roles.admision: no role 'admision'; did you mean 'admission'"),
        ('[roles.lab]\ntable = "fälle"', r"roles.lab: no table 'fälle'; did you mean 'faelle'"),
        ('[roles.lab]\ntable = "faelle"\nlbel = "art"', r"roles.lab: there is no 'lbel'. Did you mean label"),
        (
            '[roles.lab]\ntable = "faelle"\nlabel = "arten"',
            r"roles.lab \(faelle\): no column 'arten'; did you mean 'art'",
        ),
        (
            '[roles.lab]\ntable = "faelle"\nprecision = "hour"',
            r"roles.lab precision: there is no 'hour'. There are: moment, day, stay",
        ),
        ('[roles.admission]\ntable = "faelle"\nends = "entlassung"', r"roles.admission ends: expected array, got str"),
        ('[roles.lab]\nlabel = "art"', r"roles.lab: object missing required field table"),
    ],
)
def test_what_a_spec_misspells_is_named_with_the_nearest(tmp_path: Path, roles: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_source_spec(spec_with(tmp_path, roles))


def test_a_list_of_the_spec_can_stand_in_a_condition() -> None:
    omop = load_source_spec("omop").roles
    assert "32856" in dict(omop.lab[0].where[0])["measurement_type_concept_id"]
    assert all(one.startswith("!") for one in dict(omop.transfer[0].where[0])["visit_detail_concept_id"])


def test_a_code_is_read_in_its_first_form_or_by_its_system() -> None:
    stream = RowRole(
        table="events",
        code="code",
        forms=(
            CodeForm(start="LAB//RESULT//", system="a", unit_follows=True),
            CodeForm(start="LAB//", system="b", unit_follows=True),
        ),
    )
    assert list(stream.readings("LAB//RESULT//50983//mEq/L")) == [("a", "50983", "mEq/L")]
    assert list(stream.readings("LAB//50983")) == [("b", "50983", None)]
    assert list(stream.readings("DRUG//1")) == []
    listed = RowRole(table="d", code="icd", system="icd", separator=",")
    assert [code for _, code, _ in listed.readings("038.9, A41.9")] == ["038.9", " A41.9"]
    told = RowRole(table="d", code="icd", system_column="version", systems={"9": "icd9"})
    assert (list(told.readings("401", "9")), list(told.readings("I10", "10"))) == ([("icd9", "401", None)], [])


def test_every_role_has_words_and_no_other_key_is_one() -> None:
    assert set(ROLES) == {
        *("admission", "stay", "emergency", "lab", "order", "transfer", "culture"),
        *("diagnosis", "procedure", "note", "summary", "death"),
        *("vital", "administration", "intake", "output", "allergy", "image", "person"),
    }


def test_every_role_and_key_stands_in_the_reference_page() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "roles.md").read_text(encoding="utf-8")
    keys = {field.name for shape in (SpanRole, MomentRole, RowRole, ImageRole) for field in fields(shape)}
    assert [name for name in sorted(keys | set(ROLES)) if f"`{name}`" not in page] == []
