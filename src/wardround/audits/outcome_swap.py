"""The outcome swap: is a chart the same when everything after it, deaths included, was otherwise?

In a copy of the raw files every cell and row that could not be known at a subject's own moment is changed, by the swap
table of the source; the copy is ingested with the store's settings and medians. Every chart up to that moment must be
equal, and so must whatever is made of charts.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from wardround.audits.deletion import plainly_written
from wardround.audits.leaks import ChartFindings, Sample, compare_charts, rounds_of, same_settings
from wardround.audits.own import answered_by, read_knowledge, write_plain
from wardround.audits.swap import load_swap_table, swap_sources, write_swapped
from wardround.audits.swap.change import Future
from wardround.audits.swap.files import copy_on_clock
from wardround.audits.swap.knowledge import Clockwork, KnowledgeRule, SwapTable
from wardround.audits.swap.raw_records import RawRecord
from wardround.audits.swap.write import NOWHERE, Placement, SwapSource
from wardround.core import Progress, Reporter, UserError, from_microseconds, silent
from wardround.records import Chart, Policy, SourceSpec, ingest
from wardround.records.rules import ALWAYS_TIME, NO_TIME, NamedRow
from wardround.records.shards import AVAILABLE, EVENT, NEVER_TIME
from wardround.records.specs import WallClock
from wardround.records.store import Store

_SPANS = ("emergency", "stay", "admission")


def random_moments(store: Store, count: int, seed: int = 0) -> list[tuple[int, datetime]]:
    """Draw subjects and moments: a quarter within an hour of any row, the others inside a stay of each kind that the
    source has, an emergency visit as likely as a stay in hospital. Subjects take turns: a copy of the raw files has one
    moment for each, so few copies serve many moments."""
    dice, subjects = Random(seed), store.subjects.tolist()
    kinds = [kind for kind in _SPANS if (role := getattr(store.spec.roles, kind)) and role.table in store.table_names]
    drawn: dict[tuple[int, datetime], None] = {}
    waiting: list[int] = []
    for turn in range(20 * count):
        if len(drawn) == count:
            break
        if not waiting:
            waiting = dice.sample(subjects, len(subjects))
        subject = waiting.pop()
        kind = ["row", *kinds][turn % (1 + len(kinds))]
        found = _of_rows(store, subject, dice) if kind == "row" else _of_span(store, subject, kind, dice)
        if found is not None:
            drawn[subject, found] = None
    return sorted(drawn)


def _of_rows(store: Store, subject: int, dice: Random) -> datetime | None:
    tables = [name for name in store.table_names if not store.spec.tables[name].is_static]
    batch = store.rows(subject, dice.choice(tables))
    if not batch.num_rows:
        return None
    found = _placed(batch.column(EVENT)[dice.randrange(batch.num_rows)].as_py())
    return None if found is None else found + timedelta(minutes=dice.randrange(60))


def _of_span(store: Store, subject: int, kind: str, dice: Random) -> datetime | None:
    """A moment between the beginning of a stay and its end, or two days after it where none is on record."""
    role = getattr(store.spec.roles, kind)
    batch = store.rows(subject, role.table)
    if not batch.num_rows:
        return None
    row = batch.slice(dice.randrange(batch.num_rows), 1).to_pylist()[0]
    begins = [_placed(row.get(name)) for name in (role.start, EVENT, AVAILABLE) if name]
    start = next((time for time in begins if time is not None), None)
    if start is None:
        return None
    ends = [_placed(row.get(name.partition("|")[0])) for name in role.ends]
    end = max((time for time in ends if time is not None), default=start + timedelta(days=2))
    minutes = int((end - start).total_seconds() // 60)
    return start + timedelta(minutes=dice.randrange(max(1, minutes)))


def _placed(time: object) -> datetime | None:
    """A cell as a time; None where it is none, or stands for always or never."""
    if isinstance(time, int):
        time = None if time in (ALWAYS_TIME, NO_TIME) or time >= NEVER_TIME else from_microseconds(time)
    return time if isinstance(time, datetime) and 1902 < time.year < 2500 else None


# Is a swapped copy right with itself? By the table's own clocks it shows at each moment what the original shows.


_SHOWN = 20
"""So many sentences; the last one says how many there would be."""


def self_check(
    table: SwapTable,
    folders: Sequence[Path],
    copies: Sequence[Path],
    moments: Mapping[int, datetime | None],
    *,
    placement: Placement = NOWHERE,
) -> list[str]:
    """Compare what each subject's files and their swapped copies hold that is known at the subject's moment: rows and
    cells, by the clocks of the table, each side with its own. Return a sentence for each row that one side alone has,
    at most 21; none: the copy is right."""
    source = SwapSource(table=table, placement=placement)
    sides = [_known(source, side, moments) for side in (folders, copies)]
    found = [
        f"{subject} as of {moments[subject]}: {where} of {kind}: {content[:300]}"
        for ours, other, where in (
            (sides[0], sides[1], "only in the original"),
            (sides[1], sides[0], "only in the copy"),
        )
        for (kind, subject, content), count in ours.items()
        if count > other[kind, subject, content]
    ]
    rest = [f"and {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    return found[:_SHOWN] + rest


def _known(
    source: SwapSource, folders: Sequence[Path], moments: Mapping[int, datetime | None]
) -> Counter[tuple[str, int, str]]:
    """Count what is known of every subject's rows, by kind of file."""
    held: dict[str, list[RawRecord]] = {}
    for _, kind, record in _held(source, folders, moments, waited_for=True):
        for anchor in source.anchors(kind, record):
            held.setdefault(anchor.name, []).append(record)
    work = source.clockwork()
    source.set_anchors(work, held)
    found: Counter[tuple[str, int, str]] = Counter()
    futures = {
        subject: Future(as_of=as_of, work=work, stretch=1.0, subject=source.table.subject)
        for subject, as_of in moments.items()
        if as_of is not None
    }
    for subject, kind, record in _held(source, folders, moments):
        rules, place = source.table.of(kind) or (), source.place(kind, record)
        if place == len(rules) or futures[subject].is_unknown(record, rules[place]):
            continue
        shown = known_part(futures[subject], record, rules[place])
        repeat = rules[place].repeat
        if repeat is not None and futures[subject].is_late(record, repeat.known):
            group = " ".join(text for path in repeat.group for text in record.texts(path) or ("",))
            found[kind, subject, f"rows of {group}"] = 1  # how many there are is not known
        else:
            found[kind, subject, json.dumps(shown.content, sort_keys=True)] += 1
    return found


def _held(
    source: SwapSource, folders: Sequence[Path], moments: Mapping[int, datetime | None], *, waited_for: bool = False
) -> Iterator[tuple[int, str, RawRecord]]:
    for kind, record in source.records(folders, waited_for=waited_for):
        subject = source.subject(record)
        if subject is not None and moments.get(subject) is not None:
            yield subject, kind, record


def known_part(future: Future, record: RawRecord, rule: KnowledgeRule) -> RawRecord:
    """Return a known row without what of it was not known: late cells, late parts of lists, and of others their late
    times."""
    shown = record.copy()
    for cell in rule.cells:
        if future.is_late(record, cell.known):
            for path in cell.paths:
                if not cell.values or set(record.texts(path)) & {*cell.values, *cell.to} or path in rule.exchange:
                    shown.blank(path)
    for path, clocks in rule.items.items():
        for item in shown.items(path):
            if future.is_later_part(item, clocks):
                shown.remove(path, item)
                continue
            for part in item.paths():
                item.change(part, partial(_without_later, future.work, item, part, future.as_of))
    return shown


def _without_later(work: Clockwork, item: RawRecord, path: str, as_of: datetime, text: str) -> Any:
    at = work.read(item, path, text)
    return "later" if at is not None and at > as_of else text


CompareCharts = Callable[[Chart, Chart], Iterator[str]]
"""What else must be equal of two charts: yields every difference in words."""


_NO_CODE = "the source has no code of it (--json names the codes that were looked for)"


@dataclass(slots=True, kw_only=True)
class Compared:
    """What was made of two stores up to each subject's moment: how much of it, every difference in words, and how often
    it differs by definition, by declared reason. ``left_out``: what could not be compared, and why. ``places`` counts
    the differences by family, task and column."""

    compared: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    declared: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)


CompareStores = Callable[[Store, Store, Mapping[int, datetime]], Compared]
"""What must be equal of two stores up to each subject's moment."""


@dataclass(slots=True, kw_only=True)
class SwapReport(ChartFindings):
    """What an outcome swap found. ``changed_rows``: raw rows that were otherwise; ``uncovered`` files have no entry in
    the swap table and stayed as they were, ``unruled`` rows fit no rule of their file. ``compared``, ``declared``,
    ``left_out`` and ``places``: see :class:`Compared`."""

    cut: bool = False
    rounds: int = 0
    raw_rows: int = 0
    changed_rows: int = 0
    answers: int = 0
    questions: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    declared: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    places: Counter[str] = field(default_factory=Counter)
    uncovered: set[str] = field(default_factory=set)
    unruled: dict[str, int] = field(default_factory=dict)
    untested: tuple[str, ...] = ()
    """The spec's late columns that the table does not name: it takes them for known with their rows."""
    wrong: list[str] = field(default_factory=list)
    """How a copy shows by its moment what the original does not: a fault of the swap, not of the charts."""
    assumptions: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether charts, answers and questions are the same in both futures."""
        return not (self.differences or self.answers or self.questions or self.wrong)

    @property
    def leaking(self) -> tuple[str, ...]:
        """Where anything differs: table and column of charts, the tools, family, task and column of questions."""
        charts = [
            f"charts: {name}.{column or 'rows'} ({count:,})"
            for name, leaks in sorted(self.tables.items())
            for column, count in sorted(leaks.columns.items())
        ]
        answers = [f"tool answers ({self.answers:,})"] if self.answers else []
        other = self.questions - sum(self.places.values())
        rest = [f"questions ({other:,})"] if other > 0 else []
        return (*charts, *answers, *(f"{place} ({count:,})" for place, count in sorted(self.places.items())), *rest)

    def as_text(self) -> str:
        """Return the report for people."""
        lines = [
            f"outcome swap, policy {self.policy}: {self.samples} samples, {self.rounds} rounds"
            + (", files cut at each moment" if self.cut else ""),
            f"{self.changed_rows:,} of {self.raw_rows:,} raw rows were changed or left out",
            f"{self.differences} differences in charts, {self.answers} in tool answers, {self.questions} in questions",
        ]
        if self.compared:
            lines.append("compared: " + ", ".join(f"{n:,} {what}" for what, n in sorted(self.compared.items())))
        lines += [f"{n:,} differ by definition: {reason}" for reason, n in sorted(self.declared.items())]
        reasons: dict[str, list[str]] = {}
        for what, why in sorted(self.left_out.items()):
            reasons.setdefault(_NO_CODE if " no code of " in why else why, []).append(what)
        lines += [f"not compared: {', '.join(names)}: {why}" for why, names in reasons.items()]
        if self.uncovered:
            lines.append(f"not in the swap table, copied as they are: {', '.join(sorted(self.uncovered))}")
        if self.untested:
            lines.append(f"late columns that the table does not name, not tested: {', '.join(self.untested)}")
        lines += [
            f"{count:,} rows of {name} fit no rule and were copied as they are" for name, count in self.unruled.items()
        ]
        if self.wrong:
            lines.append("The swapped copy is not right with itself (a fault of the swap): differences may be its own")
            lines += self.wrong
        lines += self.table_lines()
        lines += self.assumptions
        found = f"LEAKS in {'; '.join(self.leaking)}" if self.leaking else "the swap itself was wrong: nothing is said"
        lines.append("clean" if self.clean else found)
        return "\n".join(lines)


def audit_swap(
    store: Store,
    samples: Iterable[Sample],
    raw_folder: Path | Sequence[Path],
    *,
    policy: Policy = "known_at",
    user_codes: Path | None = None,
    knowledge: Path | None = None,
    others: bool = True,
    cut: bool = False,
    charts: Sequence[CompareCharts] = (),
    stores: Sequence[CompareStores] = (),
    report: Reporter = silent,
) -> SwapReport:
    """Audit charts at some (subject, as-of time) against another future of the same past.

    ``raw_folder`` is what the store was made from. ``others``: whether subjects without a sample are copied too, as
    they are. ``cut``: the other future has not come yet, files end at each moment and stays are open. ``charts`` and
    ``stores`` say what else must be equal. ``knowledge``: a second person's answers, for a source of one's own; then
    others are left out. UserError: nobody says what of the source could be known when.
    """
    wanted = sorted(set(samples))
    folders = (raw_folder,) if isinstance(raw_folder, Path) else tuple(raw_folder)
    if knowledge is None:
        table, spec, who = _table_of(store), store.spec, []
    else:
        table, others = read_knowledge(knowledge, store.spec), False
        spec = replace(plainly_written(store), flatten=None)
        who = [
            f"what could be known when: by {answered_by(knowledge)}, {knowledge.name}",
            "not looked at: a stay that is over in one future and open in the other (ends move, none is taken away)",
        ]
    rounds = list(rounds_of(wanted))
    found = SwapReport(
        policy=policy,
        cut=cut,
        samples=len(wanted),
        rounds=len(rounds),
        assumptions=(*store.manifest.get("assumptions", ()), *who),
        untested=tuple(untested_columns(spec, table)),
    )
    placement = NOWHERE if knowledge is not None else placement_of(store)
    settings = replace(same_settings(store, user_codes), time_zone=None)  # the copies are on the wall's clock
    zone = store.manifest["settings"].get("time_zone")
    with tempfile.TemporaryDirectory(prefix="wardround-clock-") as there:
        if zone is not None and knowledge is None:
            tables = store.spec.tables.values()
            times = {name for table in tables for name, kind in table.columns.items() if kind in ("time", "date")}
            folders = copy_on_clock(folders, WallClock.named(zone), times, Path(there))
        for done, moments in enumerate(rounds):
            report(Progress(label="outcome swap", done=done, total=len(rounds), unit="rounds"))
            with tempfile.TemporaryDirectory(prefix="wardround-swap-") as name:
                raw = folders
                if knowledge is not None:
                    raw = (write_plain(store, folders, Path(name) / "plain", moments),)
                copies, counts = write_swapped(
                    table, raw, Path(name) / "raw", moments, placement=placement, others=others, cut=cut
                )
                if not cut:  # where ends are empty the clocks of stays say less than they do of whole files
                    found.wrong += self_check(table, raw, copies, moments, placement=placement)
                ingest(spec, copies, Path(name) / "store", settings=settings)
                other = Store.open(Path(name) / "store")
                found.raw_rows += counts.rows
                found.changed_rows += counts.changed
                found.uncovered |= counts.uncovered
                for kind, rows in counts.unruled.items():
                    found.unruled[kind] = found.unruled.get(kind, 0) + rows
                _compare(found, store, other, moments, charts, stores)
    for what in [what for what in found.left_out if found.compared[f"questions of {what}"]]:
        del found.left_out[what]  # nobody was asked it in one round, somebody was in another
    return found


def untested_columns(spec: SourceSpec, table: SwapTable) -> Iterator[str]:
    """The spec's late columns, as ``table.column``, that a knowledge table does not name for their file.

    Columns that only refer to another row are left out: they wait for that row. Minutes of a stay stand for times.
    """
    for own in spec.tables.values():
        rules = table.of(own.name)
        if rules is None:
            continue
        named = {path for rule in rules for cells in rule.cells for path in cells.paths}
        named = named.union(*(rule.links.union(rule.moved, rule.key) for rule in rules))
        for column, late in own.late.items():
            spellings = {column, column.replace("time", "offset")}
            if column in own.columns and not isinstance(late, NamedRow) and named.isdisjoint(spellings):
                yield f"{own.name}.{column}"


def _table_of(store: Store) -> SwapTable:
    """Return the table of a source that ships. UserError: it is one's own, and a second person has to say."""
    if store.spec.name not in swap_sources():
        raise UserError(
            f"source {store.spec.name!r} is your own: somebody who did not write its spec has to say what could be "
            "known when: wardround spec knowledge SPEC --out FILE, then --knowledge FILE"
        )
    return load_swap_table(store.spec.name)


def _compare(
    found: SwapReport,
    store: Store,
    other: Store,
    moments: Mapping[int, datetime],
    charts: Sequence[CompareCharts],
    stores: Sequence[CompareStores],
) -> None:
    for subject, as_of in moments.items():
        shown = store.chart(subject, as_of, policy=found.policy)
        expected = other.chart(subject, as_of, policy=found.policy) if subject in other.subjects else None
        compare_charts(found, shown, expected, "in the other future")
        for compare in charts if expected is not None else ():
            for difference in compare(shown, expected):  # type: ignore[arg-type]
                found.answers += 1
                found.example(f"{subject} as of {as_of}: {difference}")
    for compare_stores in stores:
        both = compare_stores(store, other, moments)
        found.compared += both.compared
        found.declared += both.declared
        found.left_out |= both.left_out
        found.places += both.places
        for difference in both.differences:
            found.questions += 1
            found.example(difference)


def placement_of(store: Store) -> Placement:
    """Return where a source without dates put its unit stays: what an as-of time means for their minutes."""
    if load_swap_table(store.spec.name).subject_by is None:
        return NOWHERE
    zeros: dict[str, datetime] = {}
    subjects: dict[str, int] = {}
    for subject, batch in store.scan("patient", ["patientunitstayid", "unitadmittime"]):
        for unit, admitted in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            zeros[str(unit)], subjects[str(unit)] = admitted, subject
    return Placement(zeros=zeros, subjects=subjects)
