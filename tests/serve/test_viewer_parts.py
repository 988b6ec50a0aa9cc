"""Parts of the viewer's pages by hand: paging, tables of results, branches, experiences, what was held back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.fhir_resources import ANN_NUMBER, Resource, category, code, made, patient, resource

pytest.importorskip("starlette", reason="needs the extra [view]")
pytest.importorskip("mcp", reason="needs the extra [view]")

from wardround.clinical.bundles import EventKind, PatientState, Trend, TrendReading, ValueLevel
from wardround.clinical.bundles.files import END_OF_TIME
from wardround.clinical.bundles.state import ActiveProblem
from wardround.core import Message, ToolCall, Usage, from_microseconds
from wardround.log import Note, ToolRecord, Turn
from wardround.log.rows import EpisodeEntry, Trajectory
from wardround.records import Store, load_source_spec
from wardround.records.shards.layout import AVAILABLE, EVENT
from wardround.serve.viewer.episode import EPISODE_HEIGHT as HEIGHT
from wardround.serve.viewer.episode import EPISODE_WIDTH as WIDTH
from wardround.serve.viewer.episode import LABEL, branches_of, draw_episode
from wardround.serve.viewer.hidden_rows import rows_hidden_at
from wardround.serve.viewer.patient import state_sections
from wardround.serve.viewer.record_lists import when_empty
from wardround.serve.viewer.transcript import (
    FIRST_PAGE,
    PAGE,
    PART,
    CallSection,
    TextBlock,
    block_size,
    labels,
    paged,
    parts_of,
    places,
    read_table,
    serving_of,
    transcript,
)


def turn(ordinal: int, *, purpose: str = "act", prompt: tuple[Message, ...] = (), **given: object) -> Turn:
    """A model call with what the tests look at."""
    plain: dict[str, object] = {
        "reply": Message(role="assistant", content=""),
        "prompt_hash": "",
        "reply_hash": "",
        "request_digest": "",
        "model": "m",
        "identity": "m",
        "finish_reason": "stop",
        "usage": Usage(),
        "unreported": (),
        "cost": None,
        "seconds": 0.0,
        "attempts": 1,
        "prompt_bytes": 0,
        "prefix_bytes": 0,
    }
    return Turn(ordinal=ordinal, purpose=purpose, prompt=prompt, **{**plain, **given})  # type: ignore[arg-type]


def trajectory(*turns: Turn, notes: tuple[Note, ...] = ()) -> Trajectory:
    entry = EpisodeEntry(key="k", facts={}, state="finished", outcome={}, started="", ended="", turns=len(turns))
    return Trajectory(entry=entry, turns=turns, notes=notes)


def reply_of(text: str) -> CallSection:
    return CallSection(turn=turn(0), blocks=(TextBlock(kind="reply", title="reply", text=text),))


# Paging


@given(st.lists(st.text(alphabet='ab"<\n', max_size=40).map(lambda text: text * 400), max_size=12))
def test_pages_hold_everything_once_in_order_and_are_bounded(texts: list[str]) -> None:
    sections = [replace(reply_of(text), turn=turn(number)) for number, text in enumerate(texts)]
    pages = paged(sections)
    said: dict[str, str] = {}
    for number, page in enumerate(pages):
        size = sum(block_size(block) for section in page.sections for block in section.blocks)
        assert size <= (FIRST_PAGE if number == 0 else PAGE)
        for section in page.sections:
            said[section.anchor] = said.get(section.anchor, "") + "".join(block.text for block in section.blocks)
    assert said == {f"turn-{number}": text for number, text in enumerate(texts)}
    assert list(said) == [f"turn-{number}" for number in range(len(texts))]
    assert set(places(pages)) == set(said)


@pytest.mark.parametrize(
    ("blocks", "first", "most", "expected"),
    [
        ([1, 1], 2_800, 9_000, [(2, False)]),
        ([1, 1], 2_799, 9_000, [(1, False), (1, False)]),
        ([2], 2_400, 9_000, [(2, False)]),
        ([2], 2_399, 9_000, [(1, False), (1, True)]),  # there is nothing to turn over yet
        ([1, 2], 2_800, 2_400, [(1, False), (2, False)]),  # the second is whole on the next page
        ([1, 2], 2_800, 2_399, [(2, False), (1, True)]),  # it would not fit there either
        ([1, 2], 3_800, 2_399, [(3, False)]),
        ([1, 4], 2_800, 2_400, [(2, False), (2, True), (1, True)]),
    ],
)
def test_a_page_is_filled_to_its_last_character(
    blocks: list[int], first: int, most: int, expected: list[tuple[int, bool]]
) -> None:
    """A section takes 400 characters, a block of 600 letters 1,000 with what stands around it."""
    block = TextBlock(kind="reply", title="reply", text="x" * 600)
    sections = [CallSection(turn=turn(number), blocks=(block,) * count) for number, count in enumerate(blocks)]
    pages = paged(sections, first=first, most=most)
    assert [(sum(len(one.blocks) for one in page.sections), page.goes_on) for page in pages] == expected


def test_a_hundred_turns_of_quotes_fit_page_by_page() -> None:
    """A text of quotes takes five times its length on a page."""
    pages = paged([replace(reply_of('"' * 8_000), turn=turn(number)) for number in range(100)])
    assert len(pages) > 20
    assert sum(len(block.text) for page in pages for section in page.sections for block in section.blocks) == 800_000
    assert [page.goes_on for page in pages[:3]] == [False, False, False]


def test_a_long_text_is_told_in_parts_and_goes_on_over_pages() -> None:
    text = "x" * 1_000_000
    pages = paged([reply_of(text)])
    blocks = [block for page in pages for section in page.sections for block in section.blocks]
    assert "".join(block.text for block in blocks) == text
    assert [block.part for block in blocks] == [(number, len(blocks)) for number in range(1, len(blocks) + 1)]
    assert [page.goes_on for page in pages] == [False, *([True] * (len(pages) - 1))]
    assert labels(pages)[:3] == ["1", "1 (2)", "1 (3)"]
    (short,) = parts_of(TextBlock(kind="reply", title="reply", text="x"))
    assert short.part == (1, 1)


def test_steps_of_a_stay_are_told_apart() -> None:
    notes = (Note(n=0, kind="step", detail={"step": 3, "hour": "2150-01-01 04:00"}), Note(n=1, kind="retry", detail={}))
    (section,) = transcript(trajectory(notes=notes))
    assert [block.title for block in section.blocks] == ["step 3, 2150-01-01 04:00", "retry"]


def test_a_long_table_is_parted_between_rows() -> None:
    text = "labs: 3,000 rows\nrow_id | value\n" + "\n".join(f"labs:{n} | {n}" for n in range(3_000)) + "\nthe end"
    block = TextBlock(kind="result", title="", text=text, table=read_table(text))
    parts = list(parts_of(block))
    tables = [part.table for part in parts if part.table is not None]
    assert len(tables) == len(parts) > 1
    assert [row for table in tables for row in table.rows] == [(f"labs:{n}", str(n)) for n in range(3_000)]
    assert [table.rest for table in tables] == [*([""] * (len(tables) - 1)), "the end"]
    assert all(block_size(part) <= PART + 1_000 for part in parts)


def test_a_table_with_one_cell_too_long_is_parted_as_text() -> None:
    text = f"a | b\n1 | {'x' * 100_000}"
    parts = list(parts_of(TextBlock(kind="result", title="", text=text, table=read_table(text))))
    assert all(part.table is None for part in parts)
    assert "".join(part.text for part in parts) == text


def test_an_episode_without_calls_has_one_empty_page() -> None:
    (page,) = paged(transcript(trajectory()))
    assert (page.sections, page.label) == ((), "none")


# Transcript and tables

TABLE = "a | b\n1 | x"


def test_every_message_stands_once_where_it_came_in() -> None:
    question, pinned = Message(role="user", content="why?"), Message(role="user", content="summary so far")
    call = ToolCall(id="1", name="look", arguments="{}")
    said = Message(role="assistant", content="I look", tool_calls=(call,))
    record = ToolRecord(call=call, result_text=TABLE)
    refused = ToolRecord(call=call, result_text=TABLE, is_error=True)
    first = turn(0, prompt=(question,), reply=said, results=(record, refused))
    second = turn(1, prompt=(question, said, record.message, pinned), reply=Message(role="assistant", content="done"))
    note = Note(n=0, kind="limit", detail={"turn": 1})
    sections = transcript(trajectory(first, second, notes=(note,)))
    told = [[(block.kind, block.title, block.text) for block in section.blocks] for section in sections]
    assert told == [
        [
            ("shown", "user", "why?"),
            ("reply", "reply", "I look"),
            ("call", "look", "{}"),
            ("result", "look", "a | b\n1 | x"),
            ("call", "look", "{}"),
            ("result", "look: refused", "a | b\n1 | x"),
        ],
        [("shown", "user", "summary so far"), ("reply", "reply", "done")],
        [("note", "limit", '{"turn": 1}')],
    ]
    assert [block.title for section in sections for block in section.blocks if block.missed] == ["look: refused"]
    assert [block.title for section in sections for block in section.blocks if block.table is not None] == ["look"]


def test_columns_are_of_the_kind_of_all_their_cells() -> None:
    rows = ("row_id | time | value | flag", "l:1 | 2150-01-01 10:00:00 | 1,200.5 | ", 'l:2 | " | <3 | high')
    table = read_table("\n".join(("labs: 2 rows", "constant: unit=mg", *rows)))
    assert table is not None
    assert table.columns == (("row_id", "text"), ("time", "time"), ("value", "number"), ("flag", "text"))
    assert table.caption == "labs: 2 rows\nconstant: unit=mg"
    assert table.rows[1] == ("l:2", '"', "<3", "high")


@pytest.mark.parametrize("text", ["no table here", "a | b", "a | b\n1 | 2 | 3", ""])
def test_what_is_no_table_stays_a_text(text: str) -> None:
    assert read_table(text) is None


# DrawnEpisode


def test_a_prompt_that_does_not_go_on_begins_a_branch() -> None:
    turns = [
        turn(0, prompt_bytes=10),
        turn(1, prompt_bytes=30, prefix_bytes=10),
        turn(2, purpose="summarise", prompt_bytes=50),
        turn(3, prompt_bytes=25, prefix_bytes=5),
        turn(4, purpose="summarise", prompt_bytes=60, prefix_bytes=50),
    ]
    assert branches_of(turns) == [1, 1, 2, 3, 2]


def test_bars_and_lines_are_where_tokens_and_cost_say() -> None:
    half = Usage(input_tokens=400, output_tokens=100)
    drawn = draw_episode([turn(0, usage=half, cost=0.25), turn(1, usage=half, cost=0.75)], window=1_000)
    assert drawn is not None
    assert (drawn.window_y, drawn.most, drawn.total, drawn.uncounted) == (0.0, 500, 1.0, 0)
    assert [(call.input_height, call.output_height) for call in drawn.calls] == [(HEIGHT * 0.4, HEIGHT * 0.1)] * 2
    step = (WIDTH - LABEL) / 2
    assert drawn.costs == f"{LABEL + step / 2:.1f},{HEIGHT * 0.75:.1f} {LABEL + 1.5 * step:.1f},0.0"


@pytest.mark.parametrize(("count", "every", "calls"), [(1, 1, 1), (150, 1, 150), (151, 2, 76), (301, 3, 101)])
def test_of_many_calls_every_so_manieth_is_drawn(count: int, every: int, calls: int) -> None:
    drawn = draw_episode([turn(number) for number in range(count)], window=1_000)
    assert drawn is not None
    assert (drawn.every, len(drawn.calls)) == (every, calls)
    assert [call.ordinal for call in drawn.calls] == list(range(0, count, every))
    step = (WIDTH - LABEL) / count
    assert [call.x for call in drawn.calls[:2]] == [round(LABEL + place * step, 1) for place in (0, every)[:calls]]
    assert drawn.calls[0].width == round(step * every - 1, 1)
    assert [(call.begins, call.branch) for call in drawn.calls[:2]] == [(True, 1), (False, 1)][:calls]


def test_lanes_are_those_of_purposes_in_order() -> None:
    drawn = draw_episode([turn(0), turn(1, purpose="judge"), turn(2)], window=1_000)
    assert drawn is not None
    assert drawn.lanes == (("act", 128.0), ("judge", 146.0))
    assert [call.lane_y for call in drawn.calls] == [128.0, 146.0, 128.0]
    assert drawn.height == 168.0


def test_what_is_not_counted_or_priced_is_not_drawn() -> None:
    drawn = draw_episode([turn(0, unreported=("input_tokens",)), turn(1, cost=1.0)], window=1_000)
    assert drawn is not None
    assert (drawn.uncounted, drawn.costs, drawn.total) == (1, "", None)
    assert drawn.calls[0].tooltip.endswith("tokens not counted by the endpoint, 0.00 s")
    assert draw_episode([], window=1_000) is None


# Experiences


def test_what_was_served_masked_and_kept_back_is_told_with_why() -> None:
    detail = {
        "kind": "graph",
        "served": [{"id": "a", "kind": "indication", "why": "recalled", "conflicts": ["b"], "unchecked": []}],
        "masked": ["m"],
        "barred": {"x": "allergy on the chart"},
        "withheld": {"same_subject": 2, "split": 0},
        "bank_revision": 7,
    }
    left = Note(n=1, kind="experiences_left_out", detail={"left_out": ["a"]})
    serving = serving_of([Note(n=0, kind="experiences", detail=detail), left], {"a": "Look at A"}.get)
    assert serving is not None
    assert [(one.title, one.why, one.became) for one in serving.served] == [
        ("Look at A", "recalled; conflicts with b", "no room in the prompt"),
        ("m", "", "masked at random"),
        ("x", "allergy on the chart", "not served"),
    ]
    assert (serving.withheld, serving.revision) == ({"same_subject": 2}, 7)
    assert serving_of([left], str) is None


# Held back


def test_what_was_held_back_is_all_that_did_not_stand(synthetic_store: Store) -> None:
    """Every stored row is either on the chart or held back, never both; what was known first comes first."""
    subject = int(synthetic_store.subjects[4])
    times = [
        time
        for table in synthetic_store.table_names
        for time in synthetic_store.rows(subject, table).column(AVAILABLE).cast(pa.int64()).to_pylist()
    ]
    moment = from_microseconds(sorted(times)[len(times) // 2])
    held = rows_hidden_at(synthetic_store, subject, moment)
    standing = {event.row_id for event in synthetic_store.chart(subject, moment).events()}
    assert held.visible == len(standing) > 20
    rows = {one.event.row_id for one in held.rows}
    assert not rows & standing
    for table in synthetic_store.table_names:
        stored = synthetic_store.rows(subject, table)
        clocks = zip(*(stored.column(name).to_pylist() for name in ("row_id", EVENT, AVAILABLE)), strict=True)
        late = {row_id for row_id, event, known in clocks if moment < max(event, known) < END_OF_TIME}
        assert late <= rows
    known = [one.known for one in held.rows if one.known is not None]
    assert known == sorted(known)
    assert all(max(one.happened or moment, one.known or moment) >= moment for one in held.rows)


def test_a_late_cell_is_told_as_it_was_and_as_it_became(synthetic_store: Store) -> None:
    for subject in synthetic_store.subjects[:40].tolist():
        stays = synthetic_store.rows(subject, "admissions").to_pylist()
        if stays:
            break
    moment = stays[0]["admittime"]
    cells = {
        (one.row_id, one.column): (one.then, one.later)
        for one in rows_hidden_at(synthetic_store, subject, moment).cells
    }
    assert cells[stays[0]["row_id"], "dischtime"] == ("", str(stays[0]["dischtime"]))


def test_a_corrected_value_is_told_as_it_was_and_as_it_became(tmp_path: Path) -> None:
    """Corrected twice: the last word stands beside what stood then, whichever moment is looked at."""
    day = "2150-01-02T"

    def lactate(value: float, updated: str, status: str) -> Resource:
        return resource(
            "Observation",
            "a",
            status=status,
            category=category("laboratory"),
            code=code("2524-7", "Lactate"),
            effectiveDateTime=f"{day}08:00:00Z",
            issued=f"{day}08:00:00Z",
            valueQuantity={"value": value, "unit": "mmol/L"},
            meta={"lastUpdated": f"{day}{updated}:00Z"},
        )

    versions = [lactate(9.5, "08:10", "final"), lactate(4.5, "11:00", "corrected"), lactate(1.5, "13:00", "corrected")]
    store, _ = made(tmp_path, [patient(), *versions])
    told = []
    for hour in (9, 12, 14):
        cells = rows_hidden_at(store, ANN_NUMBER, datetime(2150, 1, 2, hour)).cells
        told.append([(one.then, one.later) for one in cells if one.column == "value"])
    assert told == [[("9.5", "1.5")], [("4.5", "1.5")], []]


def test_an_empty_list_says_whether_the_source_could_have_filled_it() -> None:
    """MIMIC-IV has no table of allergies: that none stands there is unknown, not "no allergies"."""
    mimic, fhir = load_source_spec("mimiciv"), load_source_spec("fhir")
    assert when_empty(mimic, "allergy") == "unknown: the source mimiciv has no rows of the role allergy"
    assert when_empty(fhir, "allergy") == when_empty(None, "allergy") == "none recorded by then"
    sections = {one.name: one.when_empty for one in state_sections(PatientState(subject_id=1), mimic)}
    assert sections["allergies"].startswith("unknown: ")
    assert sections["problems"] == sections["done"] == "none recorded by then"


def measured(concept: str, *values: float) -> Trend:
    """A measurement whose readings lie three hours apart."""
    readings = tuple(
        TrendReading(
            time=datetime(2150, 1, 1, 8 + 3 * n), value=value, level=ValueLevel.NORMAL, row_id=f"{concept}:{n}"
        )
        for n, value in enumerate(values)
    )
    return Trend(concept=concept, unit="mmol/L", kind=EventKind.LAB, readings=readings)


@pytest.mark.parametrize(
    ("values", "more"),
    [
        ((2.0,), "2150-01-01 08:00"),
        ((2.0, 3.0), "rising, +1 in 3 h, 2150-01-01 11:00"),
        ((3.0, 2.5, 2.0), "falling, -1 in 6 h, 2150-01-01 14:00"),
    ],
)
def test_a_course_is_told_from_two_readings_on(values: tuple[float, ...], more: str) -> None:
    state = PatientState(subject_id=1, trends={(EventKind.LAB, "lactate", "mmol/L"): measured("lactate", *values)})
    (entry,) = next(one.entries for one in state_sections(state, None) if one.name == "measurements")
    assert (entry.words, entry.more) == (f"lactate {values[-1]:g} mmol/L", more)


@pytest.mark.parametrize(("count", "first"), [(60, "test 0"), (61, "test 1")])
def test_sixty_entries_of_a_section_are_shown_those_touched_last_of_how_many(count: int, first: str) -> None:
    names = [f"test {number}" for number in range(count)]
    state = PatientState(subject_id=1, trends={(EventKind.LAB, name, "mmol/L"): measured(name, 2.0) for name in names})
    shown = next(one for one in state_sections(state, None) if one.name == "measurements")
    assert (len(shown.entries), shown.total) == (60, count)
    assert shown.entries[0].words == f"test {count - 1} 2 mmol/L"
    assert shown.entries[-1].words == f"{first} 2 mmol/L"


def test_an_entry_leads_to_the_row_that_said_it_last() -> None:
    first, last = datetime(2150, 1, 1, 8), datetime(2150, 1, 3, 9)
    problem = ActiveProblem(concept="sepsis", since=first, last=last, row_ids=("diagnoses_icd:1", "diagnoses_icd:2"))
    state = PatientState(subject_id=1, problems={"sepsis": problem})
    (entry,) = next(one.entries for one in state_sections(state, None) if one.name == "problems")
    assert (entry.words, entry.more, entry.row_id) == ("sepsis", "known since 2150-01-01 08:00", "diagnoses_icd:2")
