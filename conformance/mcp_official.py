"""The official MCP suite against ``wardround serve mcp`` over HTTP, one revision of the protocol at a time."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from conformance.node import NodeTools, node_tools
from conformance.outcomes import Scenario, SuiteResult
from conformance.place import TOKEN, Place, command_serving, free_port
from conformance.token_forwarder import forwarding

PACKAGE = "@modelcontextprotocol/conformance"
REVISIONS = ("2025-11-25", "2026-07-28")
FIXTURES = ("test_simple_text", "test_image_content", "test_error_handling", "json_schema_2020_12_tool")
_REASONS = Path(__file__).with_name("mcp_not_applicable.toml")
_DATE_LENGTH = len("-2026-11-22T20-38-36-591Z")
Check = Mapping[str, Any]


def run_official(place: Place) -> Iterator[SuiteResult]:
    """Run the suite's requirements of each revision."""
    tools = node_tools(place)
    version = tools.version(PACKAGE)
    with serving_fixtures(place) as url:
        for revision in REVISIONS:
            scenarios = [*_judged(_checks(tools, place.fresh(f"mcp-{revision}"), revision, url), revision)]
            yield SuiteResult(
                name=f"MCP {revision}, official suite",
                version=f"{PACKAGE} {version}",
                by="the suite's own client, over HTTP",
                scenarios=scenarios,
            )


@contextmanager
def serving_fixtures(place: Place) -> Iterator[str]:
    """Serve one chart and, from a plug-in, the suite's tools; yields where clients without a token may call."""
    port = free_port()
    words = ["serve", "mcp", *place.chart_words(), "--http", "--port", str(port)]
    words += ["--plugin", str(Path(__file__).with_name("fixture_tools.py"))]
    words += [word for name in FIXTURES for word in ("--tool", name)]
    words += ["--access-log", str(place.path("mcp-access.jsonl"))]
    url, log = f"http://127.0.0.1:{port}", place.path("mcp-server.log")
    with (
        command_serving(*words, answers=f"{url}/mcp", log=log, variables={"WARDROUND_TOKEN": TOKEN}),
        forwarding(url, TOKEN) as open_url,
    ):
        yield f"{open_url}/mcp"


def _checks(tools: NodeTools, out: Path, revision: str, url: str) -> Mapping[str, Sequence[Check]]:
    """Run the suite; return what it checked, by scenario. RuntimeError: it checked nothing."""
    program = tools.modules / PACKAGE / "dist" / "index.js"
    done = tools.run(str(program), "server", "--url", url, "--requirements", revision, "--output-dir", str(out))
    out.with_suffix(".log").write_text(done.stdout + done.stderr)
    checks = {
        file.parent.name[:-_DATE_LENGTH].removeprefix("server-"): json.loads(file.read_text())
        for file in out.glob("server-*/checks.json")
    }
    if not checks:
        raise RuntimeError(f"the suite checked nothing: {(done.stderr or done.stdout)[-300:]}")
    return checks


def _judged(checks: Mapping[str, Sequence[Check]], revision: str) -> Iterator[Scenario]:
    reasons = not_applicable(revision)
    for name in sorted(checks):
        yield judge(name, checks[name], reasons)
    known = {name.partition(":")[0] for name in reasons}
    for name in sorted(known - checks.keys()):
        yield Scenario(name=name, verdict="failed", why=f"{_REASONS.name} names a scenario that the suite has not")


def judge(name: str, checks: Sequence[Check], reasons: Mapping[str, str]) -> Scenario:
    """Say what a scenario came to: it passes where a check succeeds and none fails that applies."""
    if name in reasons:
        return Scenario(name=name, verdict="not applicable", why=reasons[name])
    left_out = [one["id"] for one in checks if f"{name}:{one['id']}" in reasons]
    wrong = [f"{one['id']}: {one.get('errorMessage', '')}" for one in checks if one["status"] == "FAILURE"]
    wrong = [one for one in wrong if one.partition(":")[0] not in left_out]
    if wrong or not any(one["status"] == "SUCCESS" for one in checks):
        return Scenario(name=name, verdict="failed", why="; ".join(wrong) or "no check succeeded")
    notes = [f"without {one} ({reasons[f'{name}:{one}']})" for one in left_out]
    notes += [f"warning at {one['id']}" for one in checks if one["status"] == "WARNING"]
    return Scenario(name=name, verdict="passed", why="; ".join(notes))


@cache
def not_applicable(revision: str) -> Mapping[str, str]:
    """Return why scenarios (or checks, ``scenario:check``) of a revision do not apply to this server."""
    told = tomllib.loads(_REASONS.read_text())
    return {
        name: group["because"]
        for group in told["reason"]
        for name in group["scenarios"]
        if revision in group.get("revisions", REVISIONS)
    }
