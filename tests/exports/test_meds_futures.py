"""The export in two futures: what was told by a moment is compared, and nothing that was told later."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from wardround.exports import differing_exports
from wardround.records import Store, ingest

SPEC = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.results]
path = "results"
id_columns = ["person", "drawn"]
subject = "person"
event_time = "drawn"
available_at = "told"
[tables.results.columns]
person = "int"
drawn = "time"
told = "time"
value = "float"
"""


def ward(folder: Path, second: str) -> Store:
    folder.mkdir()
    (folder / "ward.toml").write_text(SPEC)
    (folder / "raw").mkdir()
    (folder / "raw" / "results.csv").write_text(
        "person,drawn,told,value\n"
        "1,2150-01-01 06:00,2150-01-01 07:00,4.1\n"
        f"1,2150-01-01 08:00,2150-01-01 09:00,{second}\n"
        f"2,2150-01-01 08:00,2150-01-01 09:00,{second}\n"
    )
    ingest(folder / "ward.toml", folder / "raw", folder / "store")
    return Store.open(folder / "store")


@pytest.mark.parametrize(("as_of", "events", "differing"), [("08:59", 1, 0), ("09:00", 2, 1)])
def test_a_result_counts_from_when_it_was_told(tmp_path: Path, as_of: str, events: int, differing: int) -> None:
    """Drawn at 8 and told at 9, it is 5.2 in one future and 6.3 in the other; nobody asks of the second person."""
    here, there = ward(tmp_path / "here", "5.2"), ward(tmp_path / "there", "6.3")
    (subject, _) = here.subjects.tolist()
    found = differing_exports(here, there, {subject: datetime.fromisoformat(f"2150-01-01 {as_of}")})
    assert found.compared["exported events"] == events
    assert len(found.differences) == sum(found.places.values()) == differing
    for words in found.differences:
        assert "5.2" in words.partition(" in the other future ")[0]
        assert "6.3" in words.partition(" in the other future ")[2]


def test_an_event_that_one_future_alone_has_is_a_difference(tmp_path: Path) -> None:
    here, there = ward(tmp_path / "here", "5.2"), ward(tmp_path / "there", "")
    moment = {here.subjects.tolist()[0]: datetime(2150, 1, 1, 10)}
    assert len(differing_exports(here, there, moment).differences) == 1
    assert differing_exports(here, here, moment).differences == []
