"""Provider order entry: every order of a subject in one numbered sequence, with what later ended it."""

from __future__ import annotations

from dataclasses import dataclass, field

from wardround.synth.clock import stamp
from wardround.synth.pen import Pen
from wardround.synth.sheet import quoted


@dataclass(slots=True, kw_only=True, eq=False)
class Order:
    """One poe row in the making; ``sequence`` is given when all orders of the subject are known."""

    moment: int
    kind: str
    subtype: str = ""
    transaction: str = "New"
    hadm_id: int
    provider: str
    ends: Order | None = None
    ended_by: Order | None = None
    details: list[tuple[str, str]] = field(default_factory=list)
    sequence: int = 0


def place_order(
    pen: Pen,
    moment: int,
    kind: str,
    subtype: str,
    hadm_id: int,
    details: list[tuple[str, str]] | None = None,
) -> Order:
    """Enter a new order."""
    order = Order(
        moment=moment, kind=kind, subtype=subtype, hadm_id=hadm_id, provider=pen.provider(), details=details or []
    )
    pen.orders.append(order)
    return order


def end_order(pen: Pen, order: Order, moment: int, transaction: str = "D/C") -> Order:
    """Enter the order that discontinues or changes another one."""
    ending = Order(
        moment=max(moment, order.moment + 60),
        kind=order.kind,
        subtype=order.subtype,
        transaction=transaction,
        hadm_id=order.hadm_id,
        provider=pen.provider(),
        ends=order,
    )
    order.ended_by = ending
    pen.orders.append(ending)
    return ending


def number_orders(pen: Pen) -> None:
    """Give every order its number in time order; some numbers are missing, as orders of other systems are."""
    pen.orders.sort(key=lambda order: order.moment)
    sequence = 0
    for order in pen.orders:
        sequence += 1 if pen.dice.chance(0.93) else pen.dice.whole(2, 5)
        order.sequence = sequence


def write_orders(pen: Pen) -> None:
    """Write poe and poe_detail; the sequence numbers must have been given."""
    subject = pen.subject.subject_id
    add, add_detail = pen.add("poe"), pen.add("poe_detail")
    for order in pen.orders:
        ends = f"{subject}-{order.ends.sequence}" if order.ends is not None else ""
        ended_by = f"{subject}-{order.ended_by.sequence}" if order.ended_by is not None else ""
        add(
            f"{subject}-{order.sequence},{order.sequence},{subject},{order.hadm_id},{stamp(order.moment)},{order.kind},"
            f"{order.subtype},{order.transaction},{ends},{ended_by},{order.provider},Inactive\n"
        )
        for name, value in order.details:
            add_detail(f"{subject}-{order.sequence},{order.sequence},{subject},{name},{quoted(value)}\n")
