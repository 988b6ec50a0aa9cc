"""What the offline policy looks at, by role, and how it weighs findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wardround.models.offline.conversation import Result
from wardround.models.offline.notes import OfflineFinding, OfflineFindings, rules_for
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
    since,
    tally,
    thinking,
    thoughts_on,
)
from wardround.records import Roles, RowRole

# A step is skipped where nothing on the chart plays its role, or where no rule would make anything of what it finds.


_MOST_ABNORMAL = 25
_HOURS_BEFORE_A_STAY = 48


def shown(role: RowRole | None, known: OfflineFindings) -> Shown | None:
    """A role as a chart shows it, None where it has no row of it or does not name what it is."""
    if role is None or not known.table(role.table):
        return None
    found = Shown.of(role, known.columns(role.table))
    return found if found.label else None


def plain_name(role: RowRole, label: str) -> str:
    """Leave of a code in one of the role's forms what the form leaves of it."""
    codes = (code for _, code, _ in role.readings(label)) if role.forms else iter(())
    return next(codes, label)


def stay_step(roles: Roles) -> PlanStep:
    """When the stay that is going on began."""
    role = roles.admission

    def ask(known: OfflineFindings) -> list[Ask]:
        asked = last_stay(role, known.columns(role.table)) if role and known.table(role.table) else None
        return [asked] if asked else []

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
    """The texts of the chart, and what their words make one think of."""

    def ask(known: OfflineFindings) -> list[Ask]:
        held = [role for role in roles.note if known.table(role.table)] if rules_for(task, "word") else []
        asked = (latest_texts(role, known.columns(role.table)) for role in held)
        return [one for one in asked if one is not None]

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        rows = [row for result in results for row in result.rows]
        return [note for row in rows for note in thoughts_on(task, "word", row.get("text", ""), row_ids(row))]

    return PlanStep(name="what was written", ask=ask, read=read)


def drug_step(task: str, roles: Roles) -> PlanStep:
    """Drugs ordered in this stay."""
    return _step(task, "drug", "drugs of this stay", roles.first("order"), _counted)


def care_step(task: str, roles: Roles) -> PlanStep:
    """What was done at the bedside in this stay: procedures that no task asks about."""
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
    """What grew."""
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
    asked: Callable[[RowRole, Shown, OfflineFindings], Ask | None],
    read: Reading | None = None,
) -> PlanStep:
    """A step about one role: asked where the chart shows it and a rule could make something of it."""

    def ask(known: OfflineFindings) -> list[Ask]:
        one = shown(role, known) if rules_for(task, kind) else None
        found = asked(role, one, known) if one is not None and role is not None else None
        return [found] if found is not None else []

    return PlanStep(
        name=name,
        ask=ask,
        read=thinking(read or tally(kind), task),
        otherwise=lambda known: [latest(role.table)] if role is not None else [],
    )


# Weighing findings: every label's evidence combined as if independent, the best kept with the rows behind them.


_ROWS_CITED = 2


@dataclass(slots=True)
class _Belief:
    doubt: float = 1.0
    rows: dict[str, None] = field(default_factory=dict)


class Beliefs:
    """Labels with how much speaks for them: 1 - the product of (1 - weight)."""

    def __init__(self) -> None:
        self._held: dict[str, _Belief] = {}

    def add(self, label: str, weight: float, rows: Iterable[str] = ()) -> None:
        """Add one piece of evidence."""
        belief = self._held.setdefault(label, _Belief())
        belief.doubt *= 1 - min(max(weight, 0.0), 0.99)
        belief.rows.update(dict.fromkeys(rows))

    def best(self, *, least: float, most: int, fewest: int = 1) -> list[str]:
        """Return labels held at ``least`` or more, strongest first, between ``fewest`` and ``most`` of them."""
        ranked = sorted(self._held, key=lambda label: (round(self._held[label].doubt, 9), label))
        return [
            label for place, label in enumerate(ranked[:most]) if place < fewest or 1 - self._held[label].doubt >= least
        ]

    def rows(self, label: str) -> list[str]:
        """Return some rows that speak for a label."""
        return list(self._held[label].rows)[:_ROWS_CITED]
