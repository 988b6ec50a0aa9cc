"""Export and import: what was served is served again, to whom it may be; what was forgotten stays so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from memory_doubles import key, lesson, origin, patient, served_hash

from wardround.cli.main import main
from wardround.core import UserError
from wardround.memory import Bank, Edge, Entity, RecallQuestion, export_bank, forget, import_bank


def filled(path: Path) -> tuple[str, str]:
    with Bank.open(path) as bank:
        a, b = (
            lesson(bank, title, number, kind="indication", entities=(Entity(name=f"{title} sign", role="condition"),))
            for number, title in enumerate(("alpha", "beta"), start=1)
        )
        bank.add([a], key=replace(key(1, 0), text_hash="of a chart"))
        bank.add([b], key=key(0, 1))
        bank.add([lesson(bank, "old", 3)])
        bank.retire(bank.experiences()[-1].id, reason="gone")
        bank.revise(a.id, content="better", by=origin(bank, 7), reason="r")
        bank.set_graph(qualities={a.id: 0.7}, edges=[Edge(source=a.id, target=b.id, weight=0.5)], reason="built")
        bank.add_alias("alpha sign", of="beta sign", reason="same")
    return a.id, b.id


def test_what_was_served_is_served_again_under_the_same_guards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other, lines = tmp_path / "one.sqlite", tmp_path / "other.sqlite", tmp_path / "bank.jsonl"
    a, _ = filled(one)
    assert main(["memory", "export", str(one), str(lines)]) == 0
    assert main(["memory", "import", str(other), str(lines)]) == 0
    assert "2 experiences, 1 edges and 1 aliases came in" in capsys.readouterr().out
    assert lines.stat().st_mode & 0o077 == 0
    again = tmp_path / "again.jsonl"
    assert main(["memory", "export", str(other), str(again)]) == 0
    read = [list(map(json.loads, file.read_text(encoding="utf-8").splitlines())) for file in (lines, again)]
    first_keys, second_keys = ([line["key"] for line in several if "key" in line] for several in read)
    assert {one["text_hash"] for one in first_keys} == {"of a chart", ""}
    assert first_keys == second_keys, "encoder, vector and the hash of the text"
    with Bank.open(one) as first, Bank.open(other) as second:
        assert served_hash(first) == served_hash(second)
        asked = RecallQuestion(text="better", key=key(1, 0))
        for bank in (first, second):
            assert bank.seeds(asked, for_subject=patient(9)).experiences[0].id == a
            assert a not in [one.id for one in bank.seeds(asked, for_subject=patient(7)).experiences], "who revised it"
            assert a not in [one.id for one in bank.seeds(asked, for_subject=patient(1)).experiences]
        twice = import_bank(second, lines)
        assert (twice.experiences, twice.refused, twice.edges) == (0, 2, 0)
        forget(second, a, reason="asked for")
        assert (import_bank(second, lines).experiences, second.holds(a)) == (0, False)
    with pytest.raises(UserError, match="exists already"), Bank.open(one) as first:
        export_bank(first, lines)


def test_banks_that_write_subjects_differently_are_not_mixed_and_other_files_are_refused(tmp_path: Path) -> None:
    one, other, lines = tmp_path / "one.sqlite", tmp_path / "other.sqlite", tmp_path / "bank.jsonl"
    filled(one)
    filled(other)
    with Bank.open(one) as bank:
        export_bank(bank, lines)
    with Bank.open(other) as bank:
        before = bank.revision
        with pytest.raises(UserError, match="under another key"):
            import_bank(bank, lines)
        assert bank.revision == before
        for text in ("", "{", "[]", json.dumps({"format": "other"})):
            lines.write_text(text)
            with pytest.raises(UserError, match="wardround memory export"):
                import_bank(bank, lines)
