"""Registries: names to things, entry points looked up late, plug-in files imported once."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from wardround.core import Registry, UserError, changed_plugins, load_plugins, loaded_plugins, must_be_loaded
from wardround.core.registry import find_backend


class Spice:
    """Something to eat."""

    def __init__(self, title: str = "") -> None:
        self.title = title


def spices() -> Registry[Spice]:
    registry: Registry[Spice] = Registry("spices", one="spice", of=Spice)
    registry.add("pepper", Spice("hot"))
    registry.add("cumin", Spice())
    return registry


def test_a_name_gives_its_thing_and_a_listing_says_what_each_is() -> None:
    registry = spices()
    thing = Spice("yellow")
    assert registry.add("saffron", thing) is thing
    assert registry.get("saffron") is thing
    assert registry.names == ("pepper", "cumin", "saffron")
    assert [entry.title for entry in registry] == ["hot", "Something to eat.", "yellow"]


def test_a_decorator_registers_what_it_stands_before() -> None:
    registry: Registry[Callable[[], int]] = Registry("numbers", one="number")

    @registry.named("seven")
    def seven() -> int:
        """The number of days."""
        return 7

    assert registry.get("seven") is seven
    assert [(entry.name, entry.title) for entry in registry] == [("seven", "The number of days.")]


def test_an_unknown_name_gets_one_line_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"^there is no spice 'peper'\. Did you mean pepper\? There are: pepper, cum"):
        spices().get("peper")


def test_a_name_given_twice_is_an_error_that_names_both_places() -> None:
    registry = spices()
    with pytest.raises(UserError) as caught:
        registry.add("pepper", Spice())
    assert str(caught.value).count("test_registry.py:") == 2


def test_a_thing_of_another_class_is_refused_where_it_is_registered() -> None:
    with pytest.raises(UserError, match=r"spice 'salt' in .*test_registry\.py:\d+ must be a Spice, not a str"):
        spices().add("salt", "salt")  # type: ignore[arg-type]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is installed and names two spices, one of them by the name of ours in another registry."""
    facts = tmp_path / "bazaar-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: bazaar\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[wardround.spices]\nsumac = bazaar_shop:SUMAC\nstone = bazaar_shop:STONE\n"
    )
    (tmp_path / "bazaar_shop.py").write_text(
        "from wardround.core import UserError\n"
        "from tests_spice import Spice\n"
        "SUMAC = Spice('sour')\nSTONE = 'no spice'\n"
    )
    (tmp_path / "tests_spice.py").write_text(f"import sys\nSpice = sys.modules[{__name__!r}].Spice\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("bazaar_shop", "tests_spice"):
        sys.modules.pop(name, None)


def test_an_installed_package_runs_only_when_one_of_its_names_is_asked_for(installed: Path) -> None:
    registry = spices()
    assert registry.get("pepper").title == "hot"
    listed = {entry.name: entry.title for entry in registry}
    assert listed["sumac"] == "of the package bazaar (bazaar_shop:SUMAC)"
    assert "sumac" in registry
    assert "bazaar_shop" not in sys.modules
    assert registry.get("sumac").title == "sour"
    with pytest.raises(UserError, match=r"'stone' in bazaar \(bazaar_shop:STONE\) must be a Spice, not a str"):
        registry.get("stone")


def test_an_installed_name_that_is_taken_is_an_error_that_names_both_places(installed: Path) -> None:
    registry = spices()
    registry.add("sumac", Spice())
    with pytest.raises(UserError, match=r"'sumac' is registered twice: in .*test_registry.py:\d+ and in bazaar"):
        list(registry)


def plugin(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_a_plug_in_is_imported_once_and_known_by_the_hash_of_its_source(tmp_path: Path) -> None:
    path = plugin(tmp_path, "counted_once", "import sys\nsys.counted = getattr(sys, 'counted', 0) + 1\n")
    (first,) = load_plugins([path])
    (again,) = load_plugins([str(path)])
    assert first == again
    assert first in loaded_plugins()
    assert first.module == "wardround_plugin_counted_once"
    assert first.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sys.counted == 1  # type: ignore[attr-defined]
    must_be_loaded([first.to_json()], "this")
    assert changed_plugins([first.to_json()]) == ()


def test_a_changed_plug_in_is_not_taken_for_the_one_it_was(tmp_path: Path) -> None:
    path = plugin(tmp_path, "changing", "X = 1\n")
    (first,) = load_plugins([path])
    assert changed_plugins([{**first.to_json(), "sha256": "0" * 64}]) == (str(path),)
    path.write_text("X = 2\n")
    with pytest.raises(UserError, match="was changed after it was imported"):
        load_plugins([path])


def test_what_was_made_with_a_plug_in_asks_for_it_and_does_not_run_it(tmp_path: Path) -> None:
    path = tmp_path / "unnamed.py"
    with pytest.raises(UserError, match=r"the run was made with a plug-in; name it: --plugin .*unnamed\.py"):
        must_be_loaded([{"path": str(path), "module": "wardround_plugin_unnamed", "sha256": "0"}], "the run")


def test_two_files_of_one_name_are_an_error_that_names_both(tmp_path: Path) -> None:
    load_plugins([plugin(tmp_path / "a", "same_name", "X = 1\n")])
    with pytest.raises(UserError, match=r"b/same_name\.py' and '.*a/same_name\.py' have one name"):
        load_plugins([plugin(tmp_path / "b", "same_name", "X = 1\n")])


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("broken", "def (:\n", "does not import: SyntaxError"),
        ("failing", "1 / 0\n", "does not import: ZeroDivisionError"),
        ("no-module", "", "name a file like my_plugin.py"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_is_one_line(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load_plugins([plugin(tmp_path, name, text)])
    assert f"wardround_plugin_{name}" not in sys.modules


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("plain", ""),
        ("plain/x", None),
        ("needs/x", "x"),
        ("needs/x/y:z", "x/y:z"),
        ("needs", None),
        ("needs/", None),
        ("needs:x", None),
        ("maybe", ""),
        ("maybe:x", "x"),
        ("maybe:", None),
        ("maybe/x", None),
    ],
)
def test_the_part_behind_a_name_is_there_where_it_must_be_and_nowhere_else(text: str, rest: str | None) -> None:
    registry: Registry[SimpleNamespace] = Registry("backends", one="backend")
    for name, takes, optional in (("plain", "", False), ("needs", "/<name>", False), ("maybe", ":<name>", True)):
        registry.add(name, SimpleNamespace(name=name, takes=takes, rest_optional=optional))
    if rest is not None:
        backend, found = find_backend(registry, text)
        assert (backend.name, found) == (text[:5], rest)
        return
    spelt = {"plain": "plain", "needs": "needs/<name>", "maybe": "maybe[:<name>]"}[text[:5]]
    with pytest.raises(UserError) as caught:
        find_backend(registry, text)
    assert str(caught.value) == f"the backend {text!r} is spelt {spelt}"
