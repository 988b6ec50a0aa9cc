"""Experiences as prompt text, and keys of charts."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from memory_doubles import lesson, patient

from wardround.core import UserError
from wardround.memory import KINDS, Bank, KeyEncoder, Kind, Subject, chart_key, render_experiences, text_key
from wardround.records import Store
from wardround.tools.retrieval import LexicalEncoder


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_its_block(tmp_path: Path, kind: Kind) -> None:
    tool = "run_sql_query" if kind == "tool" else ""
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        some = [lesson(bank, f"title {number}", 1, kind=kind, tool=tool) for number in range(3)]
    served = render_experiences(some)
    assert all(f"title {number}" in served.text and f"Do title {number}" in served.text for number in range(3))
    assert tool in served.text
    assert served.shown == tuple(one.id for one in some)
    assert served.prompt is not None
    assert served.prompt.name == f"memory/served_{kind}"
    assert "sample-1" not in served.text


def test_what_has_no_room_is_left_out_whole_and_named(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        some = [lesson(bank, f"title {number}", 1, content="long " * 100) for number in range(3)]
    whole = render_experiences(some)
    served = render_experiences(some, max_tokens=whole.tokens - 10)
    assert served.shown == tuple(one.id for one in some[:2])
    assert served.facts()["left_out"] == [some[2].id]
    assert served.tokens <= whole.tokens - 10
    assert "title 2" not in served.text
    none = render_experiences(some, max_tokens=5)
    assert (none.text, none.shown, len(none.left_out)) == ("", (), 3)
    assert render_experiences([]).text == ""


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank, pytest.raises(UserError, match="actor, summariser"):
        render_experiences([lesson(bank, "a", 1), lesson(bank, "b", 1, kind="summariser")])


def test_a_chart_finds_the_chart_it_looks_like(tmp_path: Path, synthetic_store: Store) -> None:
    """Kept under one day's chart, asked for by the next day's: its own key is the nearest, and is withheld from it."""
    encoder = LexicalEncoder()
    subjects = [int(subject) for subject in synthetic_store.subjects[:12]]
    late = datetime(2200, 1, 1)
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        for subject in subjects:
            chart = synthetic_store.chart(subject, late)
            bank.add([lesson(bank, f"of {subject}", subject)], key=chart_key(encoder, chart))
        for subject in subjects[:4]:
            chart = synthetic_store.chart(subject, late)
            asked = chart_key(encoder, chart)
            assert Subject.of_chart(chart) == patient(subject)
            stranger = bank.search(asked, kind="actor", for_subject=patient(1))
            assert [one.title for one in stranger.experiences] == [f"of {subject}"]
            own = bank.search(asked, kind="actor", for_subject=Subject.of_chart(chart))
            assert len(own.experiences) == 1
            assert own.experiences[0].title != f"of {subject}"


class ShortEncoder(LexicalEncoder):
    """Reads 200 tokens at most."""

    max_tokens = 200  # type: ignore[assignment]


def test_a_chart_is_cut_to_what_the_encoder_reads(synthetic_store: Store) -> None:
    chart = synthetic_store.chart(int(synthetic_store.subjects[0]), datetime(2200, 1, 1))
    whole, short = chart_key(LexicalEncoder(), chart), chart_key(ShortEncoder(), chart)
    assert whole.text_hash != short.text_hash
    again = chart_key(KeyEncoder(LexicalEncoder(), 200), chart)
    assert (again.text_hash, again.encoder) == (short.text_hash, "lexical-1-1024-of-200-tokens")
    assert chart_key(KeyEncoder(ShortEncoder(), 4_000), chart).text_hash == short.text_hash
    assert text_key(LexicalEncoder(), "\ud800").encoder == "lexical-1-1024"
