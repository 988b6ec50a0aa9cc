"""The environment: what a model reads, and what its mistakes come back as."""

from __future__ import annotations

import asyncio

import pytest
from fake_chart import FakeChart, FakeTable, small_chart

from wardround.clinical.codes import LabelSet
from wardround.core import UserError
from wardround.tools import Aids, Environment, EnvironmentOptions, default_toolset, open_toolset
from wardround.tools.candidates import CandidateSpace
from wardround.tools.finish import mentions


@pytest.fixture
def environment() -> Environment:
    return Environment(small_chart(400), options=EnvironmentOptions(max_result_tokens=400, aids=Aids.none()))


def test_the_session_owns_the_subject(environment: Environment) -> None:
    assert not environment.call("get_latest_records", {"table_name": "labevents", "subject_id": "7"}).is_error
    other = environment.call("get_latest_records", {"table_name": "labevents", "subject_id": 8})
    assert other.is_error
    assert "bound to subject 7" in other.text


@pytest.mark.parametrize(
    "written", ["labevents", "mimiciv_hosp.labevents", "hosp.LabEvents", '"labevents"', "[labevents]"]
)
def test_a_table_is_found_behind_its_schema_and_in_quotes(environment: Environment, written: str) -> None:
    plain = environment.call("get_latest_records", {"table_name": "labevents"})
    assert environment.call("get_latest_records", {"table_name": written}).text == plain.text


def test_a_result_says_what_it_leaves_out_and_goes_on(environment: Environment) -> None:
    seen: list[str] = []
    page = environment.call("get_records_by_time", {"table_name": "labevents"})
    assert page.text.startswith(f"labevents: showing {page.rows_shown} of 400 rows, 2150-05-30 08:00:00 to ")
    assert page.text.splitlines()[1] == "constant: subject_id=7"
    while True:
        assert page.text.splitlines()[2].startswith("row_id | charttime | label | value")
        seen += page.row_ids
        environment.call("think", {"response": "other calls come between"})
        if page.cursor is None:
            break
        page = environment.call("get_next_page", {"cursor": page.cursor})
    assert seen == [f"labevents:{number}" for number in range(1000, 1400)]
    assert environment.read_row_ids == frozenset(seen)


def test_a_date_only_end_is_the_end_of_the_day(environment: Environment) -> None:
    day = {"table_name": "labevents", "start_time": "2150-05-30", "end_time": "2150-05-30"}
    assert environment.call("get_records_by_time", day).rows_total == 400


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("get_latest_record", {}, "Did you mean 'get_latest_records'"),
        ("load_ehr", {"subject_id": 8}, "the chart is open"),
        ("get_latest_records", {"table_name": "labevnts"}, "Did you mean 'labevents'"),
        ("get_latest_records", {}, "needs the argument 'table_name'"),
        ("get_latest_records", {"table": "labevents"}, "Did you mean 'table_name'"),
        ("get_latest_records", "{", "not valid JSON"),
        ("get_latest_records", "[1]", "must be a JSON object"),
        (
            "get_records_by_value",
            {"table_name": "labevents", "column_name": "lable", "value": 1},
            "Did you mean 'label'",
        ),
        ("get_records_by_time", {"table_name": "labevents", "start_time": "May"}, "YYYY-MM-DD HH:MM:SS"),
        ("get_records_by_time", {"table_name": "diagnoses_icd"}, "have no time"),
        ("get_next_page", {"cursor": "nonsense"}, "there is no cursor"),
        ("finish", {"response": [{"name": "x"}]}, "item 0 must be string"),
        ("get_candidates", {"table_name": "x", "query": "y"}, "there is no tool"),
        ("get_records_by_keyword", {"table_name": "labevents", "keyword": "\ud800"}, "0 rows"),
    ],
)
def test_mistakes_are_answered(environment: Environment, name: str, arguments: object, said: str) -> None:
    result = environment.call(name, arguments)  # type: ignore[arg-type]
    assert said in result.text
    assert result.is_error or result.rows_total == 0


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("x" * 90_000, {}, "there is no tool"),
        ("get_latest_records", {"table_name": "x" * 90_000}, "there is no table"),
        ("get_records_by_keyword", {"table_name": "labevents", "keyword": "x" * 90_000}, "0 rows containing"),
        ("get_records_by_keyword", {"table_name": "labevents", "keyword": "x" * 100_000}, "longer than 100,000"),
        ("get_latest_records", {"table_name": ["x" * 50_000] * 3}, "longer than 100,000"),
        ("get_latest_records", {"y" * 100_001: 1}, "longer than 100,000"),
    ],
)
def test_what_is_too_long_is_neither_compared_nor_repeated(
    environment: Environment, name: str, arguments: dict[str, object], said: str
) -> None:
    told = environment.call(name, arguments).text
    assert said in told
    assert len(told) < 2_000


def test_keywords_are_literal_and_a_long_cell_shows_them(environment: Environment) -> None:
    one = environment.call("get_records_by_keyword", {"table_name": "radiology", "keyword": "PORTABLE ("})
    assert one.row_ids == ("radiology:R-2",)
    assert '"portable (AP) chest: normal | no change"' in one.text
    long = environment.call("get_records_by_keyword", {"table_name": "radiology", "keyword": "copd"})
    assert "Known COPD (severe)" in long.text
    assert "characters before; whole text: cursor=" in long.text


def test_a_long_text_is_read_to_its_end_without_loss(environment: Environment) -> None:
    text = environment.chart.table("radiology").batch.column(3)[0].as_py()
    first = environment.call("get_records_by_keyword", {"table_name": "radiology", "keyword": "COPD"})
    cursor = first.text.split("whole text: cursor=")[1].split("]")[0]
    parts = []
    while cursor:
        page = environment.call("get_next_page", {"cursor": cursor})
        caption, _, part = page.text.partition("\n")
        assert caption.startswith("radiology.text of radiology:R-1: characters ")
        parts.append(part)
        cursor = page.cursor or ""
    assert "".join(parts) == text


def test_values_match_by_type(environment: Environment) -> None:
    def total(column: str, value: object) -> int | None:
        arguments = {"table_name": "labevents", "column_name": column, "value": value}
        return environment.call("get_records_by_value", arguments).rows_total

    assert total("valuenum", 3) == total("valuenum", "3.00") == total("value", "3") == 80
    assert total("label", "creatinine") == total("itemid", "50912.0") == 134
    assert total("flag", None) == total("flag", "null") == 300
    assert total("charttime", "2150-05-30") == 400
    code = {"table_name": "diagnoses_icd", "column_name": "icd_code", "value": "389"}
    nothing = environment.call("get_records_by_value", code)
    assert (nothing.rows_total, nothing.rows_shown) == (0, 0)


def test_finish_carries_answer_and_evidence(environment: Environment) -> None:
    evidence = [{"answer": "Essential hypertension", "row_ids": ["diagnoses_icd:21-1", "diagnoses_icd:9-9"]}]
    environment.call("get_latest_records", {"table_name": "diagnoses_icd"})
    result = environment.call("finish", {"response": '["Essential hypertension"]', "evidence": evidence})
    assert result.answer == ("Essential hypertension",)
    citations = environment.check_evidence(result.answer, result.evidence)
    assert [(c.exists, c.read, c.supports) for c in citations] == [(True, True, True), (False, False, False)]


@pytest.mark.parametrize(
    "evidence",
    [
        '"labevents:1"',
        "5",
        "[1, 2]",
        '{"a": 1}',
        '[{"answer": "x"}]',
        '[{"answer": "x", "row_ids": ["labevents:1"]',
        "[{x}]",
    ],
)
def test_an_answer_with_evidence_that_cannot_be_read_is_taken_and_noted(
    environment: Environment, evidence: str
) -> None:
    result = environment.call("finish", f'{{"response": ["x"], "evidence": {evidence}}}')
    assert (result.is_error, result.answer, result.evidence) == (False, ("x",), {})
    assert "Note: " in result.text


def test_evidence_is_text_that_can_be_stored(environment: Environment) -> None:
    cited = {"a\ud800": ["labevents:1\udfff"]}
    for evidence in (cited, [{"answer": answer, "row_ids": rows} for answer, rows in cited.items()]):
        result = environment.call("finish", {"response": ["a\ud800"], "evidence": evidence})
        assert result.answer == ("a?",)
        assert result.evidence == {"a?": ("labevents:1?",)}


def test_candidates_are_searched_by_one_word_or_several() -> None:
    names = (
        "Acute renal failure",
        "Chronic kidney disease",
        "Essential hypertension",
        "Hypertension with complications",
    )
    space = CandidateSpace(name="diagnoses", labels=LabelSet(name="diagnoses", labels=names))
    toolset = open_toolset("agentehr", more=["get_candidates"])
    environment = Environment(
        small_chart(), toolset, EnvironmentOptions(candidates={"diagnoses": space}, aids=Aids.none())
    )

    def lines(tool: str, **arguments: object) -> list[str]:
        result = environment.call(tool, {"table_name": "Diagnoses", **arguments})
        assert not result.is_error
        return result.text.splitlines()

    one = lines("get_candidates_by_keyword", keyword="HYPERTENSION")
    assert one[:2] == ["diagnoses: 2 rows", "candidate | similarity | matched"]
    assert {line.split(" | ")[0] for line in one[2:]} == set(names[2:])
    both = lines("get_candidates_by_fuzzy_matching", keywords=["kidny disease", "renal failur"])
    assert both[1] == "query | candidate | similarity | matched"
    assert both[2].startswith("kidny disease | Chronic kidney disease")
    assert lines("get_candidates_by_semantic_similarity", query="high blood pressure")[2].startswith("Essential hypert")
    assert "0 rows" in lines("get_candidates_by_keyword", keyword="zzz")[0]
    any_way = lines("get_candidates", query=["high blood pressure", "kidny disease", "complic", "zzz"])
    best = {line.split(" | ")[0]: line.split(" | ")[1] for line in reversed(any_way[2:]) if " | " in line}
    assert best == {
        "high blood pressure": "Essential hypertension",
        "kidny disease": "Chronic kidney disease",
        "complic": "Hypertension with complications",
    }
    assert any_way[0].endswith("no match for 'zzz'")
    listed = environment.call("run_sql_query", {"sql_query": "SELECT candidate FROM diagnoses ORDER BY 1"})
    assert listed.text.splitlines()[2:] == sorted(names)
    assert "candidate table" in environment.call("get_latest_records", {"table_name": "diagnoses"}).text


def test_two_long_cells_in_one_row_are_cut_apart() -> None:
    long = FakeTable("notes", {"first": ("text", ["a" * 9000]), "second": ("text", ["b" * 9000])})
    page = Environment(FakeChart([long]), options=EnvironmentOptions(max_result_tokens=400)).call(
        "get_latest_records", {"table_name": "notes"}
    )
    assert page.text.count("more characters: cursor=") == 2
    assert "aaa" in page.text
    assert "bbb" in page.text


def test_calls_leave_the_event_loop(environment: Environment) -> None:
    async def eight() -> list[int | None]:
        calls = [environment.call_async("get_records_by_time", {"table_name": "labevents"}) for _ in range(8)]
        return [result.rows_total for result in await asyncio.gather(*calls)]

    assert asyncio.run(eight()) == [400] * 8


def test_toolsets_are_chosen_by_name_and_category() -> None:
    tools = default_toolset()
    assert tools.select(["inner", "run_sql_query"]).names == ("run_sql_query", "get_next_page", "think", "finish")
    assert "load_ehr" not in tools.names
    with pytest.raises(UserError, match="run_sql_query"):
        tools.select(["run_sql"])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT count(*) AS n FROM main.labevents", "400"),
        ('SELECT count(*) AS n FROM "main"."labevents"', "400"),
        ("WITH labevents AS (SELECT 1 AS a) SELECT count(*) AS n FROM labevents", "1"),
        ("WITH labevents AS (SELECT 1 AS a) SELECT count(*) AS n FROM main.labevents", "400"),
        ("SELECT count(*) AS n FROM temp.labevents", "Did you mean 'labevents'"),
        ("SELECT count(*) AS n FROM main.labevnts", "Did you mean 'labevents'"),
    ],
)
def test_a_table_may_be_named_with_its_schema(environment: Environment, query: str, said: str) -> None:
    text = environment.call("run_sql_query", {"sql_query": query}).text
    assert said in (text if "mean" in said else text.splitlines()[-1])
    assert "mean" in said or text.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("text", "answer", "is_there"),
    [
        ("two tumors of the liver", "tumor", True),
        ("a tumor", "Tumors", True),
        ("fevers", "tumors", False),
        ("an abscess", "absces", False),
        ("lab", "labs", False),  # of four letters: gas is no plural of ga
        ("acute respiratory failure", "Acute renal failure", False),
    ],
)
def test_an_answer_is_mentioned_in_the_singular_or_the_plural(text: str, answer: str, is_there: bool) -> None:
    assert mentions(text, answer) is is_there
