"""The settings of runs and what their results begin with, held against the table of all that is declared."""

from __future__ import annotations

import pytest

from declared import declared, defaults_of, settings_of
from wardround.runs.construction import Construction, ConstructionSettings
from wardround.runs.evolving import StreamEvolution
from wardround.runs.induction import InductionSettings
from wardround.runs.reliability import Reliability
from wardround.runs.settings import PlayedSection


@pytest.mark.parametrize(("name", "section"), [("run", PlayedSection), ("induction", InductionSettings)])
def test_a_section_has_the_settings_of_the_table(name: str, section: type) -> None:
    assert settings_of(section) == declared()[name]


@pytest.mark.parametrize("kind", [Construction, ConstructionSettings, StreamEvolution, Reliability])
def test_what_is_counted_begins_as_the_table_says(kind: type) -> None:
    assert defaults_of(kind) == declared()[kind.__name__]
