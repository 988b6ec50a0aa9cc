"""Provider order entry: every order of a subject in one numbered sequence, with what later ended it."""

from __future__ import annotations

from wardround.synth.clock import stamp
from wardround.synth.subject_writer import Order, SubjectWriter
from wardround.synth.table_lines import quoted


def place_order(
    writer: SubjectWriter,
    moment: int,
    kind: str,
    subtype: str,
    hadm_id: int | None,
    details: list[tuple[str, str]] | None = None,
) -> Order:
    """Enter a new order; without ``hadm_id`` it belongs to no stay in hospital."""
    order = Order(
        moment=moment, kind=kind, subtype=subtype, hadm_id=hadm_id, provider=writer.provider(), details=details or []
    )
    writer.orders.append(order)
    return order


def end_order(writer: SubjectWriter, order: Order, moment: int, transaction: str = "D/C") -> Order:
    """Enter the order that discontinues or changes another one."""
    ending = Order(
        moment=max(moment, order.moment + 60),
        kind=order.kind,
        subtype=order.subtype,
        transaction=transaction,
        hadm_id=order.hadm_id,
        provider=writer.provider(),
        ends=order,
    )
    order.ended_by = ending
    writer.orders.append(ending)
    return ending


def number_orders(writer: SubjectWriter) -> None:
    """Give every order its number in time order; some numbers are missing, as orders of other systems are."""
    writer.orders.sort(key=lambda order: order.moment)
    sequence = 0
    for order in writer.orders:
        sequence += 1 if writer.dice.chance(0.93) else writer.dice.whole(2, 5)
        order.sequence = sequence


def write_orders(writer: SubjectWriter) -> None:
    """Write poe and poe_detail; the sequence numbers must have been given."""
    subject = writer.subject.subject_id
    add, add_detail = writer.add("poe"), writer.add("poe_detail")
    for order in writer.orders:
        ends = f"{subject}-{order.ends.sequence}" if order.ends is not None else ""
        stay = order.hadm_id or ""
        ended_by = f"{subject}-{order.ended_by.sequence}" if order.ended_by is not None else ""
        add(
            f"{subject}-{order.sequence},{order.sequence},{subject},{stay},{stamp(order.moment)},{order.kind},"
            f"{order.subtype},{order.transaction},{ends},{ended_by},{order.provider},Inactive\n"
        )
        for name, value in order.details:
            add_detail(f"{subject}-{order.sequence},{order.sequence},{subject},{name},{quoted(value)}\n")
