"""Reports and boxes in the words of models that write no JSON; forms as their public model cards show them."""

from __future__ import annotations

from typing import Any

import pytest

from fake_server import Answer, FakeServer, text
from wardround.core import Picture, ToolFailure
from wardround.models import DataUseGuard, ModelConfig, open_model
from wardround.tools.imaging.reports import EndpointPhrases, EndpointReports

PICTURE = Picture(data=b"\x89PNG\r\n\x1a\n", media_type="image/png", sha256="0" * 64, width=8, height=8, title="film")


def asked(reply: str, what: Any) -> tuple[Any, int]:
    """What an adapter makes of a model that always replies so, and how often it asked."""

    def answer(body: Any) -> Answer:
        return text(reply)

    with FakeServer(answer, models=("vision",)) as server:
        found = what(open_model(ModelConfig(name="openai/vision", base_url=server.url, guard=DataUseGuard())))
        return found, len(server.requests)


@pytest.mark.parametrize(
    ("reply", "findings", "impression"),
    [
        (
            "FINDINGS: The heart is enlarged. No pneumothorax.\nIMPRESSION: Cardiomegaly.",
            "The heart is enlarged. No pneumothorax.",
            "Cardiomegaly.",
        ),
        ("**Findings:**\nClear lungs.\n\n**Impression:**\n1. Normal chest.", "Clear lungs.", "1. Normal chest."),
        (
            "## Conclusion: Effusion on the left.\n## Findings: Blunted angle.",
            "Blunted angle.",
            "Effusion on the left.",
        ),
        ("Low lung volumes with bibasilar atelectasis.", "Low lung volumes with bibasilar atelectasis.", ""),
        ('{"findings": "Clear.", "impression": "Normal."}', "Clear.", "Normal."),
        (
            "Cardiomegaly is <obj>present<box><x10><y20><x55><y55></box></obj>. No effusion.",
            "Cardiomegaly is present. No effusion.",
            "",
        ),
        ("<think>IMPRESSION: cancer</think>FINDINGS: Clear lungs throughout.", "Clear lungs throughout.", ""),
    ],
)
def test_a_report_in_prose_is_a_report(reply: str, findings: str, impression: str) -> None:
    report, calls = asked(reply, lambda model: EndpointReports(model).write(PICTURE))
    assert (report.findings, report.impression) == (findings, impression)
    assert calls == 1


@pytest.mark.parametrize("reply", ["", "Sure!", '{"findings": 3}', "<tool_call>look</tool_call>"])
def test_what_is_no_report_is_asked_for_once_more_and_then_said(reply: str) -> None:
    with pytest.raises(ToolFailure, match="no usable answer"):
        asked(reply, lambda model: EndpointReports(model).write(PICTURE))


@pytest.mark.parametrize(
    ("reply", "boxes"),
    [
        ("<obj>left effusion<box><x10><y20><x55><y50></box></obj>", [(0.10, 0.20, 0.55, 0.50)]),
        ("<loc0256><loc0128><loc0768><loc0512> left effusion", [(0.125, 0.25, 0.5, 0.75)]),
        ("<|ref|>effusion<|/ref|><|box|> (10,20),(55,50) <|/box|>", [(0.10, 0.20, 0.55, 0.50)]),
        ("<ref>effusion</ref><box>(100,200),(550,500)</box><box>(0,0),(10,10)</box>",
         [(0.1, 0.2, 0.55, 0.5), (0.0, 0.0, 0.01, 0.01)]),
        ('{"boxes": [[0.1, 0.2, 0.55, 0.5]]}', [(0.1, 0.2, 0.55, 0.5)]),
        ('{"boxes": []}', []),
    ],
)  # fmt: skip
def test_boxes_in_the_form_of_the_model(reply: str, boxes: list[tuple[float, ...]]) -> None:
    found, _ = asked(reply, lambda model: EndpointPhrases(model).find(PICTURE, "effusion"))
    assert [pytest.approx(box) for box in boxes] == list(found)


@pytest.mark.parametrize(
    "reply", ['{"boxes": [[120, 40, 300, 250]]}', "It is in the left lower zone.", "(10,20),(55,50)"]
)
def test_a_box_whose_scale_nobody_says_is_not_guessed(reply: str) -> None:
    with pytest.raises(ToolFailure, match="no usable answer"):
        asked(reply, lambda model: EndpointPhrases(model).find(PICTURE, "effusion"))
