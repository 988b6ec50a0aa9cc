"""The last screen of ``make demo``: what was made, three figures, three things to try next, where the report is.

python scripts/demo_end.py demo
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from wardround.records import Store
from wardround.reports import OpenedRun
from wardround.tasks.benchmarks import Benchmark
from wardround.tasks.scoring import SummaryRow, trivial_scores


def main() -> int:
    """Print the screen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what make demo wrote")
    folder: Path = parser.parse_args().folder
    print(screen(folder, Path(sys.executable).with_name("wardround")))
    return 0


def screen(folder: Path, command: Path) -> str:
    """Return the screen of a demo's folder; ``command``: how this installation is called."""
    here = Path.cwd()
    shown = command.relative_to(here) if command.is_relative_to(here) else command
    run = OpenedRun.open(folder / "run")
    bench, store = Benchmark.open(folder / "bench"), Store.open(folder / "store")
    rows = {row.task: row for row in run.summary() if row.stratum == "all"}
    page = next((folder / "seeking" / "run" / "report" / "episodes").glob("*.html"), None)
    lines = [
        "",
        "=" * 78,
        f"made    {folder}/hospital   a synthetic hospital in MIMIC-IV's files",
        f"        {folder}/store      {len(store.subjects):,} patients; each row knows since when it could be read",
        f"        {folder}/bench      {len(bench.all_samples):,} questions of {len(bench.tasks)} tasks",
        f"        {folder}/run        {run.done:,} episodes, answered by rules: no language model took part",
        "",
        *_figures(rows, bench, {score.sample for score in run.scored()}),
        "",
        f"try     {shown} view {folder}/run      # every episode beside its record; needs the extra [view]",
        f"        {shown} audit leaks --store {folder}/store --benchmark {folder}/bench --limit 20 \\",
        f"            --raw {folder}/hospital      # was anything visible that was not known yet?",
        f"        {shown} run --benchmark {folder}/bench --store {folder}/store --agent retrosum \\",
        f"            --out {folder}/second        # another method; then: compare {folder}/run {folder}/second",
        "",
        f"report  {folder}/run/report/index.html",
        *([f"        {page}  (a record, a handbook page, a chest film)"] if page else []),
        "=" * 78,
    ]
    return "\n".join(lines)


def _figures(rows: dict[str, SummaryRow], bench: Benchmark, samples: set[str]) -> list[str]:
    """The score with its interval, the tasks ahead of a trivial baseline, the citations that hold."""
    whole = rows["all"]
    trivial = {one.task: one.means[one.best] for one in trivial_scores(bench, samples)}
    ahead = [task for task, best in trivial.items() if task in rows and rows[task].f1.estimate > best]
    share, cited = whole.grounding.share, whole.grounding.citations
    holding = "none" if share is None else f"{share:.0%}"
    interval = f"{whole.f1.as_text()}; {whole.subjects} patients"
    return [
        f"found   {whole.f1.estimate:.3f}   mean F1 of {len(trivial)} tasks ({interval})",
        f"        {len(ahead)} of {len(trivial)}  tasks with a score above the best trivial baseline, before any test",
        f"        {holding:<6}  of {cited:,} citations exist, were read and name their answer",
    ]


if __name__ == "__main__":
    sys.exit(main())
