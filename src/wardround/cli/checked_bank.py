"""The contamination check after a command that wrote into a bank, and its one line."""

from __future__ import annotations

from wardround.memory import Bank, ContaminationReport, contamination_check
from wardround.runs import RunFolder, open_benchmark


def checked(folder: RunFolder, bank: Bank) -> ContaminationReport:
    """Check the bank against the benchmark it was drawn from."""
    return contamination_check(bank, open_benchmark(folder).all_samples, source=str(folder.manifest["people"]))


def print_contamination(report: ContaminationReport) -> None:
    """Say what it found."""
    if report.clean:
        print(f"contamination check: clean ({report.evaluation_samples:,} evaluation samples)")
        return
    found = ", ".join(f"{number:,} {kind}" for kind, number in report.counts().items() if number)
    print(f"contamination check: {found}")
