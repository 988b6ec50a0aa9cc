"""The mutation sample: where a module can be changed, what is set aside and still there, and how sure a rate is."""

from __future__ import annotations

import ast
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SOURCE = SCRIPTS.parent / "src" / "wardround"
sys.path.insert(0, str(SCRIPTS))

from mutation_sample import Coverage, wilson  # noqa: E402
from mutation_server import packages_below  # noqa: E402
from mutation_sites import NONE, Equivalents, mutations, sites  # noqa: E402

TEXT = """
LIMIT: int = 5

def f(a: int, b: str = "x") -> bool:
    \"\"\"No place for a fault.\"\"\"
    return a < LIMIT and b == f"{a + 1}"
"""


def changed(source: str, equivalents: Equivalents | None = None) -> set[tuple[str, str]]:
    listed = equivalents or NONE
    found = (mutation for node in sites(source, Path("r/m.py"), listed) for mutation in mutations(source, node, listed))
    return {(mutation.before, mutation.after) for mutation in found}


def test_a_fault_is_one_small_step_and_texts_are_left_alone() -> None:
    assert changed(TEXT) == {
        ("5", "6"),
        ("5", "4"),
        ('a < LIMIT and b == f"{a + 1}"', "None"),
        ('a < LIMIT and b == f"{a + 1}"', "(a < LIMIT or b == f'{a + 1}')"),
        ("a < LIMIT", "(a <= LIMIT)"),
        ("a < LIMIT", "(a >= LIMIT)"),
        ('b == f"{a + 1}"', "(b != f'{a + 1}')"),
    }


def test_what_is_set_aside_is_not_gone_into() -> None:
    listed = replace(NONE, constants={"r.m": {"LIMIT": "why"}}, expressions={"r.m": {"a < LIMIT": "why"}})
    assert {before for before, _ in changed(TEXT, listed)} == {'a < LIMIT and b == f"{a + 1}"', 'b == f"{a + 1}"'}


def test_a_rate_is_set_aside_and_what_hangs_on_it_is_not() -> None:
    text = "if not dice.chance(0.5 + 0.1):\n    a = 7\nb = 1 if dice.chance(0.2) and c else dice.whole(1, 2)"
    listed = replace(NONE, rates={"r": {"chance": "why"}})
    of_rates = {"0.5 + 0.1", "0.5", "0.1", "0.2", "not dice.chance(0.5 + 0.1)"}
    assert {before for before, _ in changed(text)} - {before for before, _ in changed(text, listed)} == of_rates
    assert ("7", "8") in changed(text, listed)
    assert ("dice.chance(0.2) and c", "(dice.chance(0.2) or c)") in changed(text, listed)


def test_everything_that_is_set_aside_is_there() -> None:
    listed = Equivalents.read()
    for module in {*listed.constants, *listed.expressions}:
        (path,) = SOURCE.rglob("/".join(module.split(".")) + ".py")
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        assert listed.constants.get(module, {}).keys() <= names, module
        texts = {ast.unparse(node) for node in nodes if isinstance(node, ast.expr | ast.stmt)}
        wanted = {ast.unparse(ast.parse(text)) for text in listed.expressions.get(module, {})}
        assert wanted <= texts, module
    for package, methods in listed.rates.items():
        text = "".join(path.read_text() for path in (SOURCE / package).rglob("*.py"))
        assert all(f".{method}(" in text for method in methods), package


@pytest.mark.parametrize(("killed", "total", "low", "high"), [(53, 70, 0.645, 0.842), (340, 400, 0.812, 0.882)])
def test_the_interval_of_a_rate_is_wilsons(killed: int, total: int, low: float, high: float) -> None:
    assert wilson(killed, total) == pytest.approx((low, high), abs=5e-4)


def test_durations_are_read_from_pytests_own_list(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("x\n0.50s call     tests/a.py::b[c d]\n9.00s setup    tests/a.py::b[c d]\n")
    (tmp_path / "c").write_bytes(b"")
    coverage = Coverage(tmp_path / "c", tmp_path / "d.txt")
    assert (coverage.seconds("tests/a.py::b[c d]"), coverage.seconds("tests/a.py::other")) == (0.5, 0.01)


def test_what_runs_on_import_is_looked_at_by_all_of_the_room(tmp_path: Path) -> None:
    """Line 1 runs when the module is imported, line 3 in a test of another room, line 4 in a fixture."""
    times = {"tests/runs/a.py::t": 0.3, "tests/runs/b.py::u": 0.1, "tests/cli/c.py::v": 0.2, "tests/cli/c.py::w": 0.1}
    (tmp_path / "d.txt").write_text("".join(f"{seconds}s call {name}\n" for name, seconds in times.items()))
    data = sqlite3.connect(tmp_path / "c")
    data.executescript(
        "CREATE TABLE file (id, path); CREATE TABLE context (id, context);"
        "CREATE TABLE line_bits (file_id, context_id, numbits);"
        "INSERT INTO file VALUES (1, '/x/src/wardround/runs/m.py');"
        "INSERT INTO context VALUES (1, ''), (2, 'tests/cli/c.py::v|run'), (3, 'tests/runs/a.py::t|setup');"
        "INSERT INTO line_bits VALUES (1, 1, X'02'), (1, 2, X'08'), (1, 3, X'10')"
    )
    data.commit()
    coverage = Coverage(tmp_path / "c", tmp_path / "d.txt")
    found = {line: coverage.tests("src/wardround/runs/m.py", line) for line in (1, 2, 3, 4)}
    assert found == {
        1: ["tests/runs/b.py::u", "tests/cli/c.py::v", "tests/runs/a.py::t"],
        2: [],
        3: ["tests/cli/c.py::v"],
        4: ["tests/runs/a.py::t", "tests/runs/b.py::u"],
    }


def test_what_a_mutant_cannot_change_is_what_may_not_import_its_room() -> None:
    project = SCRIPTS.parent / "pyproject.toml"
    assert packages_below("core", project) == []
    assert packages_below("clinical", project) == ["wardround.core"]
    assert packages_below("log", project)[-3:] == ["wardround.records", "wardround.audits", "wardround.exports"]
    for room in (path.parent.name for path in SOURCE.glob("*/__init__.py")):
        assert not any(name.startswith(f"wardround.{room}.") for name in packages_below(room, project)), room
