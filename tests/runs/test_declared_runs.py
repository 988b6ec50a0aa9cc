"""The settings of runs and what their results begin with, held against the table of all that is declared."""

from __future__ import annotations

import pytest

from declared import beginnings_of, declared, defaults_of, settings_of
from wardround.learning.constructing import Construction, ConstructionSettings
from wardround.learning.evolve import Evolution
from wardround.learning.evolving import StreamEvolution
from wardround.learning.induction import InductionSettings
from wardround.learning.validation import Reliability
from wardround.memory.construction import LinkSettings
from wardround.runs.settings import SECTIONS


@pytest.mark.parametrize(("name", "section"), [*SECTIONS.items(), ("induction", InductionSettings)])
def test_a_section_has_the_settings_of_the_table(name: str, section: type) -> None:
    assert settings_of(section) == declared()[name]


@pytest.mark.parametrize("kind", [Construction, StreamEvolution, Reliability, Evolution])
def test_what_is_counted_begins_at_nothing(kind: type) -> None:
    assert beginnings_of(kind) == {}


def test_a_construction_asks_a_model_and_takes_the_tasks_own_success() -> None:
    assert defaults_of(ConstructionSettings) == {"success": None, "rules": False, "link": LinkSettings()}
