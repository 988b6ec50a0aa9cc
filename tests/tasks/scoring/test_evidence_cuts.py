"""How cut evidence is summed up, by hand."""

from __future__ import annotations

from wardround.tasks.scoring import EvidenceCut, events_left_out, evidence_cut


def test_an_episode_s_loss_is_that_of_its_worst_prompt() -> None:
    assert events_left_out([]) is None
    assert events_left_out([{"events_left_out": 3}, {"events_left_out": 182}, {}]) == 182
    assert events_left_out([{"role": "actor"}]) == 0


def test_the_mean_is_over_the_episodes_that_lost_any() -> None:
    assert evidence_cut([None, None]) is None
    found = evidence_cut([None, 0, 100, 300])
    assert found == EvidenceCut(episodes=2, of=3, events=200.0)
    assert (str(found), found.short if found else "") == ("2 of 3 episodes (200 events each)", "2 of 3 (-200)")
    whole = evidence_cut([0, 0])
    assert whole is not None
    assert whole.short == "0 of 2"
