"""The conformance rounds' own judgement: what passes, what does not apply, and a table that hides nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import wardround
from wardround.cli import main

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from conformance.mcp_official import REVISIONS, judge, not_applicable  # noqa: E402
from conformance.outcomes import DoesNotApply, Scenario, Scenarios, SuiteResult, played  # noqa: E402
from conformance.table import page, table  # noqa: E402


def check(name: str, status: str, **more: str) -> dict[str, str]:
    return {"id": name, "status": status, **more}


def suite(*verdicts: str) -> SuiteResult:
    scenarios = [Scenario(name=f"s{place}", verdict=verdict) for place, verdict in enumerate(verdicts)]  # type: ignore[arg-type]
    return SuiteResult(name="a suite", version="1", by="us", scenarios=scenarios, seconds=2.4)


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([check("a", "SUCCESS"), check("b", "INFO")], "passed"),
        ([check("a", "SUCCESS"), check("b", "FAILURE", errorMessage="no")], "failed"),
        ([check("b", "WARNING")], "failed"),
        ([], "failed"),
    ],
)
def test_a_scenario_passes_where_a_check_succeeds_and_none_fails(checks: list[dict[str, str]], verdict: str) -> None:
    assert judge("one", checks, {}).verdict == verdict


def test_a_check_that_does_not_apply_is_named_and_the_rest_still_counts() -> None:
    reasons = {"one:b": "there is no b", "two": "there is no two"}
    passed = judge("one", [check("a", "SUCCESS"), check("b", "FAILURE")], reasons)
    assert (passed.verdict, passed.why) == ("passed", "without b (there is no b)")
    assert judge("one", [check("a", "FAILURE"), check("b", "FAILURE")], reasons).verdict == "failed"
    assert judge("one", [check("b", "FAILURE")], reasons).verdict == "failed", "nothing is left that was seen"
    assert judge("two", [check("a", "FAILURE")], reasons).verdict == "not applicable"


def test_server_json_names_this_version_and_options_that_serve_mcp_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Whether it is valid by the registry's schema, a round sees."""
    described = json.loads((REPOSITORY / "server.json").read_text())
    (package,) = described["packages"]
    assert {described["version"], package["version"]} == {wardround.__version__}
    with pytest.raises(SystemExit):
        main(["serve", "mcp", "--help"])
    offered = capsys.readouterr().out
    assert all(one["name"] in offered for one in package["packageArguments"] if one["type"] == "named")


def test_every_reason_is_of_one_revision_or_all_and_none_is_given_twice() -> None:
    for revision in REVISIONS:
        assert all(reason for reason in not_applicable(revision).values())
    assert "ping" not in not_applicable("2025-11-25")
    assert "tools-list" not in not_applicable("2026-07-28")


def test_scenarios_are_played_in_order_and_one_that_raises_stops_none() -> None:
    scenarios: Scenarios[list[str]] = Scenarios()

    @scenarios.named("first")
    def _(seen: list[str]) -> None:
        seen.append("first")
        assert seen == [], "was it?"

    @scenarios.named("second")
    def _(seen: list[str]) -> None:
        raise DoesNotApply("not here")

    @scenarios.named("third")
    def _(seen: list[str]) -> None:
        seen.append("third")

    seen: list[str] = []
    outcomes = [(one.name, one.verdict) for one in played(scenarios, seen)]
    assert outcomes == [("first", "failed"), ("second", "not applicable"), ("third", "passed")]
    assert seen == ["first", "third"]
    with pytest.raises(ValueError, match="called 'first'"):
        scenarios.named("first")(len)


@pytest.mark.parametrize(
    ("verdicts", "failed"),
    [
        (("passed", "not applicable"), False),
        (("passed", "failed"), True),
        (("not applicable",), True),
        (("not run",), False),
        ((), True),
    ],
)
def test_a_suite_fails_where_a_scenario_does_or_nothing_was_asked(verdicts: tuple[str, ...], failed: bool) -> None:
    assert suite(*verdicts).failed is failed


def test_the_table_counts_every_scenario_and_the_page_names_them() -> None:
    result = suite("passed", "passed", "not applicable", "failed", "not run")
    assert table([result]).splitlines()[-1] == "| a suite | 1 | us | 5 | 2 | 1 | 1 | 1 | 2 |"
    told = page([result], "# Title\n", when="2026-11-22")
    assert all(f"| s{place} | {one.verdict} |" in told for place, one in enumerate(result.scenarios))
