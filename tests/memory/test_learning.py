"""Learning from episodes: one transaction each, one writer of Q, and what is withdrawn is unlearnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from memory_doubles import lesson, patient

from wardround.core import UserError
from wardround.memory import Bank, Edge, export_bank, forget, import_bank, render_experiences, undo, withdraw
from wardround.memory.credit import EpisodeName, first_quality, is_masked
from wardround.memory.learning import EvolutionSettings, LearningResult, PlayedEpisode, learn
from wardround.memory.outcomes import LearningRule


def _bank(path: Path, *names: str, key: bytes = b"k" * 32) -> tuple[Bank, list[str]]:
    bank = Bank.open(path / "bank.sqlite")
    bank.adopt_subject_key(key)  # ids follow from it, and coins from ids
    made = [lesson(bank, name, number, kind="indication") for number, name in enumerate(names)]
    bank.add(made)
    return bank, [one.id for one in made]


def _played(
    number: int, score: float, shown: list[str], masked: list[str] | None = None, *, split: str = "train"
) -> PlayedEpisode:
    name = EpisodeName(run="run", agent="react", sample=f"stream-{number:03}", epoch=1)
    return PlayedEpisode(
        name=name, sample=name.sample, task="diagnoses", split=split, score=score, shown=shown, masked=masked or []
    )


PUBLISHED = EvolutionSettings(quality="eq10", delta_baseline="none")


def test_equations_8_to_10_move_a_bank_once(tmp_path: Path) -> None:
    bank, (one, two) = _bank(tmp_path, "one", "two")
    with bank:
        bank.set_graph(edges=[Edge(source=one, target=two, weight=0.4)], reason="linked")
        before = bank.revision
        assert learn(bank, _played(1, 1.0, [one, two]), PUBLISHED) == LearningResult(revision=before + 1, shown=2)
        # shares 0.8 / 1.44 and 0.64 / 1.44, rate 0.1; the only edge has all of its credit, rate 0.05
        assert bank.graph().quality(one) == pytest.approx(0.5 + 0.08 / 1.44)
        assert bank.graph().quality(two) == pytest.approx(0.5 + 0.064 / 1.44)
        assert bank.graph().edges(one)[0].weight == pytest.approx(0.45)
        assert learn(bank, _played(1, 1.0, [one, two]), PUBLISHED) is None
        assert bank.revision == before + 1
        learn(bank, _played(2, 0.0, [one, two]), PUBLISHED)
        assert bank.graph().edges(one)[0].weight == pytest.approx(0.4)  # W0 + phi, phi back at 0


def test_one_writer_moves_quality(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank:
        learn(bank, _played(1, 1.0, [one]))
        at = bank.revision
        with pytest.raises(UserError, match="written by 'credit'"):
            learn(bank, _played(2, 1.0, [one]), PUBLISHED)
        assert bank.revision == at
        assert [(said.score, said.met[0].shown) for said in bank.outcomes(one)] == [(1.0, True)]


def test_nothing_is_learnt_from_other_splits(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank, pytest.raises(UserError, match="split is 'test'"):
        learn(bank, _played(1, 1.0, [one], split="test"))


def test_what_is_withdrawn_or_forgotten_is_unlearnt(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank:
        for number in range(40):
            masked = number % 2 == 1
            learn(bank, _played(number, float(not masked), [] if masked else [one], [one] if masked else []))
        assert (bank.graph().quality(one) or 0.0) > 0.6
        withdraw(bank, "stream-000", reason="wrong patient")
        assert bank.graph().evidence(one)["diagnoses"].shown == 19
        forget(bank, "stream-002", reason="asked for")
        assert bank.graph().evidence(one)["diagnoses"].shown == 18
    assert b"stream-002" not in (tmp_path / "bank.sqlite").read_bytes()


@pytest.mark.parametrize("key", [b"k", b"a", b"d"])
def test_the_good_rise_the_harmful_fall_the_inert_stay(tmp_path: Path, key: bytes) -> None:
    bank, (good, harmful, inert) = _bank(tmp_path, "good", "harmful", "inert", key=key * 32)
    source = Random(4)
    with bank:
        for number in range(250):
            name = _played(number, 0.0, []).name
            masked = [one for one in (good, harmful, inert) if is_masked(name, one, seed=1)]
            shown = [one for one in (good, harmful, inert) if one not in masked]
            chance = 0.5 + 0.4 * (good in shown) - 0.4 * (harmful in shown)
            learn(bank, _played(number, float(source.random() < chance), shown, masked))
        graph = bank.graph()
        found = {name: graph.quality(one) for name, one in (("good", good), ("bad", harmful), ("inert", inert))}
        harm = {one: effect.harm for one in (good, harmful) if (effect := bank.graph(task="diagnoses").effect(one))}
    assert (found["bad"] or 1.0) < 0.5 < (found["good"] or 0.0), "as far as the last 200 or so episodes are sure"
    assert harm[good] < 0.01, "also by recent evidence, of some 30 episodes, in which the effect is 3 deviations from 0"
    assert harm[harmful] > 0.999
    assert found["inert"] == pytest.approx(0.5, abs=0.05)


def test_accuracy_rises_over_an_ordered_stream_at_its_snapshots(tmp_path: Path) -> None:
    bank, items = _bank(tmp_path, "good", "harmful", "inert")
    effects = {items[0]: 0.4, items[1]: -0.4, items[2]: 0.0}
    source = Random(11)

    def eligible(revision: int) -> list[str]:
        """The best two by quality; among equals the harmful one comes first."""
        graph = bank.graph(revision=revision)
        qualities = {one: graph.quality(one) for one in items}
        known = {one: 0.5 if value is None else value for one, value in qualities.items()}
        return sorted(items, key=lambda one: (-known[one], effects[one]))[:2]

    def accuracy(revision: int) -> float:
        return 0.5 + sum(effects[one] for one in eligible(revision))

    with bank:
        snapshots = {0: bank.revision}
        for number in range(1, 251):
            name = _played(number, 0.0, []).name
            met = eligible(bank.revision)
            masked = [one for one in met if is_masked(name, one, seed=1)]
            shown = [one for one in met if one not in masked]
            success = source.random() < 0.5 + sum(effects[one] for one in shown)
            learn(bank, _played(number, float(success), shown, masked))
            if number in (50, 150, 250):
                snapshots[number] = bank.revision
        reached = {number: accuracy(revision) for number, revision in snapshots.items()}
    assert reached[0] == pytest.approx(0.1)
    assert reached[250] == pytest.approx(0.9)
    assert list(reached.values()) == sorted(reached.values())


def _edge(bank: Bank, one: str, two: str) -> tuple[float, float]:
    (edge,) = bank.graph().edges(one)
    assert edge.target == two
    return edge.weight, edge.phi


def test_both_readings_of_equation_10_keep_phi_beyond_the_clip(tmp_path: Path) -> None:
    for reading, expected in (("prior", [0.45, 0.5, 0.45]), ("compounding", [0.45, 0.55, 0.6])):
        bank, (one, two) = _bank(tmp_path / reading, "one", "two")
        settings = EvolutionSettings(quality="eq10", delta_baseline="none", weight_reading=reading)  # type: ignore[arg-type]
        with bank:
            bank.set_graph(edges=[Edge(source=one, target=two, weight=0.4)], reason="linked")
            met = []
            for number, score in enumerate((1.0, 1.0, 0.0)):
                learn(bank, _played(number, score, [one, two]), settings)
                met.append(_edge(bank, one, two)[0])
            assert met == pytest.approx(expected)
            assert _edge(bank, one, two)[1] == pytest.approx(0.05)
    bank, (one, two) = _bank(tmp_path / "clipped", "one", "two")
    with bank:
        bank.set_graph(edges=[Edge(source=one, target=two, weight=0.98)], reason="linked")
        for number, score in enumerate((1.0, 1.0, 0.0, 0.0, 0.0)):
            learn(bank, _played(number, score, [one, two]), PUBLISHED)
        assert _edge(bank, one, two) == pytest.approx((0.93, -0.05)), "what was cut off is not lost"


def test_an_item_that_flips_by_task_has_an_effect_in_each(tmp_path: Path) -> None:
    bank, (flipping,) = _bank(tmp_path, "flipping")
    with bank:
        for number in range(120):
            shown, masked = ([flipping], []) if number % 2 else ([], [flipping])
            helped, harmed = _played(number, 0.0, shown, masked), _played(1000 + number, 0.0, shown, masked)
            learn(bank, replace(helped, task="helps", score=float(bool(shown))))
            learn(bank, replace(harmed, task="harms", score=float(not shown)))
        by_task = {task: bank.graph(task=task) for task in ("helps", "harms", "unmet")}
        qualities = {task: graph.quality(flipping) or 0.0 for task, graph in by_task.items()}
        harms = {task: effect.harm for task, graph in by_task.items() if (effect := graph.effect(flipping))}
        assert qualities["helps"] > 0.8
        assert qualities["harms"] < 0.2
        assert 0.3 < qualities["unmet"] < 0.7
        assert harms["harms"] > 0.99
        assert harms["helps"] < 0.01
        assert 0.3 < harms["unmet"] < 0.7, "barred only where it harms"


def test_what_says_the_same_shares_its_evidence_and_what_does_not_has_its_own(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        same = {"kind": "indication", "condition": "Sepsis", "content": "Give fluids"}
        one, two = lesson(bank, "one", 1, **same), lesson(bank, "One", 2, **same | {"content": "give  FLUIDS"})
        other = lesson(bank, "one", 3, **same, exclusions=("heart failure",))
        bank.add([one, two, other])
        for number in range(20):
            learn(bank, _played(number, 0.0, [one.id] if number % 2 else [two.id]))
        evidence = [bank.graph().evidence(name.id) for name in (one, two, other)]
        assert evidence[0] == evidence[1]
        assert evidence[0]["diagnoses"].shown == 20
        assert evidence[2] == {}
        bank.revise(two.id, content="Give no fluids", reason="corrected")
        assert bank.graph().evidence(two.id)["diagnoses"].shown == 10, "it says something else now"


def test_what_says_the_same_is_said_once_with_its_cases_as_far_as_they_may_be_served(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        same = [lesson(bank, "same", number, content=f"Do  it{' ' * number}") for number in range(1, 5)]
        other = lesson(bank, "same", 5, content="Do not")
        bank.add([*same, other])

        def said(subject: int) -> list[tuple[str, int]]:
            found = bank.without_duplicates([same[1], other, *same[2:]], patient(subject))
            return [(one.id, one.facts.get("cases", 1)) for one in found]

        assert said(9) == [(same[1].id, 4), (other.id, 1)]
        assert said(1) == [(same[1].id, 3), (other.id, 1)], "its own case is none of those"
        withdraw(bank, "sample-4", reason="wrong patient")
        assert said(9) == [(same[1].id, 3), (other.id, 1)]
        text = render_experiences(bank.without_duplicates(same[1:], patient(9))).text
        assert text.count("same (learnt from 3 cases)") == 1


def test_going_back_takes_outcomes_along_and_a_withdrawal_after_it_is_exact(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank:
        for number in range(3):
            learn(bank, _played(number, 1.0, [one]))
        then = bank.revision
        for number in range(3, 6):
            learn(bank, _played(number, 0.0, [], [one]))
        undo(bank, to=then, reason="back")
        evidence = bank.graph().evidence(one)["diagnoses"]
        assert (evidence.shown, evidence.masked) == (3, 0)
        withdraw(bank, "stream-001", reason="wrong patient")
        assert bank.graph().evidence(one)["diagnoses"].shown == 2
        withdraw(bank, "stream-004", reason="wrong patient")
        evidence = bank.graph().evidence(one)["diagnoses"]
        assert (evidence.shown, evidence.masked) == (2, 0), "it was undone already"


def test_equation_4_counts_every_trial_but_those_that_were_withdrawn(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank:
        for number, right in enumerate((1.0, 0.0, 1.0)):
            learn(bank, _played(number, right, [one]), PUBLISHED, rule=LearningRule(writer="eq4"))
        assert bank.graph().quality(one) == first_quality(2, 3)
        withdraw(bank, "stream-002", reason="wrong patient")
        assert bank.graph().quality(one) == first_quality(1, 2)


def test_outcomes_travel_with_an_export(tmp_path: Path) -> None:
    bank, (one,) = _bank(tmp_path, "one")
    with bank, Bank.open(tmp_path / "other.sqlite") as other:
        learn(bank, _played(1, 1.0, [one]))
        export_bank(bank, tmp_path / "bank.jsonl")
        import_bank(other, tmp_path / "bank.jsonl")
        assert other.graph().evidence(one) == bank.graph().evidence(one) != {}
        withdraw(other, "stream-001", reason="wrong patient")
        assert other.graph().evidence(one) == {}, "who gave it came along"
