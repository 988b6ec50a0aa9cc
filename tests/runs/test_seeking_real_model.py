"""An evidence-seeking episode small enough for a window of 8,192 tokens: four tools, short results, both arms.

With the real small model it needs ``WARDROUND_REAL_MODEL=1``; a bad answer is no fault.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

from fake_server import Answer, FakeServer, tools
from wardround.cli import main
from wardround.core import estimate_tokens

PLUGIN = """
from wardround.tools import TOOLSETS, NamedToolset

TOOLSETS.add(
    "little-seeking",
    NamedToolset(
        name="little-seeking",
        description="a record, a handbook and an answer, for small windows",
        tools=("run_sql_query", "browser.search", "retrieve_handbook", "finish"),
    ),
)
"""
SETTINGS = """
[run]
toolset = "little-seeking"

[model]
tool_calls = "auto"
temperature = 0.0

[budget]
turns = 3
context_tokens = 2400
reply_tokens = 96
result_tokens = 150
"""
TASK = "clinseek.LengthOfStay_3day"


@pytest.fixture(scope="module")
def little(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("little")
    (folder / "little_seeking.py").write_text(PLUGIN, encoding="utf-8")
    (folder / "little.toml").write_text(SETTINGS, encoding="utf-8")
    return folder


def played(url: str, model: str, little: Path, benchmark: Path, store: Path, out: Path) -> list[dict[str, Any]]:
    """Play one sample in both arms and return the scored episodes."""
    plugin = ["--plugin", str(little / "little_seeking.py")]
    words = ["run", str(little / "little.toml"), *plugin, "--model", f"openai/{model}", "--base-url", url]
    words += ["--benchmark", str(benchmark), "--store", str(store), "--task", TASK, "--agent", "react", "curated"]
    assert main([*words, "--limit", "1", "--workers", "1", "--concurrency", "1", "--out", str(out)]) == 0
    assert main(["report", *plugin, str(out)]) == 0
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def seeks(body: Mapping[str, Any]) -> Answer:
    """Reads the record, then the handbook, then answers."""
    done = sum(message["role"] == "assistant" for message in body["messages"])
    calls = (
        ("run_sql_query", {"sql_query": "SELECT admission_type FROM admissions"}),
        ("browser.search", {"query": "length of stay in hospital"}),
        ("finish", {"response": ["0"]}),
    )
    name, arguments = calls[min(done, 2)]
    return tools((name, json.dumps(arguments)))


def test_its_prompts_leave_room_in_a_small_window(
    little: Path, clinseek_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    with FakeServer(seeks) as server:
        rows = played(server.url, "test-model", little, clinseek_path, synthetic_store_path, tmp_path / "run")
    assert {row["agent"]: row["finish"] for row in rows}["react"] == "finish"
    sent = [request.body.decode() for request in server.requests]
    assert any("admission_type" in text and "Result of browser.search" in text for text in sent), (
        "both results are in the window"
    )
    assert max(map(estimate_tokens, sent)) < 3500


def test_a_real_small_model_plays_both_arms(
    real_model_url: str, little: Path, clinseek_path: Path, synthetic_store_path: Path, tmp_path: Path
) -> None:
    rows = played(real_model_url, "smollm2", little, clinseek_path, synthetic_store_path, tmp_path / "run")
    assert {row["agent"] for row in rows} == {"react", "curated"}
    assert all(row["finish"] in ("finish", "text", "length", "turn_limit") for row in rows)
    assert all(row["use"]["usage"]["input_tokens"] > 0 for row in rows)
