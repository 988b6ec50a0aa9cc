"""The clinical concepts of the fifteen tasks: codes by code system, units, thresholds. Read from ``concepts.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

SEVERITIES = ("normal", "mild", "moderate", "severe")
PREFIX_SYSTEMS = frozenset({"icd9", "icd10"})
"""Systems whose codes are given by their beginning; all other codes are whole. ``icd`` is either of them: no code of
a concept here is one of another concept in the other version."""
_DECIMALS = 4
"""A value that was stored with 32 bits (3.9 reads as 3.9000001) must not cross a threshold by that."""

Operator = Literal["<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One threshold: values for which it holds have this class."""

    value: int
    operator: Operator
    bound: float

    def holds(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Say for which values it holds."""
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[self.operator]
        return np.asarray(compare(values, self.bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskConcept:
    """What one task is about. ``codes`` by system; ``roots`` are ids whose descendants count too; a laboratory concept
    has a ``unit``, the factors of the ``units`` that can be turned into it, and ``steps``, the worst first."""

    task: str
    title: str
    codes: Mapping[str, tuple[str, ...]]
    roots: tuple[str, ...] = ()
    unit: str = ""
    units: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[Threshold, ...] = ()

    @property
    def is_result(self) -> bool:
        """Whether it is a laboratory result, not a diagnosis."""
        return bool(self.steps)

    def factor(self, unit: str | None) -> float | None:
        """Return what turns a value of this unit into the concept's, None where nobody says."""
        return None if unit is None else self.units.get(plain_unit(unit))

    def classes(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
        """Return the class of values in the concept's unit; no value may be NaN."""
        rounded = np.round(values, _DECIMALS)
        held = [step.holds(rounded) for step in self.steps]
        return np.select(held, [step.value for step in self.steps]).astype(np.int8)

    def matches(self, system: str, code: str) -> bool:
        """Whether a code of a system is one of this concept's own codes."""
        if system == "icd":
            return any(self.matches(version, code) for version in sorted(PREFIX_SYSTEMS))
        own = self.codes.get(system, ())
        if system in PREFIX_SYSTEMS:
            return plain_icd(code).startswith(own) if own else False
        return code in own

    def looked_for(self) -> str:
        """Its codes in one line, for messages."""
        return "; ".join(f"{system} {', '.join(codes)}" for system, codes in self.codes.items())


def plain_unit(unit: str) -> str:
    """The form in which units are compared."""
    return "".join(unit.replace("µ", "u").replace("μ", "u").casefold().split())


def plain_icd(code: str) -> str:
    """The form in which ICD codes are compared."""
    return code.strip().replace(".", "").upper()


@cache
def load_concepts() -> Mapping[str, TaskConcept]:
    """Return every concept, by the name of its task."""
    source = resources.files("wardround.benchmarks.ehrshot").joinpath("concepts.toml").read_text(encoding="utf-8")
    return {task: _concept(task, body) for task, body in tomllib.loads(source).items()}


def _concept(task: str, body: Mapping[str, Any]) -> TaskConcept:
    codes = {name: tuple(values) for name, values in body["codes"].items()}
    roots = codes.pop("roots", ())
    return TaskConcept(
        task=task,
        title=body["title"],
        codes=codes,
        roots=roots,
        unit=body.get("unit", ""),
        units={plain_unit(unit): float(Fraction(factor)) for unit, factor in body.get("units", {}).items()},
        steps=tuple(_step(text) for text in body.get("steps", ())),
    )


def _step(text: str) -> Threshold:
    name, operator, bound = text.split()
    return Threshold(value=SEVERITIES.index(name), operator=operator, bound=float(bound))  # type: ignore[arg-type]
