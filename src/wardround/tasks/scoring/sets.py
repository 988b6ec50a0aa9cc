"""Set precision, recall and F1 (AgentEHR eq. 12-14), Best@K (eq. 15-17), pass^k. Text is matched, never evaluated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wardround.clinical.codes import LabelSet, normalise_label
from wardround.core import UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class SetScore:
    """One answer against one target: ``hits`` of ``answered`` are among the ``wanted``. ``outside`` lists the answers
    that are no spelling of any candidate (they count as wrong)."""

    precision: float
    recall: float
    f1: float
    hits: int
    answered: int
    wanted: int
    outside: tuple[str, ...] = ()


def set_scores(answer: Iterable[str] | None, target: Iterable[str], label_set: LabelSet | None = None) -> SetScore:
    """Score an answer as a set (eq. 12-14).

    Answers and targets are normalised (Unicode NFKC, case, inner space), resolved to official labels through
    ``label_set`` and compared as sets: duplicates and alias spellings count once. No answer is the empty set. Both
    empty scores 1; one empty scores 0.
    """
    answers = {_key(text, label_set): text for text in answer or () if text.strip()}
    targets = {_key(text, label_set) for text in target}
    hits = len(answers.keys() & targets)
    precision = _share(hits, len(answers), both_empty=not answers and not targets)
    recall = _share(hits, len(targets), both_empty=not answers and not targets)
    total = precision + recall
    outside = tuple(sorted(text for text in answers.values() if label_set is not None and not label_set.resolve(text)))
    return SetScore(
        precision=precision,
        recall=recall,
        f1=2 * precision * recall / total if total else 0.0,
        hits=hits,
        answered=len(answers),
        wanted=len(targets),
        outside=outside,
    )


def class_score(answer: Iterable[str] | None, target: str, label_set: LabelSet) -> SetScore:
    """Score an answer that must be one class: 1 if it names the target and nothing else, else 0."""
    given = {_key(text, label_set): text for text in answer or () if text.strip()}
    right = given.keys() == {_key(target, label_set)}
    return SetScore(
        precision=float(right),
        recall=float(right),
        f1=float(right),
        hits=int(right),
        answered=len(given),
        wanted=1,
        outside=tuple(sorted(text for text in given.values() if not label_set.resolve(text))),
    )


def best_at_k(scores: Sequence[float], k: int) -> float:
    """Return the expected best of ``k`` scores drawn from all without replacement (eq. 15), exactly.

    The j-th smallest of N is the best of C(j-1, k-1) of the C(N, k) subsets.
    """
    n = len(scores)
    if not 1 <= k <= n:
        raise UserError(f"Best@{k} needs between 1 and {n} trajectories")
    subsets = math.comb(n, k)
    ordered = sorted(scores)
    return math.fsum(ordered[j] * (math.comb(j, k - 1) / subsets) for j in range(k - 1, n))


def pass_hat_k(right: Sequence[bool], k: int) -> float:
    """Return the chance that ``k`` answers drawn from all without replacement are all right (tau-bench's pass^k).

    Of N answers with c right ones it is C(c, k) / C(N, k), exactly.
    """
    n = len(right)
    if not 1 <= k <= n:
        raise UserError(f"pass^{k} needs between 1 and {n} trajectories")
    return math.comb(sum(right), k) / math.comb(n, k)


def _key(text: str, label_set: LabelSet | None) -> str:
    official = label_set.resolve(text) if label_set is not None else None
    return normalise_label(official if official is not None else text)


def _share(part: int, whole: int, *, both_empty: bool) -> float:
    if whole == 0:
        return 1.0 if both_empty else 0.0
    return part / whole
