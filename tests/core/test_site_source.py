"""The site shows every page once, in the order of docs/README.md, and links to where pages lie there."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).parents[2]
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    return importlib.import_module("site_source")


def pages_of(shown: object) -> Iterator[str]:
    """The pages of a navigation, of a part of it, or of one entry."""
    if isinstance(shown, str):
        yield shown
    for part in shown.values() if isinstance(shown, dict) else shown if isinstance(shown, list) else ():
        yield from pages_of(part)


def test_the_navigation_has_every_page_once(source: ModuleType) -> None:
    paths = source.site_paths()
    entries = Counter(pages_of(source.navigation(paths)))
    assert {page for page in paths.values() if page.endswith(".md")} == entries.keys()
    assert set(entries.values()) == {1}


def test_a_section_for_each_reader_and_the_first_one_sent_to_a_page_has_it(source: ModuleType) -> None:
    sections = {title: shown for entry in source.navigation(source.site_paths()) for title, shown in entry.items()}
    assert {"Researchers", "Hospital data teams", "Engineers", "Reviewers"} <= sections.keys()
    assert {"Fidelity": "fidelity.md"} in sections["Researchers"]
    assert {"eICU": "clocks/eicu.md"} in sections["Hospital data teams"]
    assert "fidelity.md" not in pages_of(sections["Reviewers"])


def test_links_are_turned_to_where_pages_lie(source: ModuleType) -> None:
    paths = source.site_paths()
    text = "[a](../CONTRIBUTING.md) [b](tour.md#x) [c](https://host/d) [e](../examples/sepsis.toml)"
    turned = source.with_site_links(text, "docs/faq.md", paths)
    assert turned == "[a](project/CONTRIBUTING.md) [b](tour.md#x) [c](https://host/d) [e](examples/sepsis.toml.md)"
    assert source.with_site_links("[t](docs/tour.md)", "README.md", paths) == "[t](../tour.md)"


def test_a_list_gets_its_empty_line_and_code_keeps_its_own(source: ModuleType) -> None:
    text = "words\n- one\n  more\n- two\n```\nwords\n- three\n```\n"
    assert source.with_blank_lines(text) == "words\n\n- one\n  more\n- two\n```\nwords\n- three\n```\n"


def test_a_notebook_is_shown_by_its_cells(source: ModuleType) -> None:
    page = source.as_page(REPOSITORY / "examples" / "first_steps.ipynb")
    assert page.startswith("# First steps in Python\n")
    assert "\n```python\nimport tempfile\n" in page


def test_nothing_is_written_that_links_outside(source: ModuleType, tmp_path: Path) -> None:
    source.write(tmp_path)
    pages = {page: _FENCED.sub("", page.read_text("utf-8")) for page in (tmp_path / "pages").rglob("*.md")}
    linked = [(page, target) for page, text in pages.items() for target in re.findall(r"\]\(([^)#:\s]+)[)#]", text)]
    assert linked
    assert not [(page.name, target) for page, target in linked if not (page.parent / target).is_file()]


def test_a_link_that_leads_nowhere_ends_the_build() -> None:
    """The builder counts the warnings that it says: with ``--quiet`` there were none, and ``--strict`` held nothing."""
    (command,) = re.findall(r"mkdocs build (.*)", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))
    assert "--strict" in command
    assert "--quiet" not in command
    assert "\nstage site\n" in (REPOSITORY / ".ci/run").read_text(encoding="utf-8")


def test_every_file_and_test_that_a_page_names_is_there() -> None:
    """A file is named from the repository's root, or from the package's, as ``records/store.py``."""
    missing = []
    pages = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
    for page in pages:
        for name in re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|toml|jinja|tsv)(?:::\w+)?)`", page.read_text()):
            path, _, test = name.partition("::")
            places = [REPOSITORY / path, REPOSITORY / "src" / "wardround" / path]
            found = next((place for place in places if place.is_file()), None)
            if found is None or (test and f"def {test}(" not in found.read_text()):
                missing.append(f"{page.name}: {name}")
    assert missing == []
