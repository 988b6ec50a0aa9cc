"""Which events have words, what is left out for having none, and passages of more than one period."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest

from tools.retrieval.histories import ChosenEncoder, Row, day, history
from wardround.records import Store, load_source_spec
from wardround.tools.retrieval import EvidenceIndex, LexicalEncoder, RetrievalSettings, described_codes
from wardround.tools.retrieval.chunks import described, spread_out, tells

ROWS = [
    Row(name="Lab", time=day(1), kind="order", code="mimic-order//Lab"),
    Row(name="Lab", time=day(2), kind="order", code="mimic-order//Lab", text="Routine chemistry"),
    Row(name="Hemodialysis", time=day(3), kind="order", code="mimic-order//Hemodialysis"),
    Row(name="events", time=day(4), kind="medication given"),
    Row(name="Lab", time=day(5), kind="procedure", code="x//Lab"),
    Row(name="LAB//50912", time=day(6), code="LAB//50912"),
    Row(name="Sodium", time=day(7), value=140.0, code="LAB//1"),
]


CLASSES = [("order", "Lab")]


def test_lines_that_say_nothing_are_left_out_and_counted() -> None:
    assert tells(history(ROWS, classes=CLASSES)).tolist() == [False, True, True, False, True, True, True]
    index = EvidenceIndex(history(ROWS, classes=CLASSES), as_of=day(9), encoder=LexicalEncoder(64))
    [passage] = index.text_evidence("order")
    assert [line.partition("] ")[2] for line in passage.lines] == [
        "order - Lab (value: Routine chemistry)",
        "order - Hemodialysis",
        "procedure - Lab",
        "lab - LAB//50912",
    ]
    assert index.lines_left_out == 2
    assert [line.partition("] ")[2] for line in index.nearest("order")[0].lines] == [
        "order - Lab (value: Routine chemistry)",
        "order - Hemodialysis",
        "procedure - Lab",
        "lab - LAB//50912",
        "lab - Sodium (value: 140)",
    ], "direct generation and the rivals read what says something too"
    whole = EvidenceIndex(
        history(ROWS, classes=CLASSES),
        as_of=day(9),
        encoder=LexicalEncoder(64),
        settings=RetrievalSettings(lines="all"),
    )
    assert len(whole.text_evidence("order")[0].lines) == 6
    assert len(whole.nearest("order")[0].lines) == 7


def test_what_is_only_a_class_is_said_by_the_source_s_spec(synthetic_store: Store) -> None:
    """Orders of MIMIC-IV: Lab without a subtype says nothing; where no spec says so, everything does."""
    assert tells(history([Row(name="Lab", time=day(1), kind="order")])).tolist() == [True]
    subject = int(synthetic_store.subjects[0])
    columns = synthetic_store.chart(subject, datetime(2300, 1, 1)).event_columns()
    silent_rows = ~tells(columns) & ~columns.notes.shown_elsewhere
    silent = {columns.descriptions[concept] for concept in columns.concept[silent_rows].tolist()}
    orders = {name for name in silent if name in synthetic_store.spec.tables["poe"].classes}
    assert orders
    assert silent - orders <= set(columns.table_names)
    assert not load_source_spec("omop").tables["drug_exposure"].classes


def test_a_code_that_is_its_own_description_has_no_words() -> None:
    columns = history(ROWS)
    by_code = dict(zip(columns.codes, described(columns).tolist(), strict=True))
    assert by_code["mimic-order//Lab"]
    assert not by_code["LAB//50912"]
    assert not by_code["events"], "the name of a table"
    assert described_codes([columns, columns]) == (4, 6)
    assert described_codes([]) == (0, 0)


def test_the_lexical_encoder_offers_the_model_more_names() -> None:
    rows = [Row(name=f"Test {n}", time=day(n / 100), value=1.0) for n in range(200)]
    lexical = EvidenceIndex(history(rows), as_of=day(9), encoder=LexicalEncoder(64))
    dense = EvidenceIndex(history(rows), as_of=day(9), encoder=ChosenEncoder({}))
    assert (len(lexical.coarse_indicators("query")), len(dense.coarse_indicators("query"))) == (150, 30)


def test_passages_of_one_period_make_room_for_those_of_others() -> None:
    old = [Row(name=f"angina {n}", time=day(n), kind="diagnosis") for n in range(40)]
    new = [Row(name=f"angina mild {n}", time=day(1_100 + n), kind="diagnosis") for n in range(4)]
    chosen = ChosenEncoder({"mild": 0.74, "angina": 0.8})
    own = {"chunk_rows": 2, "overlap": 0, "alpha": 1.0}

    def found(spread: str) -> list[int]:
        settings = RetrievalSettings(spread=spread, **own)  # type: ignore[arg-type]
        index = EvidenceIndex(history(old + new), as_of=day(1_200), encoder=chosen, settings=settings)
        return [(passage.start - day(0)).days for passage in index.text_evidence("query") if passage.start]

    assert all(start < 100 for start in found("none")), "all five of the first stay"
    assert all(start < 100 for start in found("auto")), "a dense encoder ranks as printed"
    assert {start > 1_000 for start in found("periods")} == {True, False}


def test_spreading_by_hand() -> None:
    times = np.array([0, 10, 20, 500, 900], np.int64) * 86_400_000_000
    score = np.array([0.9, 0.85, 0.8, 0.72, 0.3])
    assert spread_out(score, times, 3).tolist() == [0, 1, 3], "0.9; 0.75 of the same period; then 0.72 before 0.6"
    assert spread_out(score, times, 9).tolist()[-1] in (2, 4)
    assert len(spread_out(score, times, 9)) == 5
    assert spread_out(score[:0], times[:0], 3).tolist() == []


@pytest.mark.parametrize("wrong", [{"spread": "wide"}, {"lines": "some"}, {"coarse_lexical": 0}])
def test_settings_out_of_range_are_refused(wrong: dict[str, object]) -> None:
    from wardround.core import UserError

    with pytest.raises(UserError):
        RetrievalSettings(**wrong)  # type: ignore[arg-type]
