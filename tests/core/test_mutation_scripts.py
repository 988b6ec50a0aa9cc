"""The mutation sample: where a module can be changed, what is set aside and still there, and how sure a rate is."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
SOURCE = SCRIPTS.parent / "src" / "wardround"
sys.path.insert(0, str(SCRIPTS))

from mutation_sample import Coverage, wilson  # noqa: E402
from mutation_sites import Equivalents, mutations, sites  # noqa: E402

TEXT = """
LIMIT: int = 5

def f(a: int, b: str = "x") -> bool:
    \"\"\"No place for a fault.\"\"\"
    return a < LIMIT and b == f"{a + 1}"
"""


def changed(source: str, equivalents: Equivalents | None = None) -> set[tuple[str, str]]:
    listed = equivalents or Equivalents(constants={}, expressions={}, keywords={})
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
    listed = Equivalents(constants={"r.m": {"LIMIT": "why"}}, expressions={"r.m": {"a < LIMIT": "why"}}, keywords={})
    assert {before for before, _ in changed(TEXT, listed)} == {'a < LIMIT and b == f"{a + 1}"', 'b == f"{a + 1}"'}


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


@pytest.mark.parametrize(("killed", "total", "low", "high"), [(53, 70, 0.645, 0.842), (340, 400, 0.812, 0.882)])
def test_the_interval_of_a_rate_is_wilsons(killed: int, total: int, low: float, high: float) -> None:
    assert wilson(killed, total) == pytest.approx((low, high), abs=5e-4)


def test_durations_are_read_from_pytests_own_list(tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text("x\n0.50s call     tests/a.py::b[c d]\n9.00s setup    tests/a.py::b[c d]\n")
    (tmp_path / "c").write_bytes(b"")
    coverage = Coverage(tmp_path / "c", tmp_path / "d.txt")
    assert (coverage.seconds("tests/a.py::b[c d]"), coverage.seconds("tests/a.py::other")) == (0.5, 0.01)
