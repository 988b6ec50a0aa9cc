"""Sources of one's own: every clock fault planted in two foreign hospitals is found, and none where there is none."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from foreign_hospitals import FOREIGN, kreisklinik, stadtspital
from wardround.audits import SwapReport, audit_plausibility, audit_swap
from wardround.audits.own import knowledge_questions, read_knowledge
from wardround.audits.swap.knowledge import KnowledgeRule
from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store, ingest, load_source_spec
from wardround.tasks.benchmarks.other_futures import differing_questions

LATE = '"entlassung, fachabteilung, verweildauer, entlassungsart" = "entlassung"'
FAULTS: Mapping[str, tuple[str, str, str, str]] = {
    "lab at draw": ("kreisklinik", 'available_at = "befund_am"', 'available_at = "abnahme"', "labor.wert"),
    "unit and length of stay at admission": (
        "kreisklinik",
        LATE,
        '"entlassung, entlassungsart" = "entlassung"',
        "faelle.verweildauer",
    ),
    "disposition at arrival": (
        "kreisklinik",
        LATE,
        '"entlassung, fachabteilung, verweildauer" = "entlassung"',
        "faelle.entlassungsart",
    ),
    "key at arrival": ("kreisklinik", 'fallnr = "known(fallnr, faelle)"\n', "", "notaufnahme.fallnr"),
    "status at order": ("kreisklinik", '"beendet, status" = "beendet"', 'beendet = "beendet"', "verordnungen.status"),
    "results that nobody released, at the draw": (
        "kreisklinik",
        'available_at = "befund_am"',
        'available_at = "first(befund_am, abnahme)"',
        "labor.wert",
    ),
    "report when taken": (
        "kreisklinik",
        'available_at = "befundet"',
        'available_at = "untersucht"',
        "berichte.befundtext",
    ),
    "stop at order": ("kreisklinik", '"beendet, status" = "beendet"', 'status = "beendet"', "verordnungen.beendet"),
    "destination at admission": ("kreisklinik", '"bis, ziel" = "bis"', 'bis = "bis"', "verlegungen.ziel"),
    "lab at draw, second hospital": (
        "stadtspital",
        'available_at = "freigegeben"',
        'available_at = "entnommen"',
        "werte.ergebnis",
    ),
    "stop at order, second hospital": ("stadtspital", 'bis = "bis"\n\n', "", "anordnungen.bis"),
    "day of death at birth, second hospital": ("stadtspital", 'todestag = "todestag"\n', "", "personen.todestag"),
}


@dataclass(frozen=True, slots=True)
class Hospital:
    """Its files, a store under its own spec, its answers, and moments that know nothing of any clock."""

    raw: Path
    store: Store
    knowledge: Path
    moments: list[tuple[int, object]]


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Hospital]:
    folder = tmp_path_factory.mktemp("foreign")
    found = {}
    for name, write, arrivals in (
        ("kreisklinik", kreisklinik, ("notaufnahme", "ankunft")),
        ("stadtspital", stadtspital, ("aufenthalte", "beginn")),
    ):
        raw = write(folder / name, patients=12)
        ingest(load_source_spec(FOREIGN / f"{name}.toml"), raw, folder / f"{name}-store")
        store, chance = Store.open(folder / f"{name}-store"), random.Random(11)
        moments: list[tuple[int, object]] = []
        for subject in store.subjects.tolist():
            for at in store.rows(subject, arrivals[0]).column(arrivals[1]).to_pylist():
                moments.append((subject, at + timedelta(minutes=chance.randrange(45 * 60))))
        found[name] = Hospital(raw, store, FOREIGN / f"{name}.knowledge.toml", moments)
    return found


def swapped(hospital: Hospital, store: Store) -> SwapReport:
    return audit_swap(store, hospital.moments, hospital.raw, knowledge=hospital.knowledge)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["kreisklinik", "stadtspital"])
def test_a_hospital_whose_clocks_are_right_is_clean(hospitals: dict[str, Hospital], name: str) -> None:
    hospital = hospitals[name]
    report = audit_plausibility(hospital.store, knowledge=hospital.knowledge)
    assert report.clean, report.as_text()
    assert sum(report.looked.values()) > 2_000
    assert not report.skipped
    swap = swapped(hospital, hospital.store)
    assert swap.clean, swap.as_text()
    assert swap.changed_rows > swap.raw_rows / 4, "another future, not the same one"
    assert not swap.uncovered
    assert not swap.unruled


def test_people_who_were_merged_are_one_person(hospitals: dict[str, Hospital]) -> None:
    first, second = hospitals["kreisklinik"].store, hospitals["stadtspital"].store
    assert first.person_of(901) == first.person_of(3) == 3
    assert second.person_of(second.subject_of("P-900")) == second.person_of(second.subject_of("P-004"))
    assert len({second.person_of(int(subject)) for subject in second.subjects}) == len(second.subjects) - 1


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_clock_fault_is_found(hospitals: dict[str, Hospital], tmp_path: Path, fault: str) -> None:
    name, now, then, column = FAULTS[fault]
    text = (FOREIGN / f"{name}.toml").read_text(encoding="utf-8")
    assert now in text
    (tmp_path / "faulty.toml").write_text(text.replace(now, then), encoding="utf-8")
    ingest(load_source_spec(tmp_path / "faulty.toml"), hospitals[name].raw, tmp_path / "store")
    store = Store.open(tmp_path / "store")
    report = audit_plausibility(store, knowledge=hospitals[name].knowledge)
    assert report.found[f"{column} shown before it could be known"] > 0, report.as_text()
    of_it = [text for text in report.examples if f": {column} shown before" in text]
    assert 1 <= len(of_it) <= 3, "examples of everything that was found, not twenty of one thing"
    swap = swapped(hospitals[name], store)
    assert not swap.tables[column.partition(".")[0]].clean, swap.as_text()


@pytest.mark.parametrize("name", ["kreisklinik", "stadtspital"])
def test_the_questions_of_an_own_source_are_asked_in_both_futures(
    hospitals: dict[str, Hospital], tmp_path: Path, name: str
) -> None:
    """Stays that have begun end in both futures, whether a column says so or a row, and without words for a death."""
    text = hospitals[name].knowledge.read_text(encoding="utf-8")
    exchange = '[files.faelle.exchange]\nentlassungsart = ["verstorben", "nach Hause"]\n'
    assert (exchange in text) == (name == "kreisklinik")
    (tmp_path / "answers.toml").write_text(text.replace(exchange, ""), encoding="utf-8")
    moments, store = hospitals[name].moments[:12:2], hospitals[name].store
    stores = [differing_questions]
    swap = audit_swap(store, moments, hospitals[name].raw, knowledge=tmp_path / "answers.toml", stores=stores)  # type: ignore[arg-type]
    assert swap.clean, swap.as_text()
    assert swap.compared["questions of guo_los"] >= 5
    assert swap.compared["questions of labevents"] > 10


def test_without_a_second_person_the_roles_still_find_an_early_key(
    hospitals: dict[str, Hospital], tmp_path: Path
) -> None:
    _, now, then, _ = FAULTS["key at arrival"]
    text = (FOREIGN / "kreisklinik.toml").read_text(encoding="utf-8").replace(now, then)
    (tmp_path / "faulty.toml").write_text(text, encoding="utf-8")
    ingest(load_source_spec(tmp_path / "faulty.toml"), hospitals["kreisklinik"].raw, tmp_path / "store")
    report = audit_plausibility(Store.open(tmp_path / "store"))
    assert report.found["notaufnahme.fallnr before what it names"] == 24
    assert "no second person was asked" in report.as_text()


def test_the_swap_of_an_own_source_says_whom_to_ask(hospitals: dict[str, Hospital]) -> None:
    hospital = hospitals["stadtspital"]
    with pytest.raises(UserError, match="wardround spec knowledge SPEC --out FILE, then --knowledge FILE"):
        audit_swap(hospital.store, hospital.moments[:1], hospital.raw)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["kreisklinik", "stadtspital"])
def test_the_questions_name_every_column_and_no_clock(name: str) -> None:
    spec = load_source_spec(FOREIGN / f"{name}.toml")
    text = knowledge_questions(spec)
    for table in spec.tables.values():
        part = text.partition(f"[files.{table.name}]")[2].partition("[files.")[0]
        columns = text.partition(f"[files.{table.name}.cells]")[2].partition("[files.")[0]
        assert part.count("row = ") == 1
        for column in set(table.columns) - {table.subject, *table.key}:
            assert f"\n{column} = " in columns
    # The questions of the same tables under other clocks are the same questions.
    clocks = {f'available_at = "{word}"' for word in ("befund_am", "befundet", "freigegeben", "von", "zeit")}
    other = (FOREIGN / f"{name}.toml").read_text(encoding="utf-8")
    for clock in clocks:
        other = other.replace(clock, 'available_at = "never"')
    assert knowledge_questions(load_from(other)) == text


def load_from(text: str):  # type: ignore[no-untyped-def]
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "other.toml").write_text(text, encoding="utf-8")
        return load_source_spec(Path(folder) / "other.toml")


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ('row = "abnahme"', 'row = "TODO: when?"', "files.labor.row: TODO"),
        ('row = "abnahme"', 'row = "abname"', "files.labor.row: 'abname': no column 'abname'; did you mean 'abnahme'?"),
        ('fallnr = "faelle.aufnahme by fallnr"', 'fallnr = "faelle.anfang by fallnr"', "no anchor 'faelle.anfang'"),
        ('"beendet, status" = "beendet"', 'beendet = "beendet"', "nobody says when 'status' could be read"),
        ('"beendet, status" = "beendet"', '"beendet, statuus" = "row"', "no column 'statuus'; did you mean 'status'?"),
        ("[files.berichte]", "[files.bericht]", "files.bericht: no such table"),
        ('name = "kreisklinik"', 'name = "klinik"', "the store's source is 'kreisklinik'"),
        ('answered_by = "a nurse of the Kreisklinik"', "", "say who answered"),
        ('bis, ziel" = "bis"', 'bis, ziel" = "bis + 2 weeks"', "is no answer"),
    ],
)
def test_an_answer_that_cannot_be_used_is_named(tmp_path: Path, now: str, then: str, said: str) -> None:
    text = (FOREIGN / "kreisklinik.knowledge.toml").read_text(encoding="utf-8")
    assert now in text
    (tmp_path / "answers.toml").write_text(text.replace(now, then), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_knowledge(tmp_path / "answers.toml", load_source_spec(FOREIGN / "kreisklinik.toml"))
    assert said in str(error.value)


def test_stays_that_have_begun_end_in_the_other_future_too() -> None:
    """Where the end is a column it moves and is not emptied; where begin and end are rows, those rows stay."""

    def rules(name: str, file: str) -> Sequence[KnowledgeRule]:
        spec = load_source_spec(FOREIGN / f"{name}.toml")
        return read_knowledge(FOREIGN / f"{name}.knowledge.toml", spec).of(file) or ()

    (stay,) = rules("kreisklinik", "Faelle")
    assert (stay.moved, stay.keep_rows) == ({"entlassung"}, False)
    ends, others = rules("stadtspital", "bewegungen")
    assert (ends.keep_rows, others.keep_rows) == (True, False)
    assert "art" in ends.links - others.links
    assert not any(rule.moved or rule.keep_rows for rule in rules("kreisklinik", "Vitalwerte"))


def test_the_commands_ask_check_and_use_the_answers(
    hospitals: dict[str, Hospital], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, asked = str(FOREIGN / "kreisklinik.toml"), str(tmp_path / "asked.toml")
    assert main(["spec", "knowledge", spec, "--out", asked]) == 0
    assert main(["spec", "knowledge", spec, "--check", asked]) == 2
    assert "source.answered_by: TODO" in capsys.readouterr().err
    answers = str(FOREIGN / "kreisklinik.knowledge.toml")
    assert main(["spec", "knowledge", spec, "--check", answers]) == 0
    hospital = hospitals["kreisklinik"]
    store, raw = str(hospital.store.path), str(hospital.raw)
    assert main(["audit", "plausibility", "--store", store, "--knowledge", answers]) == 0
    subject, at = hospital.moments[0]
    sample = ["--sample", f"{subject},{at:%Y-%m-%dT%H:%M}"]
    assert main(["audit", "leaks", "--store", store, "--raw", raw, "--swap", "--knowledge", answers, *sample]) == 0
    assert "what could be known when: by a nurse of the Kreisklinik" in capsys.readouterr().out
    assert (
        main(["audit", "leaks", "--store", str(hospitals["stadtspital"].store.path), "--sample", "P-003,2021-02-03"])
        == 0
    )
    assert (
        main(["audit", "leaks", "--store", str(hospitals["stadtspital"].store.path), "--sample", "P-3,2021-02-03"]) == 2
    )
