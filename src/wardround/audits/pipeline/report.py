"""The report of a leak test: for people, as JSON, as JUnit for CI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from wardround.audits.pipeline.compare import LEAKS, UNJUDGED, VERDICTS, PipelineFinding, Verdict

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
                lines += [f"  {_short(one)}{declared}", f"    {one.shown}"]
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


def _short(one: PipelineFinding) -> str:
    parts = [f"{one.feature}: {one.samples:,} of {one.compared:,} samples"]
    if one.features > 1:
        parts[0] = f"{one.feature} ({one.features:,} features): {one.samples:,} of {one.compared:,} samples"
    return "; ".join([parts[0], *one.sentence.split("; ")[1:]])
