"""Gather what the built site shows: docs/, the pages it links to elsewhere in the repository, and navigation by reader.

    python scripts/site_source.py build/site        (make site, which then builds it)

It writes build/site/pages and build/site/mkdocs.yml. Links are turned to where their targets lie among the pages; the
navigation is docs/README.md's: a section for each reader, each page under the first reader who is sent to it.
"""

from __future__ import annotations

import argparse
import json
import posixpath
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
FOLDERS = {
    "methods": "Methods",
    "api": "API reference",
    "design": "Decisions",
    "leak-test": "Findings of the leak test",
    "examples": "Examples",
    "project": "Project",
}
"""Sections for the pages of a folder that no reader is sent to one by one."""
_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
_LISTED = re.compile(r"\[([^]]+)\]\(([^)#:\s]+)\)")
_CODE = {".py": "python", ".toml": "toml", ".cff": "yaml", ".ipynb": "python"}


def site_paths() -> dict[str, str]:
    """The path among the site's pages of each file and folder that they show, by its path in the repository."""
    docs = [path for path in (REPOSITORY / "docs").rglob("*") if path.is_file()]
    clocks = sorted((REPOSITORY / "src/wardround/records/sources").glob("*/clocks.md"))
    return {
        **{_inside(path): path.relative_to(REPOSITORY / "docs").as_posix() for path in docs},
        **{_inside(path): f"clocks/{path.parent.name}.md" for path in clocks},
        **{
            _inside(path): f"examples/{path.name}.md"
            for folder in ("examples", "examples/own_hospital")
            for path in _shown(REPOSITORY / folder)
        },
        "src/wardround/cli/commands.md": "commands.md",
        **{name: f"project/{name}" for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")},
        "CITATION.cff": "project/CITATION.cff.md",
        "docs/design": "design/README.md",
        "examples": "examples/README.md",
    }


def with_site_links(text: str, origin: str, paths: dict[str, str]) -> str:
    """A page's text with its links as they are on the site; what the site does not show loses its link."""
    here = posixpath.dirname(paths[origin])

    def turned(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link[2]))
        return link[1] + posixpath.relpath(paths[target], here) + link[3] if target in paths else link[0]

    return _LINK.sub(turned, text)


def with_blank_lines(text: str) -> str:
    """A page's text with an empty line before each list, which the site's Markdown wants and others do not."""
    lines: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        before = lines[-1] if lines else ""
        if not fenced and line.startswith("- ") and before and not before.startswith(("- ", "  ")):
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def as_page(path: Path) -> str:
    """A file as a page: Markdown as it is, a folder as a list, a notebook by its cells, anything else as code."""
    if path.is_dir():
        return f"# {FOLDERS[path.name]}\n\n" + "".join(
            f"- [{one.stem}]({path.name}/{one.name})\n" for one in _shown(path)
        )
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return "\n\n".join(map(_cell, json.loads(text)["cells"])) + "\n"
    return text if path.suffix == ".md" else f"# {path.name}\n\n```{_CODE[path.suffix]}\n{text}```\n"


def _cell(cell: Mapping[str, Any]) -> str:
    """A notebook's cell."""
    text = "".join(cell["source"])
    return text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"


def _inside(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def _shown(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in {".md", *_CODE})


def navigation(paths: dict[str, str]) -> list[dict[str, object]]:
    """Each page once: under the first reader whom docs/README.md sends to it, and the others by folder."""
    index = (REPOSITORY / "docs/README.md").read_text(encoding="utf-8")
    first, *sections = re.split(r"^## (.+)\n", index, flags=re.MULTILINE)
    seen = {paths["docs/README.md"]}
    found: list[dict[str, object]] = [{"Home": "README.md"}, *_listed(first, paths, seen)]
    for reader, text in zip(sections[::2], sections[1::2], strict=True):
        found.append({reader: _listed(text, paths, seen)})
    rest = sorted({path for path in paths.values() if path.endswith(".md")} - seen)
    folders = {title: [path for path in rest if path.startswith(f"{name}/")] for name, title in FOLDERS.items()}
    return [*found, *({title: entries} for title, entries in folders.items() if entries)]


def _listed(text: str, paths: dict[str, str], seen: set[str]) -> list[dict[str, object]]:
    """The pages that a part of docs/README.md links to and that were not seen before."""
    entries: list[dict[str, object]] = []
    for words, target in _LISTED.findall(text):
        path = paths.get(posixpath.normpath(f"docs/{target}"), "")
        if path.endswith(".md") and path not in seen:
            seen.add(path)
            entries.append({words[0].upper() + words[1:] if words.split()[0].islower() else words: path})
    return entries


def write(folder: Path) -> None:
    """Write pages and configuration into a folder, anew."""
    paths = site_paths()
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for origin, shown in paths.items():
        target = pages / shown
        target.parent.mkdir(parents=True, exist_ok=True)
        if shown.endswith(".md"):
            target.write_text(with_blank_lines(with_site_links(as_page(REPOSITORY / origin), origin, paths)), "utf-8")
        else:
            shutil.copyfile(REPOSITORY / origin, target)
    told = {"INHERIT": str(REPOSITORY / "mkdocs.yml"), "docs_dir": "pages", "site_dir": "site"}
    (folder / "mkdocs.yml").write_text(json.dumps({**told, "nav": navigation(paths)}, indent=1), encoding="utf-8")


def main() -> None:
    """Write the site's source where it is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folder", type=Path, help="where the pages and mkdocs.yml go")
    write(parser.parse_args().folder)


if __name__ == "__main__":
    main()
