"""What differs between two runs of a pipeline on copies of the same files, what that says of it, and the report of it:
for people, as JSON, as JUnit for CI.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from xml.etree import ElementTree

from wardround.audits.pipeline.readers import Output, Value
from wardround.audits.pipeline.samples import PipelineSample

Verdict = Literal[
    "LEAK",
    "LATE-RECORDED",
    "CANNOT RUN ON AN OPEN STAY",
    "POPULATION",
    "IDENTIFIERS",
    "ORDER",
    "NOT DETERMINISTIC",
    "LABELS",
]
VERDICTS: Mapping[Verdict, str] = {
    "LEAK": "differs although only facts changed that lie after the sample's time by their own event time",
    "LATE-RECORDED": "differs when facts change that bear an earlier time and were recorded after the sample's",
    "IDENTIFIERS": "holds a key of a row that is not there yet",
    "CANNOT RUN ON AN OPEN STAY": "differs, or nothing is made, when the files end at the sample's time",
    "POPULATION": "differs of people whose own files are unchanged: a statistic, an index or a draw over everybody",
    "ORDER": "differs when only the order of later rows changed",
    "NOT DETERMINISTIC": "differs between two runs on the same files: nothing can be said of it",
    "LABELS": "is what a model is to predict: expected to differ",
}
LEAKS: frozenset[Verdict] = frozenset({"LEAK", "LATE-RECORDED", "IDENTIFIERS"})
"""What makes an audit end with status 1."""
UNJUDGED: frozenset[Verdict] = frozenset({"CANNOT RUN ON AN OPEN STAY", "POPULATION", "NOT DETERMINISTIC"})
"""Behind these a leak may lie: nobody can call such a feature clean."""
EXISTENCE, VOCABULARY = "(sample)", "(columns)"
Kind = Literal["value", "order", "existence"]
Place = tuple[PipelineSample, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a feature of a sample differs. ``kind``: in its entries, in their order alone, or in that it is there."""

    kind: Kind
    before: Value | None
    after: Value | None


@dataclass(slots=True)
class Differences:
    """All that differs between two outputs, by sample and feature; ``labels`` apart."""

    places: dict[Place, Change] = field(default_factory=dict)
    labels: dict[Place, Change] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Columns or codes that one output has and the other has not."""

    def features(self, *, controls: bool | None = None) -> set[str]:
        """Return the features that differ; of control subjects alone, or of the others alone."""
        return {name for sample, name in self.places if controls is None or sample.is_control == controls}


def differences(before: Output, after: Output, *, tolerance: float = 1e-6) -> Differences:
    """Compare two outputs, numbers within a relative ``tolerance`` (sums in another order are no difference)."""
    found = Differences(lost=before.columns ^ after.columns)
    for sample in before.features.keys() | after.features.keys():
        mine, other = before.features.get(sample), after.features.get(sample)
        if mine is None or other is None:
            there = (() if mine is None else ("there",)), (() if other is None else ("there",))
            found.places[sample, EXISTENCE] = Change(kind="existence", before=there[0], after=there[1])
            continue
        _compare(found.places, sample, mine, other, tolerance)
        _compare(found.labels, sample, before.labels.get(sample, {}), after.labels.get(sample, {}), tolerance)
    if not found.places and _order(before) != _order(after):
        moved = next(one for one, two in zip(_order(before), _order(after), strict=False) if one != two)
        found.places[moved, EXISTENCE] = Change(kind="order", before=("its place",), after=("another place",))
    return found


def _order(output: Output) -> list[PipelineSample]:
    return sorted(output.places, key=output.places.__getitem__)


def _compare(
    found: dict[Place, Change],
    sample: PipelineSample,
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    tolerance: float,
) -> None:
    for name in before.keys() | after.keys():
        mine, other = before.get(name, ()), after.get(name, ())
        if _same(mine, other, tolerance):
            continue
        kind: Kind = "order" if _same(_sorted(mine), _sorted(other), tolerance) else "value"
        found[sample, name] = Change(kind=kind, before=mine, after=other)


def _sorted(value: Value) -> Value:
    return tuple(sorted(value, key=repr))


def _same(one: Any, two: Any, tolerance: float) -> bool:
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(_same(a, b, tolerance) for a, b in zip(one, two, strict=True))
    if isinstance(one, bool) or isinstance(two, bool):
        return bool(one == two)
    if isinstance(one, int | float) and isinstance(two, int | float):
        return one == two or math.isclose(one, two, rel_tol=tolerance, abs_tol=1e-12)
    return bool(one == two)


@dataclass(slots=True, kw_only=True)
class PipelineFinding:
    """What was found of one feature, or of a family of codes.

    ``samples`` of ``compared`` differ. ``columns``: the raw columns that alone make it differ. ``hours``: the facts
    that matter lie at least so long after the sample's time. ``auc``: of the feature alone for the label, as the
    pipeline has it and from files that end at the sample's time.
    """

    verdict: Verdict
    feature: str
    samples: int
    compared: int
    features: int = 1
    example: PipelineSample | None = None
    change: Change | None = None
    columns: tuple[str, ...] = ()
    hours: int | None = None
    auc: tuple[float, float | None] | None = None
    declared: str | None = None

    @property
    def sentence(self) -> str:
        """The finding in a sentence."""
        parts = [f"{self.feature}: {VERDICTS[self.verdict]}, in {self.samples:,} of {self.compared:,} samples"]
        if self.features > 1:
            parts[0] = parts[0].replace(self.feature, f"{self.feature} ({self.features:,} features)", 1)
        if self.columns:
            parts.append(f"changed by {', '.join(self.columns)} alone")
        if self.hours:
            parts.append(f"still when only facts more than {self.hours} h later change")
        if self.auc is not None:
            true = "" if self.auc[1] is None else f", {self.auc[1]:.3f} from what was known"
            parts.append(f"AUC for the label {self.auc[0]:.3f}{true}")
        return "; ".join(parts)

    @property
    def shown(self) -> str:
        """The example: whose, before and after."""
        if self.example is None or self.change is None:
            return ""
        return f"{self.example}: {_short(self.change.before)} -> {_short(self.change.after)}"


def _short(value: Value | None) -> str:
    if not value:
        return "nothing"
    text = ", ".join(map(_cell, value[:3]))
    return text[:120] + (f" ... ({len(value)})" if len(value) > 3 else "")


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return "(" + " ".join(map(_cell, value)) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def family(feature: str) -> str:
    """Return what is said once for many codes: ``LAB//50912//mEq/L`` is of ``LAB``, ``hr[3]`` of ``hr``."""
    return feature.partition("//")[0].partition("[")[0]


def grouped(
    verdict: Verdict,
    places: Mapping[Place, Change],
    compared: int,
    attributed: Mapping[str, Iterable[str]] | None = None,
) -> list[PipelineFinding]:
    """Make a finding of each family of features that differ, the commonest first."""
    by_family: dict[str, list[Place]] = {}
    for place in places:
        by_family.setdefault(family(place[1]), []).append(place)
    made = []
    for name, members in by_family.items():
        features = {feature for _, feature in members}
        first = min(members, key=lambda place: (place[0].subject, place[0].time, place[1]))
        columns = {column for feature in features for column in (attributed or {}).get(feature, ())}
        made.append(
            PipelineFinding(
                verdict=verdict,
                feature=first[1] if len(features) == 1 else name,
                samples=len({sample for sample, _ in members}),
                compared=compared,
                features=len(features),
                example=first[0],
                change=places[first],
                columns=tuple(sorted(columns)),
            )
        )
    return sorted(made, key=lambda one: (-one.samples, one.feature))


def rank_auc(scores: Sequence[float], truth: Sequence[bool]) -> float | None:
    """Return how likely one with the outcome scores above one without, ties counting half; the better side."""
    yes = sorted(score for score, is_true in zip(scores, truth, strict=True) if is_true)
    no = sorted(score for score, is_true in zip(scores, truth, strict=True) if not is_true)
    if not yes or not no:
        return None
    order = {score: place for place, score in enumerate(sorted({*yes, *no}))}
    below = [0] * len(order)
    for score in no:
        below[order[score]] += 1
    before, run = [], 0
    for count in below:
        before.append(run + count / 2)
        run += count
    area = sum(before[order[score]] for score in yes) / (len(yes) * len(no))
    return max(area, 1 - area)


# The report of a leak test: for people, as JSON, as JUnit for CI.


_SHOWN = 12


@dataclass(slots=True, kw_only=True)
class PipelineReport:
    """What a leak test found. ``facts``: raw rows that the strict copies changed. ``open_stay``: how the pipeline
    failed on files that end at the samples' times. ``rows``: by raw column, changed rows as (before, after).
    ``problems``: what could not be said, and why; ``notes``: what to bear in mind."""

    source: str
    command: str = ""
    samples: int = 0
    compared: int = 0
    """So many of the samples are in the pipeline's results."""
    subjects: int = 0
    controls: int = 0
    rounds: int = 0
    runs: int = 0
    features: int = 0
    facts: int = 0
    findings: list[PipelineFinding] = field(default_factory=list)
    unstable: set[str] = field(default_factory=set)
    open_stay: str | None = None
    rows: dict[str, list[tuple[Mapping[str, str], Mapping[str, str] | None]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing shows what was not known yet, and everything could be looked at."""
        return self.status == 0

    @property
    def status(self) -> int:
        """0 clean, 1 a leak, 2 it could not be said: of some features, or of all."""
        if any(one.verdict in LEAKS and one.declared is None for one in self.findings):
            return 1
        return 2 if self.problems or self.unjudged or self.open_stay or self.facts == 0 else 0

    @property
    def unjudged(self) -> list[PipelineFinding]:
        """What differs for a reason behind which a leak may lie, and is not declared."""
        return [one for one in self.findings if one.verdict in UNJUDGED and one.declared is None]

    @property
    def verdicts(self) -> dict[Verdict, list[PipelineFinding]]:
        """The findings by verdict, the gravest first."""
        return {name: each for name in VERDICTS if (each := [one for one in self.findings if one.verdict == name])}

    @property
    def conclusion(self) -> str:
        """The report in a line."""
        if self.status == 1:
            counted = [f"{name} ({len(each)})" for name, each in self.verdicts.items() if name in LEAKS]
            return ", ".join(counted)
        if self.status == 2:
            if self.facts == 0:
                return "NO VERDICT: no raw fact lies after any sample's time"
            why = [*self.problems, *(f"{one.feature} ({one.verdict})" for one in self.unjudged[:_SHOWN])]
            if self.open_stay:
                why.append("it fails on files that end at the samples' times")
            return f"NO LEAK FOUND, NOT CLEAN: {'; '.join(why)}"
        tested = max(1, self.compared - self.controls)
        seen = f"a leak in more than {min(1.0, 3 / tested):.1%} of samples like these would have been seen (95 %)"
        return f"CLEAN: {self.compared:,} samples, {self.features:,} features; {seen}"

    def as_text(self) -> str:
        """Return the report for people."""
        of = f"{self.samples:,} samples of {self.subjects:,} subjects, {self.controls:,} of them unswapped controls"
        lines = [
            f"leak test on {self.source}: {of}; {self.features:,} features, {self.runs} runs",
            f"{self.facts:,} raw rows hold what was not known at a sample's time, and were changed",
        ]
        if self.open_stay is not None:
            lines += ["", f"CANNOT RUN ON AN OPEN STAY: on files that end at the samples' times it {self.open_stay}"]
        for verdict, findings in self.verdicts.items():
            lines += ["", f"{verdict}: {VERDICTS[verdict]}"]
            for one in findings[:_SHOWN]:
                declared = "" if one.declared is None else f" [declared: {one.declared}]"
                lines += [f"  {_in_short(one)}{declared}", f"    {one.shown}"]
            if len(findings) > _SHOWN:
                lines.append(f"  ... and {len(findings) - _SHOWN} more")
        for column, rows in self.rows.items():
            lines += ["", f"changed rows of {column}:"]
            for before, after in rows:
                key = ", ".join(f"{name} {text}" for name, text in list(before.items())[:3])
                name = column.rpartition(".")[2]
                change = "left out or doubled" if after is None else f"{before.get(name)!r} -> {after.get(name)!r}"
                lines.append(f"  {key}: {change}")
        lines += ["", *self.notes, *self.problems, self.conclusion]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the report as what JSON holds."""
        return {
            "source": self.source,
            "command": self.command,
            "status": self.status,
            "conclusion": self.conclusion,
            "samples": self.samples,
            "compared": self.compared,
            "subjects": self.subjects,
            "controls": self.controls,
            "rounds": self.rounds,
            "runs": self.runs,
            "features": self.features,
            "facts": self.facts,
            "open_stay": self.open_stay,
            "problems": self.problems,
            "findings": [
                {
                    "verdict": one.verdict,
                    "feature": one.feature,
                    "features": one.features,
                    "samples": one.samples,
                    "compared": one.compared,
                    "columns": list(one.columns),
                    "hours": one.hours,
                    "auc": one.auc,
                    "declared": one.declared,
                    "sentence": one.sentence,
                    "example": one.shown,
                }
                for one in self.findings
            ],
        }

    def as_junit(self) -> str:
        """Return the report as JUnit XML: a test case a finding, failed where it leaks."""
        counted = [one for one in self.findings if one.verdict in LEAKS and one.declared is None]
        suite = ElementTree.Element(
            "testsuite", name="wardround leak test", tests=str(len(self.findings) + 1), failures=str(len(counted))
        )
        whole = ElementTree.SubElement(suite, "testcase", classname=self.source, name="leak test")
        if self.status == 2:
            ElementTree.SubElement(whole, "error", message=self.conclusion)
        for one in self.findings:
            case = ElementTree.SubElement(suite, "testcase", classname=one.verdict, name=one.feature)
            if one in counted:
                ElementTree.SubElement(case, "failure", message=one.sentence).text = one.shown
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)

    def as_sarif(self) -> dict[str, Any]:
        """Return the report as SARIF 2.1.0, which code hosts show beside the code."""
        return {
            "version": "2.1.0",
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "runs": [
                {
                    "tool": {
                        "driver": {
                            "name": "wardround leak test",
                            "rules": [
                                {"id": name, "shortDescription": {"text": words}} for name, words in VERDICTS.items()
                            ],
                        }
                    },
                    "results": [
                        {
                            "ruleId": one.verdict,
                            "level": "error" if one.verdict in LEAKS and one.declared is None else "note",
                            "message": {"text": f"{one.sentence}. {one.shown}"},
                        }
                        for one in self.findings
                    ],
                }
            ],
        }


def _in_short(one: PipelineFinding) -> str:
    parts = [f"{one.feature}: {one.samples:,} of {one.compared:,} samples"]
    if one.features > 1:
        parts[0] = f"{one.feature} ({one.features:,} features): {one.samples:,} of {one.compared:,} samples"
    return "; ".join([parts[0], *one.sentence.split("; ")[1:]])
