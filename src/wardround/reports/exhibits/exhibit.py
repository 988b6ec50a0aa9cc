"""A table or figure of a paper as a set of runs, beside the published figures."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from wardround.core import Registry, UserError, strict
from wardround.core.settings import nested

# The declaration of a table or figure: agents, what is varied, what is shown, and what is not available here.


Point = int | str | None
"""What is varied: a value, or the name of a case."""
Kind = Literal["table", "arms", "curve", "best", "analysis", "command", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One table or figure. ``paper`` is also the preset with which its runs begin.

    ``kind``: a ``table`` of one run, or a ``curve`` over runs that differ in ``sweep``; ``arms`` compares curated input
    with evidence seeking (with ``section`` "map", drawn task by task); ``best`` is Best@K; ``analysis`` is the section
    of the report named ``section``; ``command``: another command prints it; ``none``: not available. ``settings``
    override the preset, by name; ``missing`` says what is not filled and why. ``cases``: runs by name, each with its
    own settings, if more than one number is varied. ``each_model``: the varied setting is set to each model of the run
    in turn; ``varies`` is its name. ``reference``: the paper's model whose figures are printed beside ours by default.
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
        """Whether ``wardround reproduce`` runs it."""
        return self.kind in ("table", "arms", "curve", "best", "analysis")

    def points_of(self, models: Sequence[str]) -> tuple[Point, ...]:
        """Return the values of the varied setting or the names of its cases, one run each; one run if nothing is
        varied. ``models``: the models of the runs."""
        return self.values or tuple(self.cases) or (tuple(models) if self.each_model else (None,))

    @property
    def how(self) -> str:
        """Return the command that prints it, or why there is none."""
        said = f"wardround reproduce {self.name}" if self.is_played else self.command
        return "; ".join(part for part in (said, self.missing) if part)

    def body(self) -> dict[str, Any]:
        """Return the settings of every run, as nested tables; settings of the user override them."""
        own = {"run.preset": self.paper, "run.tasks": list(self.tasks), **self.settings}
        return nested(own)

    def varied(self, point: Point) -> dict[str, Any]:
        """Return the settings of one point of the sweep, which override all others."""
        if point in self.cases:
            return nested(self.cases[str(point)])
        return {} if point is None else nested(dict.fromkeys(self.sweep, point))


EXHIBITS: Registry[Exhibit] = Registry("exhibits", one="table or figure", of=Exhibit)
"""By paper, kind and number: ``retrosum-table-2``."""


def read_exhibits(text: str, where: str) -> list[Exhibit]:
    """Read a paper's file: its ``paper`` and ``[[exhibit]]`` entries. UserError names the error and ``where``."""
    try:
        found = tomllib.loads(text)
        paper, entries = found["paper"], found["exhibit"]
    except (tomllib.TOMLDecodeError, KeyError) as error:
        raise UserError(f"{where}: not TOML with a paper and [[exhibit]] entries: {error}") from error
    return [strict(Exhibit, {"paper": paper, **entry}, f"{where} [[exhibit]]") for entry in entries]


for _file in sorted(files("wardround.reports.exhibits").iterdir(), key=lambda file: file.name, reverse=True):
    if _file.name.endswith(".toml"):
        for _exhibit in read_exhibits(_file.read_text(encoding="utf-8"), _file.name):
            EXHIBITS.add(_exhibit.name, _exhibit)


# The figures printed in the papers, copied for comparison; no test aims at them.


@cache
def _printed() -> tuple[dict[str, str], ...]:
    text = files("wardround.reports.exhibits").joinpath("published.tsv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))


def published_figures(exhibit: str, model: str) -> Mapping[tuple[str, str, str], str]:
    """Return the figures that a paper prints for one of its models, by agent, task (``all``: its average) and metric.
    The text is as printed: F1 of AgentEHR's tasks in 0..1, figures of classes in per cent."""
    return {
        (row["agent"], row["task"], row["metric"]): row["value"]
        for row in _printed()
        if row["exhibit"] == exhibit and row["model"] == model
    }


def published_models(exhibit: str) -> tuple[str, ...]:
    """Return the models whose figures a paper prints in a table."""
    return tuple(dict.fromkeys(row["model"] for row in _printed() if row["exhibit"] == exhibit))
