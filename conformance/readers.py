"""What we write, opened by the software that it is for: the tests and scripts that do that, counted.

A test that its reader is missing for is not run, and says what would make it run.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from conformance.outcomes import Scenario, SuiteResult, Verdict
from conformance.place import REPOSITORY, Place

_SAMPLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """A reader, the tests in which it reads, and how its version is found."""

    name: str
    by: str
    tests: Sequence[str]
    version: Callable[[], str]


def run_readers(place: Place) -> Iterator[SuiteResult]:
    """Run the tests of all readers at once, then the door that verifiers comes through."""
    report = place.path("readers.xml")
    report.unlink(missing_ok=True)
    tests = [test for reader in READERS for test in reader.tests]
    words = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *tests]
    with place.path("readers.log").open("w") as log:
        subprocess.run(words, cwd=REPOSITORY, stdout=log, stderr=subprocess.STDOUT, check=False)
    cases = _cases(report)
    for reader in READERS:
        ran = [case for test in reader.tests for case in cases.get(test, ())]
        yield SuiteResult(
            name=reader.name,
            version=reader.version(),
            by=reader.by,
            scenarios=[*map(_outcome, ran), *(_never_ran(test) for test in reader.tests if test not in cases)],
            seconds=sum(float(case.attrib["time"]) for case in ran),
        )
    yield _verifiers(place)


def _cases(report: Path) -> dict[str, list[ElementTree.Element]]:
    """Read pytest's report: cases by ``file::test``, with one for each of its parameters."""
    found: dict[str, list[ElementTree.Element]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        module, name = case.attrib["classname"].replace(".", "/"), case.attrib["name"]
        found.setdefault(f"{module}.py::{name.partition('[')[0]}", []).append(case)
    return found


def _outcome(case: ElementTree.Element) -> Scenario:
    verdicts: dict[str, Verdict] = {"failure": "failed", "error": "failed", "skipped": "not run"}
    name = case.attrib["name"]
    for part in case:
        if part.tag in verdicts:
            return Scenario(name=_plain(name), verdict=verdicts[part.tag], why=part.attrib.get("message", "")[:200])
    return Scenario(name=_plain(name), verdict="passed")


def _never_ran(test: str) -> Scenario:
    return Scenario(name=_plain(test.rpartition("::")[2]), verdict="failed", why=f"pytest did not run {test}")


def _plain(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _installed(package: str) -> Callable[[], str]:
    def version() -> str:
        try:
            return f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            return f"{package} is not installed"

    return version


def _of_readers_python() -> str:
    """Versions in the Python that ``make test-exports`` makes."""
    python = os.environ.get("WARDROUND_READERS")
    if python is None:
        return "WARDROUND_READERS is not set"
    return ", ".join(f"{one} {_version_in(python, one)}" for one in ("inspect-ai", "opentelemetry-proto"))


def _version_in(python: str, package: str) -> str:
    if not Path(python).exists():
        return "?"
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False).stdout.strip() or "?"


def _orthanc() -> str:
    program = shutil.which("Orthanc")
    if program is None:
        return "Orthanc is not installed"
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    return Path(told.splitlines()[0]).name


READERS = (
    Reader(
        name="DICOMweb on Orthanc",
        by="Orthanc's DICOMweb plug-in",
        tests=["tests/tools/imaging/test_dicomweb.py::test_orthanc_serves_the_films_of_a_chart"],
        version=_orthanc,
    ),
    Reader(
        name="MEDS export",
        by="the standard's own validators",
        tests=[
            "tests/exports/test_meds_export.py::test_the_standards_own_validators_pass",
            "tests/exports/test_meds_export.py::test_splits_are_folders_and_a_file_that_the_standard_takes",
            "tests/exports/test_meds_write.py::test_the_schemas_are_the_standards_and_then_ours",
        ],
        version=_installed("meds"),
    ),
    Reader(
        name="Inspect logs and OpenTelemetry spans",
        by="Inspect's log reader, OTLP's messages",
        tests=["tests/runs/test_episodes_exported.py::test_the_tools_they_are_for_open_them"],
        version=_of_readers_python,
    ),
    Reader(
        name="ATIF trajectories",
        by="the standard's own validator",
        tests=[
            "tests/learning/test_training_rows.py::test_atif_documents_are_valid_and_mark_what_was_copied",
            "tests/learning/test_training_rows.py::test_atif_marks_replies_told_on_an_earlier_branch",
        ],
        version=_installed("atif"),
    ),
)


def _verifiers(place: Place) -> SuiteResult:
    """Have verifiers play episodes: ``scripts/doors.py`` compares what it pays with what the world pays."""
    folder = place.path("doors")
    words = [sys.executable, "scripts/doors.py", str(folder), "--door", "verifiers", "--samples", str(_SAMPLES)]
    words += ["--store", str(place.store), "--benchmark", str(place.benchmark)]
    done = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    told = [line for line in done.stdout.splitlines() if line.startswith("verifiers")] or [done.stderr.strip()[-300:]]
    verdict: Verdict = "not run" if "not read" in told[0] else "failed" if done.returncode else "passed"
    python = str(folder / "venv-verifiers" / "bin" / "python")
    return SuiteResult(
        name="verifiers",
        version=f"verifiers {_version_in(python, 'verifiers')}" if verdict != "not run" else "verifiers",
        by="its own taskset and loop, whole episodes",
        scenarios=[Scenario(name="every episode is paid what the world pays", verdict=verdict, why=told[0])],
    )
