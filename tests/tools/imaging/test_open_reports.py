"""What sentences say of findings, on real reports (Open-i), against the index words that people gave them."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from wardround.tools.imaging import mentions_of

INDEX = {
    "Effusion": "pleural effusion",
    "Cardiomegaly": "cardiomegaly",
    "Atelectasis": "atelectasis",
    "Consolidation": "consolidation",
    "Lung Opacity": "opacity",
    "Hernia": "hernia",
}
EVERY = 5


def test_the_rule_of_thumb_agrees_with_the_index(shared_data: Path) -> None:
    file = shared_data / "cxr-reports-openi-iu" / "indiana_reports.csv.gz"
    if not file.is_file():
        pytest.skip("the Open-i reports are not here")
    with gzip.open(file, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))[::EVERY]
    right = said = indexed = 0
    for row in rows:
        present = {name for name, there in mentions_of(f"{row['findings']} {row['impression']}").items() if there}
        words = f"{row['Problems']};{row['MeSH']}".lower()
        meant = {name for name, word in INDEX.items() if word in words}
        right += len(present & meant)
        said += len(present & INDEX.keys())
        indexed += len(meant)
    assert right / said >= 0.80
    assert right / indexed >= 0.85
