"""A newer release beside the store of an earlier one: the store that reading everything makes, with less reading."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from effort import drawn, often
from records.kill_switch import Killed, kill_switch
from records.small_source import FILES, SPEC, small_spec, write_files
from wardround.audits import check_store
from wardround.cli.main import main
from wardround.core import RecordError, UserError
from wardround.records import IngestReport, IngestSettings, Store, ingest
from wardround.records.ingest.plan import Lineage
from wardround.records.shards.layout import CHANGES

SHARDS = 3
_OF_THE_WAY = ("manifest.json", CHANGES, "origin/notes.json")
"""Files that say how a store came to be."""


def written(store: Path) -> dict[str, bytes]:
    """Every file of a store but those that say how it came to be."""
    files = {path.relative_to(store).as_posix(): path for path in store.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name not in _OF_THE_WAY}


def renewed(
    folder: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    settings: IngestSettings | None = None,
    spec: str = SPEC,
    old_spec: str = SPEC,
    shards: int = SHARDS,
    measured: bool = False,
) -> Lineage:
    """Ingest one release, then a newer one with and without the first; hold the two to be the same store."""
    settings = settings or IngestSettings(shards=shards, measure_medians=measured)
    first = IngestSettings(shards=shards, measure_medians=measured)
    before, after = write_files(folder / "before", old), write_files(folder / "after", new)
    ingest(small_spec(folder / "spec", old_spec), before, folder / "old", settings=first)
    held = written(folder / "old")
    source = small_spec(folder / "spec-new", spec)
    whole = ingest(source, after, folder / "whole", settings=settings)
    made = ingest(source, after, folder / "new", settings=settings, earlier=folder / "old")
    assert written(folder / "old") == held
    same_store(folder / "whole", folder / "new")
    said = ("rows", "subjects", "quarantined", "never_visible", "missing_columns", "repeated_rows", "orphans", "filled")
    assert [getattr(made, name) for name in said] == [getattr(whole, name) for name in said]
    assert made.made_from is not None
    return made.made_from


def same_store(one: Path, other: Path) -> None:
    assert Store.open(one).digest == Store.open(other).digest
    first, second = written(one), written(other)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []


def changes(store: Path) -> dict[int, str]:
    """Whose records changed, and how."""
    table = pa.ipc.open_file(store / CHANGES).read_all()
    return dict(zip(table.column("subject_id").to_pylist(), table.column("change").to_pylist(), strict=True))


def test_where_nothing_changed_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, spec = write_files(tmp_path / "raw", FILES), small_spec(tmp_path / "spec")
    ingest(spec, raw, tmp_path / "old", settings=IngestSettings(shards=SHARDS))
    shutil.copytree(raw, tmp_path / "again")
    monkeypatch.setattr("wardround.records.reading.csv_blocks._open", None)
    made = ingest(spec, tmp_path / "again", tmp_path / "new", earlier=tmp_path / "old")
    same_store(tmp_path / "old", tmp_path / "new")
    assert made.made_from is not None
    assert made.made_from.subjects == {"new": 0, "changed": 0, "same": 2, "gone": 0}
    assert (made.made_from.read, made.made_from.shards) == ({}, [SHARDS, SHARDS])
    assert (tmp_path / "new" / "subjects.npy").samefile(tmp_path / "old" / "subjects.npy")


def test_only_the_file_that_changed_is_parsed(tmp_path: Path) -> None:
    labs = FILES["hosp/orders.csv"].replace("2150-01-03 10", "2150-01-03 11")
    found = renewed(tmp_path, FILES, {**FILES, "hosp/orders.csv": labs})
    assert found.read == {"orders": "changed"}
    assert found.subjects == {"new": 0, "changed": 1, "same": 1, "gone": 0}
    assert changes(tmp_path / "new") == {1: "changed"}
    assert found.shards == [SHARDS - 1, SHARDS]
    checked = check_store(tmp_path / "new")
    assert (checked.damaged, checked.unknown) == ((), ())
    digest = Store.open(tmp_path / "old").digest
    assert f"made from store {digest[:16]}: subjects 0 new, 1 changed, 1 the same, 0 gone" in checked.as_text()


def test_a_parent_that_moved_takes_its_children_along(tmp_path: Path) -> None:
    later = FILES["hosp/admissions.csv"].replace("2150-01-05 12", "2150-01-07 12")
    found = renewed(tmp_path, FILES, {**FILES, "hosp/admissions.csv": later})
    assert found.read == {"admissions": "changed"}
    old, new = (Store.open(tmp_path / name).rows(1, "diagnoses").column("_available") for name in ("old", "new"))
    assert new[0].as_py() - old[0].as_py() == timedelta(days=2)


def test_a_table_whose_subjects_another_one_knows_is_read_with_it(tmp_path: Path) -> None:
    labs = FILES["hosp/labs.csv"].replace("101,1,10,502", "101,2,20,502")
    found = renewed(tmp_path, FILES, {**FILES, "hosp/labs.csv": labs})
    assert found.read["triage"] == "its subjects are those of labs"
    complaint = FILES["ed/triage.csv"].replace("cough", "fever")
    found = renewed(tmp_path / "child", FILES, {**FILES, "ed/triage.csv": complaint})
    assert found.read == {"triage": "changed"}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        (
            "hosp/d_labs.csv",
            "itemid,label\n500,Lactate\n501,Glucose\n502,Ketone\n",
            "dictionaries that changed: d_labs",
        ),
        ("hosp/labs.csv", FILES["hosp/labs.csv"].replace("08:00:00,___", "08:05:00,___"), "median delays that changed"),
        ("hosp/drugs.csv", FILES["hosp/drugs.csv"].replace("stoptime", "end"), "columns that are new or gone: drugs"),
        ("ed/triage.csv", "", "tables that are new or gone: triage"),
    ],
)
def test_what_bears_on_everybody_finishes_everybody_anew(tmp_path: Path, name: str, text: str, why: str) -> None:
    found = renewed(tmp_path, FILES, {**FILES, name: text}, measured=True)
    assert found.why_every_subject is not None
    assert found.why_every_subject.startswith(why)
    assert found.tables


def test_a_dictionary_s_other_places_change_nobody_and_its_other_words_those_who_bear_them(tmp_path: Path) -> None:
    places = "itemid,label\n499,None\n501,Glucose\n502,Ketone\n"
    assert renewed(tmp_path, FILES, {**FILES, "hosp/d_labs.csv": places}).subjects["changed"] == 0
    words = FILES["hosp/d_labs.csv"].replace("Ketone", "Ketones")
    found = renewed(tmp_path / "words", FILES, {**FILES, "hosp/d_labs.csv": words})
    assert changes(tmp_path / "words" / "new") == {1: "changed"}
    assert found.subjects == {"new": 0, "changed": 1, "same": 1, "gone": 0}


def test_a_dictionary_that_no_table_takes_words_from_changes_nobody(tmp_path: Path) -> None:
    spec = f"""{SPEC}
[dictionaries.d_wards]
path = "hosp/d_wards"
key = ["ward"]
[dictionaries.d_wards.columns]
ward = "int"
name = "text"
"""
    old, new = ({"hosp/d_wards.csv": f"ward,name\n1,{name}\n"} for name in ("East", "West"))
    found = renewed(tmp_path, FILES | old, FILES | new, spec=spec, old_spec=spec)
    assert found.why_every_subject is None
    assert found.subjects == {"new": 0, "changed": 0, "same": 2, "gone": 0}


def replaced(name: str, old: str, new: str) -> dict[str, str]:
    text = FILES[name]
    assert old in text
    return {name: text.replace(old, new)}


ANOTHER_S_STAY = replaced("hosp/labs.csv", "102,1,,", "102,1,20,")
ANOTHER_S_SPECIMEN = {
    "hosp/cultures.csv": FILES["hosp/cultures.csv"]
    + "2,8,1,2150-01-02 00:00:00,,2150-01-02 18:30:00,URINE CULTURE,NONE\n"
}
NUMBERED = SPEC.replace("[tables.drugs]\n", '[tables.drugs]\nunique = ["number"]\n')
NUMBERS = {"hosp/drugs.csv": "number," + FILES["hosp/drugs.csv"].replace("\n1,", "\n#,1,").rstrip()}


def numbered(*numbers: int) -> dict[str, str]:
    text = NUMBERS["hosp/drugs.csv"]
    for number in numbers:
        text = text.replace("#", str(number), 1)
    return {"hosp/drugs.csv": f"{text}\n"}


ANOTHER_S_KEY = {
    "hosp/labs.csv": FILES["hosp/labs.csv"] + FILES["hosp/labs.csv"].splitlines()[1].replace("1,10", "2,20")
}
OTHER_SPECIMEN = {"hosp/cultures.csv": ANOTHER_S_SPECIMEN["hosp/cultures.csv"].replace("1,8,1", "1,10,1")}
LATER_SPECIMEN = {
    "hosp/cultures.csv": ANOTHER_S_SPECIMEN["hosp/cultures.csv"].replace(
        "1,8,1,2150-01-02 00:00:00,,2150-01-02 18:00", "1,8,1,2150-01-02 00:00:00,,2150-01-02 19:00"
    )
}
"""What the other had first is second now, so that both are numbered anew."""
LATER_STAY = replaced("hosp/admissions.csv", "2150-01-02 08", "2150-01-04 08")


@pytest.mark.parametrize(
    ("old", "new", "spec", "changed"),
    [
        ({}, ANOTHER_S_KEY, SPEC, {1}),
        (ANOTHER_S_STAY, ANOTHER_S_STAY | LATER_STAY, SPEC, {1, 2}),
        (ANOTHER_S_SPECIMEN, OTHER_SPECIMEN, SPEC, {1, 2}),
        (ANOTHER_S_SPECIMEN, LATER_SPECIMEN, SPEC, {1, 2}),
        (numbered(1, 2, 3, 4), numbered(1, 1, 3, 4), NUMBERED, {1}),
    ],
    ids=[
        "one key",
        "a stay of somebody else",
        "a specimen of somebody else",
        "a later one",
        "a key that is only checked",
    ],
)
def test_rows_that_meet_across_people_are_not_finished_apart(
    tmp_path: Path, old: dict[str, str], new: dict[str, str], spec: str, changed: set[int]
) -> None:
    found = renewed(tmp_path, FILES | old, FILES | new, spec=spec, old_spec=spec, shards=1)
    assert found.why_every_subject is None
    assert set(changes(tmp_path / "new")) == changed


@pytest.mark.parametrize(
    ("settings", "spec", "why"),
    [
        (IngestSettings(shards=SHARDS, coding_lag=timedelta(days=1)), SPEC, "it was made with other settings"),
        (IngestSettings(shards=SHARDS), SPEC.replace('withhold = ["test_seq"]', ""), "it was made with another spec"),
        (IngestSettings(shards=SHARDS + 1), SPEC, "its 3 shards are too few"),
    ],
)
def test_other_clocks_take_nothing_and_say_so(tmp_path: Path, settings: IngestSettings, spec: str, why: str) -> None:
    found = renewed(tmp_path, FILES, FILES, settings, spec)
    assert found.why_nothing is not None
    assert found.why_nothing.startswith(why)
    assert found.subjects == {"new": 0, "changed": 2, "same": 0, "gone": 0}
    assert found.as_text().startswith("nothing was reused, everything was read: it")


HEADS = {name: text.partition("\n")[0] for name, text in FILES.items()}


class Hospital:
    """A release of a dozen people that changes by chance: the lines of every file, with their subjects. Now and then a
    row names a stay, or has the specimen, of somebody else, as it may not."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.number = 1000
        self.stays: list[int] = []
        self.lines: dict[str, list[tuple[int, str]]] = {name: [] for name in FILES}
        for subject in self.draw.sample(range(1, 500), 10):
            self.admit(subject)
        for lines in self.lines.values():
            self.draw.shuffle(lines)

    def moment(self) -> str:
        minutes = self.draw.randrange(60 * 24 * 3)
        return (datetime(2150, 1, 1) + timedelta(minutes=30 * (minutes // 30))).isoformat(" ")

    def add(self, name: str, subject: int, *cells: object) -> None:
        self.lines[name].append((subject, ",".join(map(str, cells))))

    def admit(self, subject: int) -> None:
        self.add("hosp/patients.csv", subject, subject, "F", 60, 2150, self.draw.choice(["", "2150-03-01"]))
        stays = [self.next() for _ in range(self.draw.randrange(3))]
        self.stays += stays
        for stay in stays:
            self.add("hosp/admissions.csv", subject, subject, stay, self.moment(), self.moment(), "HOME")
            for place in range(self.draw.randrange(3)):
                self.add("hosp/diagnoses.csv", subject, subject, stay, place, self.draw.choice(["I10", "A419"]), 10)
        for _ in range(self.draw.randrange(6)):
            self.lab(subject, self.draw.choice([*stays, ""]))
        for _ in range(self.draw.randrange(4)):
            self.order(subject)
        for _ in range(self.draw.randrange(4)):
            self.culture(subject)

    def next(self) -> int:
        self.number += 1
        return self.number

    def lab(self, subject: int, stay: object) -> None:
        lab, at = self.next(), self.moment()
        if self.stays and self.draw.random() < 0.05:
            stay = self.draw.choice(self.stays)
        self.add("hosp/labs.csv", subject, lab, subject, stay, self.draw.randrange(500, 504), at, at, 1, 1.5, "mg")
        if self.draw.random() < 0.3:
            self.add("ed/triage.csv", subject, lab, "cough")

    def order(self, subject: int) -> None:
        order = f"{subject}-{self.next()}"
        self.add("hosp/orders.csv", subject, subject, order, self.moment(), self.draw.choice(["", order]))
        for _ in range(self.draw.randrange(3)):
            self.add("hosp/drugs.csv", subject, subject, order, "Aspirin", "2150-01-02 10:00:00", self.moment())

    def culture(self, subject: int) -> None:
        specimen = self.draw.randrange(5) if self.draw.random() < 0.1 else self.next()
        at = self.moment()
        for _ in range(self.draw.randrange(1, 4)):
            kinds = self.draw.choice(["BLOOD CULTURE", "Gram Stain"]), self.draw.choice(["E. COLI", ""])
            self.add("hosp/cultures.csv", subject, subject, specimen, 1, f"{at[:10]} 00:00:00", at, at, *kinds)

    def change(self) -> None:
        """Do one thing that a newer release does."""
        people = sorted({subject for lines in self.lines.values() for subject, _ in lines})
        subject = self.draw.choice(people)
        kind = self.draw.randrange(7)
        if kind == 0:
            self.admit(self.draw.choice([each for each in range(500, 900) if each not in people]))
        elif kind == 1:
            self.lines = {name: [row for row in rows if row[0] != subject] for name, rows in self.lines.items()}
        elif kind == 2:
            self.lab(subject, "")
        elif kind == 3:
            self.order(subject)
        else:
            self.touch(kind)

    def touch(self, kind: int) -> None:
        """Withdraw, repeat, move or correct a row of some table."""
        lines = self.lines[self.draw.choice([name for name, rows in self.lines.items() if rows])]
        place = self.draw.randrange(len(lines))
        if kind == 4:
            lines.pop(place)
        elif kind == 5:
            lines.insert(
                self.draw.randrange(len(lines)), lines[place] if self.draw.random() < 0.5 else lines.pop(place)
            )
        else:
            subject, line = lines[place]
            lines[place] = (subject, line.replace("2150-01-0", "2150-01-1").replace("Aspirin", "Heparin"))

    def files(self) -> dict[str, str]:
        files = {
            name: "\n".join([HEADS[name], *(line for _, line in lines)]) + "\n" for name, lines in self.lines.items()
        }
        return {**files, "hosp/d_labs.csv": FILES["hosp/d_labs.csv"]}


def people(store: Path) -> set[int]:
    return set(Store.open(store).subjects.tolist())


@pytest.mark.parametrize("seed", range(often(12, 400)))
def test_whatever_a_release_changes_the_store_is_that_of_reading_everything(tmp_path: Path, seed: int) -> None:
    hospital = Hospital(seed)
    old = hospital.files()
    for _ in range(hospital.draw.randrange(1, 5)):
        hospital.change()
    found = renewed(tmp_path, old, hospital.files())
    before, after = people(tmp_path / "old"), people(tmp_path / "new")
    said = changes(tmp_path / "new")
    assert {who for who, how in said.items() if how == "new"} == after - before
    assert {who for who, how in said.items() if how == "gone"} == before - after
    one, other = Store.open(tmp_path / "old"), Store.open(tmp_path / "new")
    for subject in sorted(before & after):
        same = all(
            one.rows(subject, name, versions=True) == other.rows(subject, name, versions=True) for name in FILES_OF
        )
        assert same == (said.get(subject) != "changed")
    assert found.subjects["same"] == len(before & after) - sum(how == "changed" for how in said.values())


FILES_OF = ("patients", "admissions", "labs", "orders", "drugs", "diagnoses", "cultures", "triage")


def test_a_killed_renewal_continues_and_never_touches_the_earlier_store(tmp_path: Path) -> None:
    spec, settings = small_spec(tmp_path / "spec"), IngestSettings(shards=2)
    before = write_files(tmp_path / "before", FILES)
    labs = FILES["hosp/labs.csv"].replace("7.1,7.1", "7.2,7.2")
    after = write_files(tmp_path / "after", {**FILES, "hosp/labs.csv": labs})
    old = tmp_path / "old"
    ingest(spec, before, old, settings=settings)
    held = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    switch = kill_switch()
    switch.folder, switch.left = tmp_path / "whole", 10_000
    ingest(spec, after, tmp_path / "whole", settings=settings, earlier=old)
    steps, switch.left = 10_000 - switch.left, -1
    assert steps > 100, "the switch has to see the steps"
    for step in drawn(range(steps), 12):
        store = tmp_path / f"killed-{step}"
        switch.folder, switch.left = store, step
        with pytest.raises(Killed):
            ingest(spec, after, store, settings=settings, earlier=old)
        switch.left = -1
        ingest(spec, after, store, settings=settings, earlier=old)
        same_store(tmp_path / "whole", store)
        assert not (store / "building").exists()
        shutil.rmtree(store)
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == held


def made(tmp_path: Path, earlier: Path) -> IngestReport:
    return ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "new", earlier=earlier)


def test_damage_to_the_earlier_store_is_never_taken(tmp_path: Path) -> None:
    raw = write_files(tmp_path / "raw", FILES)
    ingest(small_spec(tmp_path / "spec"), raw, tmp_path / "old")
    notes = tmp_path / "old" / "origin" / "notes.json"
    for path in (*sorted((tmp_path / "old" / "shards").rglob("*")), notes):
        if path.is_file():
            data = path.read_bytes()
            path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
            with pytest.raises(RecordError, match="damaged"):
                made(tmp_path, tmp_path / "old")
            path.write_bytes(data)
    assert made(tmp_path, tmp_path / "old").made_from is not None


def test_a_store_is_not_made_from_itself_nor_from_none(tmp_path: Path) -> None:
    write_files(tmp_path / "raw", FILES)
    with pytest.raises(UserError, match="an earlier store is never changed"):
        made(tmp_path, tmp_path / "new")
    with pytest.raises(UserError, match="there is no store here"):
        made(tmp_path, tmp_path / "none")


def test_the_command_says_what_was_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = write_files(tmp_path / "raw", FILES)
    small_spec(tmp_path / "spec")
    command = ["ingest", "--spec", str(tmp_path / "spec" / "small.toml"), str(raw), "--store"]
    main([*command, str(tmp_path / "old")])
    (raw / "hosp" / "orders.csv").write_text(FILES["hosp/orders.csv"].replace("2150-01-03 10", "2150-01-03 11"))
    capsys.readouterr()
    main([*command, str(tmp_path / "new"), "--earlier", str(tmp_path / "old")])
    said = capsys.readouterr().out
    assert "subjects 0 new, 1 changed, 1 the same, 0 gone" in said
    assert "reused: 7 tables, and 0 of 1 shards whole" in said
    assert "read, changed: orders" in said
