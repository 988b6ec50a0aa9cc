"""A table or figure of a paper as a sweep of runs, beside the published figures."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from wardround.core import Registry, UserError, strict
from wardround.runs.names import nested

# What a table or figure of a paper is: who plays, what is varied, what is shown, and what cannot be had here.


Point = int | str | None
"""What is varied: a value, or the name of a case."""
Kind = Literal["table", "arms", "curve", "best", "analysis", "command", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One table or figure. ``paper`` is also the preset that its runs begin with.

    ``kind``: a ``table`` of one run or a ``curve`` over runs that differ in ``sweep``; ``arms`` sets
    curated input against evidence seeking (with ``section`` "map", drawn task by task); ``best`` is Best@K and
    ``analysis`` the section of the report called ``section``; of ``command`` another command shows it; ``none`` cannot
    be had. ``settings`` stand over the preset, by name; ``missing`` says what is not filled and why.
    ``cases`` are runs by name, each with settings of its own, where what is varied is no one number.
    ``each_model``: what is varied is set to each model of the run in turn; ``varies`` is what that is called.
    ``reference``: the paper's model whose figures stand beside ours by default.
    """

    name: str
    title: str
    paper: str
    kind: Kind
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    values: tuple[int, ...] = ()
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    each_model: bool = False
    varies: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    metrics: tuple[str, ...] = ("f1",)
    section: str = ""
    command: str = ""
    missing: str = ""
    reference: str = ""

    @property
    def is_played(self) -> bool:
        """Whether ``wardround reproduce`` plays it."""
        return self.kind in ("table", "arms", "curve", "best", "analysis")

    def points_of(self, models: Sequence[str]) -> tuple[Point, ...]:
        """The values of what is varied or the names of its cases, a run each; one run where nothing is. ``models``
        will play."""
        return self.values or tuple(self.cases) or (tuple(models) if self.each_model else (None,))

    @property
    def how(self) -> str:
        """The command that shows it, or why there is none."""
        said = f"wardround reproduce {self.name}" if self.is_played else self.command
        return "; ".join(part for part in (said, self.missing) if part)

    def body(self) -> dict[str, Any]:
        """Return the settings of every run of it, as nested tables; what a person sets stands over them."""
        own = {"run.preset": self.paper, "run.tasks": list(self.tasks), **self.settings}
        return nested(own)

    def varied(self, point: Point) -> dict[str, Any]:
        """Return what is set at one point of the sweep, over everything else."""
        if point in self.cases:
            return nested(self.cases[str(point)])
        return {} if point is None else nested(dict.fromkeys(self.sweep, point))


EXHIBITS: Registry[Exhibit] = Registry("exhibits", one="table or figure", of=Exhibit)
"""By paper, kind and number: ``retrosum-table-2``."""


def read_exhibits(text: str, where: str) -> list[Exhibit]:
    """Read a paper's file: its ``paper`` and an ``[[exhibit]]`` each; UserError names what is wrong, and ``where``."""
    try:
        found = tomllib.loads(text)
        paper, entries = found["paper"], found["exhibit"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise UserError(f"{where} is no TOML with a paper and [[exhibit]] entries: {error}") from error
    return [strict(Exhibit, {"paper": paper, **entry}, f"{where} [[exhibit]]") for entry in entries]


for _file in sorted(files("wardround.reports.exhibits").iterdir(), key=lambda file: file.name, reverse=True):
    if _file.name.endswith(".toml"):
        for _exhibit in read_exhibits(_file.read_text(encoding="utf-8"), _file.name):
            EXHIBITS.add(_exhibit.name, _exhibit)


# The figures that the papers print, read off them: facts for comparison, never a target of a test.


@cache
def _printed() -> tuple[dict[str, str], ...]:
    text = files("wardround.reports.exhibits").joinpath("published.tsv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def published_figures(exhibit: str, model: str) -> Mapping[tuple[str, str, str], str]:
    """Return what a paper prints of one of its models, by agent, task (``all``: its average) and metric.

    The text is as printed: F1 of AgentEHR's tasks in 0..1, figures of classes in per cent.
    """
    return {
        (row["agent"], row["task"], row["metric"]): row["value"]
        for row in _printed()
        if row["exhibit"] == exhibit and row["model"] == model
    }


def published_models(exhibit: str) -> tuple[str, ...]:
    """Return the models of which a paper prints figures in a table."""
    return tuple(dict.fromkeys(row["model"] for row in _printed() if row["exhibit"] == exhibit))
