"""Reports of runs: tables, comparisons with paired tests, figures and pages."""

from wardround.reports.analyses import Point, points_of
from wardround.reports.arms import arm_table
from wardround.reports.comparing import Comparison, Pair, compare_all
from wardround.reports.opened_run import OpenedEpisode, OpenedRun, compare, compare_runs, forecast, run, settings
from wardround.reports.predictions import Curve, curves, predictor_rows
from wardround.reports.report import leak_test_page, report_run, write_predictor_report, write_report
from wardround.reports.run_tables import subgroup_table
from wardround.reports.summary import GROUPINGS, RunSummary, by_contender, by_subgroup, summarise_run

__all__ = [
    "GROUPINGS",
    "Comparison",
    "Curve",
    "OpenedEpisode",
    "OpenedRun",
    "Pair",
    "Point",
    "RunSummary",
    "arm_table",
    "by_contender",
    "by_subgroup",
    "compare",
    "compare_all",
    "compare_runs",
    "curves",
    "forecast",
    "leak_test_page",
    "points_of",
    "predictor_rows",
    "report_run",
    "run",
    "settings",
    "subgroup_table",
    "summarise_run",
    "write_predictor_report",
    "write_report",
]
