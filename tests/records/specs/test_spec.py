"""Source specs: what the loader reads and what it refuses, each with a line that says what to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.core import UserError
from wardround.records import SourceSpec, load_source_spec

SPEC = """
[source]
name = "small"
module = "hosp"
title = "A small source"
versions = ["1"]

[tables.admissions]
path = "hosp/admissions"
key = ["hadm_id"]
event_time = "admittime"
available_at = "admittime"
[tables.admissions.columns]
subject_id = "int"
hadm_id = "int"
admittime = "time"
dischtime = "time"
[tables.admissions.late]
dischtime = "dischtime"

[tables.labs]
path = "hosp/labs"
encounter = "hadm_id"
event_time = "charttime"
available_at = "first(storetime, median_delay(charttime, storetime))"
code = "itemid"
withhold = ["specimen_id"]
default_columns = ["charttime", "label"]
[tables.labs.columns]
subject_id = "int"
hadm_id = "int"
specimen_id = "int"
itemid = "int"
charttime = "time"
storetime = "time"
[tables.labs.late]
"hadm_id, itemid" = "known(hadm_id, admissions)"
[tables.labs.dictionary]
table = "d_items"
on = ["itemid"]
add = { label = "label" }

[dictionaries.d_items]
path = "hosp/d_items"
key = ["itemid"]
[dictionaries.d_items.columns]
itemid = "int"
label = "text"
"""


def load(tmp_path: Path, text: str) -> SourceSpec:
    file = tmp_path / "hosp.toml"
    file.write_text(text)
    return load_source_spec(file)


def test_the_shapes(tmp_path: Path) -> None:
    spec = load(tmp_path, SPEC)
    labs = spec.tables["labs"]
    assert (spec.name, spec.modules, spec.versions) == ("small", ("hosp",), ("1",))
    assert labs.subject == "subject_id"
    assert list(labs.public_columns)[:3] == ["charttime", "label", "subject_id"]
    assert "specimen_id" not in labs.public_columns
    assert labs.content_columns == ("subject_id", "charttime", "storetime")
    assert spec.order.index("admissions") < len(spec.order)


def test_what_is_joined_through_a_late_column_is_late_too(tmp_path: Path) -> None:
    labs = load(tmp_path, SPEC).tables["labs"]
    assert labs.late["label"] == labs.late["itemid"] == labs.late["hadm_id"]


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    first = load(tmp_path, SPEC)
    assert load(tmp_path, SPEC).sha256 == first.sha256
    assert load(tmp_path, SPEC + "\n").sha256 != first.sha256


def test_modules_of_a_folder_are_one_source(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SPEC)
    more = '[source]\nname = "small"\nmodule = "icu"\n[tables.stays]\npath = "icu/stays"\nkey = ["stay_id"]\n'
    more += 'event_time = "intime"\navailable_at = "max(intime, known(hadm_id, admissions))"\n'
    more += '[tables.stays.columns]\nsubject_id = "int"\nstay_id = "int"\nhadm_id = "int"\nintime = "time"\n'
    (tmp_path / "b.toml").write_text(more)
    spec = load_source_spec(tmp_path)
    assert spec.modules == ("hosp", "icu")
    assert spec.order.index("admissions") < spec.order.index("stays")
    (tmp_path / "b.toml").write_text(more.replace('"small"', '"other"'))
    with pytest.raises(UserError, match="must agree on"):
        load_source_spec(tmp_path)


CHANGES = [
    ('encounter = "hadm_id"', 'encounterr = "hadm_id"', "there is no 'encounterr'. Did you mean encounter"),
    ('encounter = "hadm_id"', 'encounter = "hadmid"', "no column 'hadmid'; did you mean 'hadm_id'"),
    ('charttime = "time"', 'charttime = "datetime"', "columns.*there is no 'datetime'"),
    ('charttime = "time"', 'Charttime = "time"', "lower case"),
    ('charttime = "time"', 'charttime = "text"', "a rule needs a time or a date"),
    ('event_time = "charttime"\n', "", "missing required field event_time"),
    ('key = ["hadm_id"]', 'key = ["hadm_id", "dischtime"]', "row ids must hold no late cell"),
    ('key = ["hadm_id"]', 'key = ["hadm_id"]\nwithhold = ["hadm_id"]', "row ids must hold no withheld cell"),
    ('key = ["hadm_id"]', "key = []", "must have a primary key of one column"),
    ("known(hadm_id, admissions)", "known(hadm_id, admission)", "did you mean 'admissions'"),
    ("known(hadm_id, admissions)", "known(charttime, admissions)", "is 'time' but admissions.hadm_id is 'int'"),
    ("known(hadm_id, admissions)", "lag(charttime, lab_lag)", "no setting 'lab_lag'"),
    ("known(hadm_id, admissions)", "newest(hadm_id)", r"late .*time rule 'newest\(hadm_id\)': unknown function"),
    ('event_time = "charttime"', 'event_time = ""', r"tables\.labs event_time: a time rule is empty"),
    ('table = "d_items"', 'table = "items"', "no dictionary 'items'"),
    ('add = { label = "label" }', 'add = { charttime = "label" }', "joined columns have names of the file's own"),
    ('add = { label = "label" }', 'add = { label = "lable" }', "did you mean 'label'"),
    ('versions = ["1"]', 'versions = ["1"]\nperson = "labs.itemid"', "source.person.*a table and a text column"),
    ('versions = ["1"]', 'versions = ["1"]\nperson = "lab.itemid"', "source.person.*a table and a text column"),
    ('versions = ["1"]', "versions = [1]", r"versions\[0\]: expected str"),
    ('path = "hosp/labs"', "", "missing required field path"),
    (
        'path = "hosp/labs"',
        'path = "hosp/labs"\nmedian_minutes = { "charttime.endtime" = 5 }',
        "labs.median_minutes.charttime.endtime: no rule asks for it; asked for are charttime.storetime",
    ),
    (
        'path = "hosp/labs"',
        'path = "hosp/labs"\nmedian_minutes = { "charttime.storetime" = -5 }',
        "a delay is not negative, as -5 is",
    ),
    ('name = "small"', "name = small", "not valid TOML"),
]


@pytest.mark.parametrize(("old", "new", "complaint"), CHANGES, ids=[change[2][:30] for change in CHANGES])
def test_mistakes_are_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in SPEC
    with pytest.raises(UserError, match=complaint):
        load(tmp_path, SPEC.replace(old, new, 1))


@pytest.mark.parametrize("again", ["[roles.lab]", "[[roles.lab]]"])
def test_a_role_that_is_given_twice_says_how_several_tables_play_it(tmp_path: Path, again: str) -> None:
    twice = f'\n[roles.lab]\ntable = "labs"\n{again}\ntable = "labs"\n'
    with pytest.raises(UserError, match=r"TOML.*at line \d+.*begin each of them with \[\[roles\.lab\]\]"):
        load(tmp_path, SPEC + twice)


def test_a_circle_of_available_times_is_shown(tmp_path: Path) -> None:
    text = SPEC.replace('available_at = "admittime"', 'available_at = "known(hadm_id, admissions)"')
    with pytest.raises(UserError, match="admissions -> admissions"):
        load(tmp_path, text)


def test_a_table_whose_clock_reads_a_cell_of_another_comes_after_it(tmp_path: Path) -> None:
    by_cell = 'available_at = "ref(hadm_id, admissions, admittime)"'
    text = SPEC.replace('available_at = "first(storetime, median_delay(charttime, storetime))"', by_cell)
    start, labs, end = text.index("[tables.admissions]"), text.index("[tables.labs]"), text.index("[dictionaries")
    labs_first = text[:start] + text[labs:end] + text[start:labs] + text[end:]
    assert load(tmp_path, labs_first).order == ("admissions", "labs")


def test_an_unknown_source_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no source named 'nosuch'"):
        load_source_spec("nosuch")


def _of_sensitivity(folder: Path, name: str, *words: str | None) -> SourceSpec:
    """Load a source of as many files as there are words; None leaves the word out."""
    folder.mkdir()
    for number, word in enumerate(words):
        text = SPEC.replace('"small"', f'"{name}"') if number == 0 else f'[source]\nname = "{name}"\n'
        line = "" if word is None else f'sensitivity = "{word}"\n'
        (folder / f"{number}.toml").write_text(text.replace(f'name = "{name}"\n', f'name = "{name}"\n{line}'))
    return load_source_spec(folder)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((None,), "credentialed"),
        (("synthetic",), "synthetic"),
        (("synthetic", "open"), "open"),
        (("open", "synthetic"), "open"),
        (("synthetic", "credentialed"), "credentialed"),
        (("synthetic", None), "credentialed"),
    ],
)
def test_in_a_spec_of_several_files_the_strictest_word_decides(
    words: tuple[str | None, ...], expected: str, tmp_path: Path
) -> None:
    assert _of_sensitivity(tmp_path / "spec", "small", *words).sensitivity == expected


@pytest.mark.parametrize("word", ["public", "Synthetic", "", "synthetic "])
def test_an_unknown_sensitivity_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There are: synthetic, open, credentialed"):
        _of_sensitivity(tmp_path / "spec", "small", word)


def test_no_edited_copy_of_our_own_spec_lowers_the_word(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'mimiciv' are credentialed, and no edited spec makes them 'synthetic'"):
        _of_sensitivity(tmp_path / "spec", "mimiciv", "synthetic")
    assert _of_sensitivity(tmp_path / "again", "mimiciv", "credentialed").sensitivity == "credentialed"


def test_a_person_is_a_text_column_of_a_table(tmp_path: Path) -> None:
    text = SPEC.replace('versions = ["1"]', 'versions = ["1"]\nperson = "admissions.medical_record"')
    spec = load(tmp_path, text.replace('hadm_id = "int"\n', 'hadm_id = "int"\nmedical_record = "text"\n', 1))
    assert spec.person == "admissions.medical_record"
    assert load(tmp_path, SPEC).person is None
