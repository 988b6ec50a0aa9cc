"""What the offline policy reads, by role, and how it weighs findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wardround.models.offline.conversation import OfflineFinding, OfflineFindings, Result
from wardround.models.offline.plan import (
    Ask,
    PlanStep,
    Reading,
    Shown,
    abnormal,
    counts,
    last_stay,
    latest,
    latest_names,
    latest_texts,
    number,
    organisms,
    row_ids,
    rows_of,
    rules_for,
    since,
    tally,
    thinking,
    thoughts_on,
)
from wardround.records import Roles, RowRole

# A step is skipped where no table on the chart has its role, or where no rule would use its results.


_MOST_ABNORMAL = 25
_HOURS_BEFORE_A_STAY = 48


def shown(role: RowRole | None, known: OfflineFindings) -> Shown | None:
    """Return a role as a chart shows it; None where it has no rows or no label column."""
    if role is None or not known.table(role.table):
        return None
    shown_role = Shown.of(role, known.columns(role.table))
    return shown_role if shown_role.label else None


def plain_name(role: RowRole, label: str) -> str:
    """Return the code without the wrapping of the role's forms."""
    codes = (code for _, code, _ in role.readings(label)) if role.forms else iter(())
    return next(codes, label)


def stay_step(roles: Roles) -> PlanStep:
    """Find when the current stay began."""
    role = roles.admission

    def ask(known: OfflineFindings) -> list[Ask]:
        query = last_stay(role, known.columns(role.table)) if role and known.table(role.table) else None
        return [query] if query else []

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        began = [(row.get("began", ""), row_ids(row)) for row in rows_of(results)[:1]]
        return [OfflineFinding(kind="admitted", value=value, rows=rows) for value, rows in began if value]

    return PlanStep(name="the current stay", ask=ask, read=read)


def place_step(task: str, roles: Roles) -> PlanStep:
    """Units and services since two days before the stay began, the latest first."""

    def places(known: OfflineFindings) -> list[tuple[str, RowRole, Shown]]:
        kinds = ("unit", *("service" for _ in roles.transfer[1:]))
        seen = [(kind, role, shown(role, known)) for kind, role in zip(kinds, roles.transfer, strict=False)]
        return [(kind, role, one) for kind, role, one in seen if one is not None and one.time]

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        start = since(known, hours_before=_HOURS_BEFORE_A_STAY)
        found = [
            OfflineFinding(kind=kind, value=plain_name(role, row["label"]), rows=row_ids(row))
            for (kind, role, _), result in zip(places(known), results, strict=False)
            for row in result.rows
            if row.get("label") and row.get("time", start) >= start
        ]
        here, charge = (next((note for note in found if note.kind == kind), None) for kind in ("unit", "service"))
        if here is not None:
            value = f"{here.value} / {charge.value if charge else ''}".strip()
            found.append(OfflineFinding(kind="place", value=value, rows=here.rows))
        return found

    return PlanStep(
        name="where the patient is, and under which service",
        ask=lambda known: [latest_names(role, one) for _, role, one in places(known)],
        read=thinking(read, task),
    )


def word_step(task: str, roles: Roles) -> PlanStep:
    """Read the texts of the chart and the thoughts that their words suggest."""

    def ask(known: OfflineFindings) -> list[Ask]:
        note_roles = [role for role in roles.note if known.table(role.table)] if rules_for(task, "word") else []
        queries = (latest_texts(role, known.columns(role.table)) for role in note_roles)
        return [query for query in queries if query is not None]

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        rows = [row for result in results for row in result.rows]
        return [note for row in rows for note in thoughts_on(task, "word", row.get("text", ""), row_ids(row))]

    return PlanStep(name="what was written", ask=ask, read=read)


def drug_step(task: str, roles: Roles) -> PlanStep:
    """Drugs ordered in this stay."""
    return _step(task, "drug", "drugs of this stay", roles.first("order"), _counted)


def care_step(task: str, roles: Roles) -> PlanStep:
    """Read what was done at the bedside in this stay: procedures outside all tasks."""
    beside = next(iter(roles.procedure[1:]), None)
    return _step(task, "care", "what was done at the bedside", beside, _counted)


def lab_step(task: str, roles: Roles) -> PlanStep:
    """Abnormal results of this stay."""

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        found = []
        for row in rows_of(results):
            total = max(number(row, "n", 1), 1)
            for side in ("high", "low"):
                share = number(row, side) / total
                if share >= 0.34:
                    value = f"{row.get('label', '')} {side}"
                    found.append(OfflineFinding(kind="lab", value=value, amount=round(share, 2), rows=row_ids(row)))
        return found[:_MOST_ABNORMAL]

    return _step(
        task,
        "lab",
        "abnormal results of this stay",
        roles.first("lab"),
        lambda role, one, known: abnormal(role, one, known.columns(role.table), since(known)),
        read,
    )


def organism_step(task: str, roles: Roles) -> PlanStep:
    """Read which organisms grew."""
    return _step(
        task,
        "organism",
        "organisms found",
        roles.first("culture"),
        lambda role, one, known: organisms(role, one, known.columns(role.table), since(known)),
    )


def _counted(role: RowRole, one: Shown, known: OfflineFindings) -> Ask:
    return counts(one, since(known))


def _step(
    task: str,
    kind: str,
    name: str,
    role: RowRole | None,
    query: Callable[[RowRole, Shown, OfflineFindings], Ask | None],
    read: Reading | None = None,
) -> PlanStep:
    """Return a step about one role, run where the chart shows it and a rule could use it."""

    def ask(known: OfflineFindings) -> list[Ask]:
        one = shown(role, known) if rules_for(task, kind) else None
        step_query = query(role, one, known) if one is not None and role is not None else None
        return [step_query] if step_query is not None else []

    return PlanStep(
        name=name,
        ask=ask,
        read=thinking(read or tally(kind), task),
        otherwise=lambda known: [latest(role.table)] if role is not None else [],
    )


# Weigh findings: each label's evidence is combined as if independent; the best labels keep their rows.


_ROWS_CITED = 2


@dataclass(slots=True)
class _Belief:
    doubt: float = 1.0
    rows: dict[str, None] = field(default_factory=dict)


class Beliefs:
    """Labels with their strength of evidence: 1 - the product of (1 - weight)."""

    def __init__(self) -> None:
        self._beliefs: dict[str, _Belief] = {}

    def add(self, label: str, weight: float, rows: Iterable[str] = ()) -> None:
        """Add one piece of evidence."""
        belief = self._beliefs.setdefault(label, _Belief())
        belief.doubt *= 1 - min(max(weight, 0.0), 0.99)
        belief.rows.update(dict.fromkeys(rows))

    def best(self, *, least: float, most: int, fewest: int = 1) -> list[str]:
        """Return labels with a strength of at least ``least``, strongest first.

        At least ``fewest`` and at most ``most`` labels are returned.
        """
        ranked = sorted(self._beliefs, key=lambda label: (round(self._beliefs[label].doubt, 9), label))
        return [
            label
            for rank, label in enumerate(ranked[:most])
            if rank < fewest or 1 - self._beliefs[label].doubt >= least
        ]

    def rows(self, label: str) -> list[str]:
        """Return some rows that support a label."""
        return list(self._beliefs[label].rows)[:_ROWS_CITED]
