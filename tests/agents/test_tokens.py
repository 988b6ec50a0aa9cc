"""Counting: the estimator against hand counts, calibration, a tokenizer file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.agents import EstimatedTokens, FileTokens
from wardround.agents.loop.context import Calibration, count_message
from wardround.core import Message, ToolCall, UserError, estimate_tokens


def test_the_estimate_is_a_weighted_count_of_characters() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a" * 400) == 100
    assert estimate_tokens("1" * 100) == 135
    assert estimate_tokens("|" * 100) == 55
    assert estimate_tokens("é" * 100) == 75


def test_longer_text_never_counts_less() -> None:
    text = "labevents:12 | 2150-01-01 08:00:00 | Creatinine | 1.2 mg/dL\n" * 5
    counts = [estimate_tokens(text[:end]) for end in range(len(text))]
    assert counts == sorted(counts)


def test_a_message_counts_its_calls() -> None:
    counter = EstimatedTokens()
    bare = Message(role="assistant", content="word " * 20)
    calling = Message(
        role="assistant", content="word " * 20, tool_calls=(ToolCall(id="1", name="think", arguments="{}"),)
    )
    assert count_message(counter, calling) > count_message(counter, bare) >= estimate_tokens("word " * 20)


def test_calibration_only_rises_and_is_bounded() -> None:
    calibration = Calibration()
    assert not calibration.observe(1000, 800)
    assert calibration.factor == 1.0
    assert calibration.observe(1000, 1300)
    assert calibration.factor == pytest.approx(1.3)
    assert not calibration.observe(1000, 1100)
    calibration.observe(10, 1000)
    assert calibration.factor == 3.0
    assert not Calibration().observe(0, 100)


def test_a_missing_tokenizer_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        FileTokens(tmp_path)


def test_a_tokenizer_file_gives_exact_counts(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs tokenizers")
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "[UNK]": 2}, "unk_token": "[UNK]"}
    body = {"version": "1.0", "model": model, "pre_tokenizer": {"type": "Whitespace"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(body), encoding="utf-8")
    assert FileTokens(tmp_path).count("a b a") == 3
