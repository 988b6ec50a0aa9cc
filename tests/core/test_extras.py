"""A part that is not installed is one line that says how to get it; a module of ours that is missing is a bug."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import wardround
from wardround.core import UserError, import_extra, needs_extra

_DO_WITHOUT = {
    "agents/loop/context.py",  # a package of no extra
    "cli/terminal.py",  # a part of ours that was left out
    "core/registry.py",
    "core/prompts.py",  # a package that a plug-in names
    "tools/knowledge/page_text.py",  # reads pages without it
    "records/chart/censor.py",  # a package of no extra
}
"""Files that may catch a failed import: the one that says it for all, and those that no extra helps."""


def test_a_package_that_is_not_here_is_named_with_its_extra_and_the_command() -> None:
    with pytest.raises(UserError) as told:
        import_extra("no_such_package.inside", "view", what="the viewer")
    assert str(told.value) == (
        "the viewer needs the extra [view] (no no_such_package here): "
        "pip install '.[view]' in wardround's source folder"
    )


def test_a_package_that_is_here_and_does_not_load_says_its_own_words() -> None:
    with pytest.raises(UserError, match=re.escape("(libGL.so.1: cannot open)")), needs_extra("imaging"):
        raise ImportError("libGL.so.1: cannot open\nand more", name="cv2")


def test_a_missing_module_of_ours_is_a_bug() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"wardround\.no_such_room"):
        import_extra("wardround.no_such_room", "view")


def test_what_is_installed_is_handed_over() -> None:
    assert import_extra("json.decoder", "view").JSONDecoder is not None


def test_nobody_else_says_what_is_missing() -> None:
    sources = Path(wardround.__file__).parent
    catching = {
        file.relative_to(sources).as_posix()
        for file in sources.rglob("*.py")
        if re.search(r"except \(?(ImportError|ModuleNotFoundError)", file.read_text(encoding="utf-8"))
    }
    assert catching == _DO_WITHOUT


def test_no_command_asks_for_an_extra_when_it_is_loaded() -> None:
    """In a Python in which no package of an extra can be imported, as after a plain ``pip install``."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {_module(line) for line in project["dependencies"]}
    extras = (
        {_module(line) for lines in project["optional-dependencies"].values() for line in lines}
        - needed
        - {"wardround"}
    )
    assert {"matplotlib", "adbc_driver_postgresql", "mcp", "starlette", "ray", "torch"} <= extras
    hidden = (
        f"import importlib, sys; sys.modules.update(dict.fromkeys({sorted(extras)}))\n"
        "from wardround.cli.main import COMMANDS\n"
        "for module, _ in COMMANDS.values(): importlib.import_module(module)"
    )
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _module(line: str) -> str:
    """What a dependency's package is imported as."""
    name = re.split(r"[\[<>=; ]", line)[0].lower()
    return {"pillow": "PIL", "scikit-learn": "sklearn", "pyjwt": "jwt"}.get(name, name).replace("-", "_")
