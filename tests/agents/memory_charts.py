"""A bank with experiences of every kind, of two training patients of the synthetic hospital and of the chart's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wardround.agents import Memory
from wardround.memory import Bank, Experience, Kind, PinnedBank, Provenance, Subject, chart_key
from wardround.records import Chart, Store
from wardround.tools.retrieval import LexicalEncoder

TASK = "diagnoses"
SOURCE = "mimiciv"


def subjects(store: Store) -> list[int]:
    """The chart's patient, then the others."""
    return [int(number) for number in store.subjects[:4]]


def chart_of(store: Store, place: int = 0) -> Chart:
    """A chart in the middle of its patient's first stay."""
    subject = subjects(store)[place]
    admissions = store.rows(subject, "admissions")
    return store.chart(subject, admissions.column("admittime").to_pylist()[0].replace(hour=23, minute=59))


def _experience(bank: Bank, kind: Kind, title: str, subject: int, **more: Any) -> Experience:
    fields: dict[str, Any] = {"task": TASK, "split": "train", "tool": "", **more}
    origin = Provenance(
        sample=f"sample-{subject}",
        subject=bank.subject_hash(Subject(source=SOURCE, subject_id=subject)),
        split=fields.pop("split"),
    )
    return Experience(
        kind=kind, title=title, description="", content=" ".join([f"{title}: do so."] * 8), provenance=origin, **fields
    )


def filled_memory(store: Store, path: Path) -> Memory:
    """Open a bank that offers something to the first patient, and something it must not be offered."""
    encoder = LexicalEncoder()
    own, near, far, test = subjects(store)
    with Bank.open(path) as bank:
        for place, (subject, whose) in enumerate(((own, "of this patient"), (near, "near"), (far, "far"))):
            # the near patient's key is the chart's own, so that what is nearest is known
            chart = chart_of(store, 0 if whose == "near" else place)
            made = [_experience(bank, kind, f"{kind} lesson {whose}", subject) for kind in ("actor", "summariser")]
            made.append(_experience(bank, "reasoning", f"strategy {whose}", subject))
            bank.add(made, key=chart_key(encoder, chart))
        bank.add(
            [_experience(bank, "actor", "from the test split", test, split="test")],
            key=chart_key(encoder, chart_of(store)),
        )
        bank.add(
            [_experience(bank, "actor", "of another task", far, task="transfers")],
            key=chart_key(encoder, chart_of(store)),
        )
        for number in range(3):
            bank.add(
                [_experience(bank, "tool", f"Rows advice {number}", near, tool="get_rows", score=1.0 - number / 10)]
            )
        bank.add([_experience(bank, "tool", "Rows advice of this patient", own, tool="get_rows", score=2.0)])
        bank.add([_experience(bank, "tool", "Finish advice", far, tool="finish")])
    return Memory(bank=PinnedBank.open(path), encoder=encoder)  # as a run reads it
