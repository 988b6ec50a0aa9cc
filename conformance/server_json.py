"""``server.json`` against the published schema of the MCP registry, and against the command that it describes."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft7Validator
from mcp import Client, StdioServerParameters

import wardround
from conformance.node import packaged
from conformance.outcomes import Scenarios, SuiteResult, played
from conformance.place import REPOSITORY, Place

_SCHEMA = "skillsaw/schemas/mcp_registry/v2025_12_11"
_REVISION = "2025-12-11"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionCounts:
    """The file, the schema, and a place with a chart to serve."""

    server: Mapping[str, Any]
    schema: Draft7Validator
    place: Place

    @property
    def package(self) -> Mapping[str, Any]:
        """The one package that it names."""
        (package,) = self.server["packages"]
        assert isinstance(package, dict)
        return package


SCENARIOS: Scenarios[DescriptionCounts] = Scenarios()


def run_server_json(place: Place) -> Iterator[SuiteResult]:
    """Read both and play every scenario."""
    folder = packaged(place) / _SCHEMA
    schema = json.loads((folder / "server.schema.json").read_text())
    licence = (folder / "LICENSE").read_text().splitlines()[0]
    server = json.loads((REPOSITORY / "server.json").read_text())
    described = DescriptionCounts(
        server=server, schema=Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER), place=place
    )
    yield SuiteResult(
        name="server.json",
        version=f"MCP registry schema {_REVISION} ({licence})",
        by="jsonschema; the schema as the package skillsaw carries it",
        scenarios=[*played(SCENARIOS, described)],
    )


@SCENARIOS.named("it is valid by the schema that it names")
def _(given: DescriptionCounts) -> None:
    assert given.server["$schema"] == given.schema.schema["$id"]
    wrong = [f"{error.json_path}: {error.message}" for error in given.schema.iter_errors(given.server)]
    assert not wrong, wrong


@SCENARIOS.named("the schema refuses what the registry refuses")
def _(given: DescriptionCounts) -> None:
    for path, value in (
        (("description",), "x" * 101),
        (("name",), "no-slash"),
        (("version",), 1),
        (("packages", 0, "version"), "latest"),
        (("packages", 0, "transport", "type"), "carrier pigeon"),
        (("packages", 0, "packageArguments", 2, "type"), "named or so"),
    ):
        assert not given.schema.is_valid(_changed(given.server, path, value)), f"{path} may be {value!r}"


@SCENARIOS.named("its versions are the package's own, exactly")
def _(given: DescriptionCounts) -> None:
    told = (given.server["version"], given.package["version"], given.package["runtimeArguments"][0]["value"])
    assert told == (wardround.__version__, wardround.__version__, f"wardround[mcp]=={wardround.__version__}"), told


@SCENARIOS.named("the command that it describes serves the chart to the official SDK over stdio")
def _(given: DescriptionCounts) -> None:
    words = given.place.chart_words()
    options = dict(zip(words[::2], words[1::2], strict=True))
    arguments = [*_command_line(given.package["packageArguments"], options)]
    arguments += ["--access-log", str(given.place.path("stdio-access.jsonl"))]
    command = StdioServerParameters(command=sys.executable, args=["-m", "wardround", *arguments])
    assert asyncio.run(_tools_of(command)), "no tool is offered"


async def _tools_of(command: StdioServerParameters) -> Sequence[str]:
    async with Client(command) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def _command_line(described: Sequence[Mapping[str, Any]], options: Mapping[str, str]) -> Iterator[str]:
    for one in described:
        if one["type"] == "positional":
            yield one["value"]
        else:
            yield one["name"]
            yield options.get(one["name"]) or one["default"]


def _changed(body: Mapping[str, Any], path: Sequence[str | int], value: object) -> Mapping[str, Any]:
    changed: Any = copy.deepcopy(body)
    within = changed
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = value
    found: Mapping[str, Any] = changed
    return found
