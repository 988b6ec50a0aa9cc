"""``import wardround`` is enough for a notebook, and costs nothing before a name is used."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import wardround as wd
from wardround.core import UserError, run_to_end
from wardround.records import ChartTable, Store
from wardround.reports import OpenedRun
from wardround.reports.opened_run import RunPage
from wardround.tools import ToolResult


def loaded_after(code: str) -> set[str]:
    """The modules of a new Python that has run some code."""
    script = f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout))


def test_importing_loads_no_room_and_each_name_only_its_own() -> None:
    plain, bare = loaded_after("import typing, importlib"), loaded_after("import wardround")
    assert {name for name in bare - plain if not name.startswith("_")} == {"wardround"}
    opened = loaded_after("import wardround; wardround.open_store")
    assert {"wardround.records.store", "pyarrow"} <= opened
    assert not {name for name in opened if name.startswith(("wardround.agents", "wardround.runs", "wardround.synth"))}


def test_every_name_is_there_and_no_other() -> None:
    assert {name: callable(getattr(wd, name)) for name in wd.__all__ if name != "__version__"} == dict.fromkeys(
        (
            "Environment",
            "build_benchmark",
            "compare",
            "forecast",
            "ingest",
            "open_benchmark",
            "open_run",
            "open_store",
            "reproduce",
            "run",
            "settings",
            "synthesize",
        ),
        True,
    )
    assert set(wd.__all__) <= set(dir(wd))
    with pytest.raises(AttributeError, match="has no attribute 'open_stores'"):
        wd.open_stores  # noqa: B018


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hospital, its store, a benchmark and a run, all made through the front door inside a loop."""
    folder = tmp_path_factory.mktemp("door")

    async def cells() -> None:
        wd.synthesize(f"{folder}/hospital", patients=30, seed=7)
        wd.ingest("mimiciv", f"{folder}/hospital", f"{folder}/store")
        wd.build_benchmark("agentehr", f"{folder}/store", f"{folder}/bench", per_task=3)
        play(folder)

    asyncio.run(cells())
    return folder


def play(folder: Path, name: str = "run", **settings: object) -> OpenedRun:
    asked = {"agents": "react", "tasks": ("labevents", "transfers"), "limit": 2} | settings
    return wd.run(f"{folder}/bench", f"{folder}/store", out=f"{folder}/{name}", **asked)


def test_a_run_is_made_in_a_running_loop_and_goes_on_with_the_same_call(here: Path) -> None:
    run = wd.open_run(str(here / "run"))
    assert (run.done, run.total) == (4, 4)
    assert repr(run) == f"Run('{here}/run': 4 of 4 episodes done)"
    before = {file: file.stat().st_mtime_ns for file in run.folder.logs.iterdir() if file.suffix == ".log"}
    assert repr(play(here)) == repr(run)
    assert before == {file: file.stat().st_mtime_ns for file in before}
    with pytest.raises(UserError, match=r"own settings \(run.limit = 2\)"):
        play(here, limit=3)


def test_a_run_that_may_not_be_written_is_read_and_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("wardround.runs.queue.WorkQueue.__init__", refused)
    monkeypatch.setattr("wardround.runs.results.write_atomically", refused)
    run = wd.open_run(here / "run")
    html = run._repr_html_()
    assert "4 of 4 episodes done" in html
    assert (html.count("<ul>"), html.count("<li>")) == (int(bool(run.notes)), len(run.notes))
    assert len(run.episodes) == 4
    assert run.report(out=here / "elsewhere") == here / "elsewhere" / "index.html"


def test_two_processes_run_it_inside_a_running_loop(here: Path) -> None:
    async def cell() -> OpenedRun:
        return play(here, "two", workers=2)

    assert asyncio.run(cell()).done == 4


def test_what_was_opened_is_as_good_as_its_folder(here: Path) -> None:
    store, benchmark = wd.open_store(here / "store"), wd.open_benchmark(here / "bench")
    assert repr(wd.run(benchmark, store, out=here / "run")) == repr(wd.open_run(here / "run"))
    with pytest.raises(UserError, match="this benchmark has no folder"):
        wd.run(replace(benchmark, folder=None), store, out=here / "other")
    with pytest.raises(UserError, match="name a benchmark"):
        wd.run(out=here / "other")


def test_scores_have_intervals_or_say_why_not(here: Path) -> None:
    rows = as_rows(wd.open_run(here / "run").scores())
    whole = next(row for row in rows if (row["task"], row["stratum"]) == ("labevents", "all"))
    scored = [one for one in wd.open_run(here / "run").scored() if one.task == "labevents"]
    assert whole["value"] == pytest.approx(sum(one.score.f1 for one in scored) / 2)
    assert (whole["n"], whole["episodes"], whole["failed"]) == (2, 2, 0)
    assert whole["interval"] in ("few patients", "one patient: no interval")
    assert is_missing(whole["low"])
    assert is_missing(whole["high"])


def is_missing(cell: object) -> bool:
    return cell is None or cell != cell  # pandas has NaN


def as_rows(frame: object) -> list[dict[str, object]]:
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    rows: list[dict[str, object]] = table.to_pylist()
    return rows


def test_runs_are_compared_by_object_or_folder_with_the_first_as_baseline(here: Path) -> None:
    short = play(here, "short", turns=1)
    rows = as_rows(wd.compare(wd.open_run(here / "run"), here / "short"))
    assert {row["baseline"] for row in rows} == {f"react · offline ({here}/run)"}
    assert {row["contender"] for row in rows} == {f"react · offline ({here}/short)"}
    assert as_rows(short.compare(here / "run"))[0]["difference"] == -rows[0]["difference"]  # type: ignore[operator]
    with pytest.raises(UserError, match="at least two runs"):
        wd.compare(here / "run")


def test_episodes_have_prompt_answer_score_and_transcript(here: Path) -> None:
    run = wd.open_run(here / "run")
    episodes = run.episodes
    assert len(episodes) == 4
    assert len(episodes[1:3]) == len(episodes.where(task="transfers")) == 2
    one = episodes[0]
    assert one.score == run.scored()[0]
    assert repr(one).startswith("Episode(react|offline|labevents|")
    assert one.prompt.startswith("[system]\n")
    assert one.answer == one.score.answer
    assert one.target == wd.open_benchmark(here / "bench").sample(one.score.sample).target
    assert "call finish {" in one.transcript
    assert [each.score for each in episodes] == run.scored()


def test_the_report_is_shown_in_a_frame_without_scripts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page = wd.open_run(here / "run").show()
    assert opened == [(here / "run" / "report" / "index.html").resolve().as_uri()]
    frame = page._repr_html_()
    assert frame.startswith('<iframe sandbox srcdoc="&lt;!doctype html&gt;')
    assert wd.open_run(here / "run").episodes[0]._repr_html_().startswith("<iframe sandbox srcdoc=")


HOSTILE = '</td><script>alert("x")</script><img src=x onerror=alert(1)>'


def test_what_a_record_or_a_model_says_is_never_markup(here: Path) -> None:
    store = wd.open_store(here / "store")
    chart = store.chart(int(store.subjects[0]), "2190-01-01 00:00")
    table = next(one for one in map(chart.table, chart.table_names) if one.num_rows)
    column = next(n for n, kind in enumerate(table.batch.schema.types) if kind == pa.string() and n)
    hostile = table.batch.set_column(column, table.columns[column], pa.array([HOSTILE] * table.num_rows))
    shown = ChartTable(name=HOSTILE, spec=table.spec, batch=hostile, event_time=table.event_time)
    chart._tables[table.name] = shown
    result = ToolResult(text=HOSTILE)
    for html in (chart._repr_html_(), shown._repr_html_(), result._repr_html_(), RunPage(html=HOSTILE)._repr_html_()):
        assert "<script" not in html
        assert "<img" not in html
        assert "&lt;script&gt;" in html


def test_a_chart_shows_its_newest_rows_and_nothing_later(here: Path) -> None:
    store, benchmark = wd.open_store(here / "store"), wd.open_benchmark(here / "bench")
    sample = benchmark.samples("labevents", split="test")[0]
    chart = sample.chart(store)
    assert repr(chart) == f"Chart(subject {sample.subject_id} as of {sample.moment}, mimiciv, policy known_at)"
    labs = chart.table("labevents")
    newest = labs.newest(3).column("event_time").to_pylist()
    assert newest == sorted(labs.to_arrow().column("event_time").to_pylist(), reverse=True)[:3]
    assert labs.newest(10_000).num_rows == labs.num_rows
    assert labs.newest(0).num_rows == 0
    html = chart._repr_html_()
    assert f"labevents: {labs.num_rows} rows" in html
    assert labs.newest(1).column("row_id")[0].as_py() in html
    later = set(store.rows(sample.subject_id, "labevents").column("row_id").to_pylist()) - set(
        labs.batch.column("row_id").to_pylist()
    )
    assert later
    assert not {row for row in later if f">{row}<" in html}


def test_a_chart_is_taken_at_a_time_written_as_text(synthetic_store: Store) -> None:
    subject = int(synthetic_store.subjects[0])
    assert synthetic_store.chart(subject, "2180-05-06 22:23").as_of == datetime(2180, 5, 6, 22, 23)
    with pytest.raises(UserError, match="'next week' is no time of a record"):
        synthetic_store.chart(subject, "next week")


def test_an_option_of_another_family_is_named_with_its_family(here: Path) -> None:
    with pytest.raises(UserError, match="unit is for trace, not for agentehr"):
        wd.build_benchmark("agentehr", here / "store", here / "b", unit="icu")
    with pytest.raises(UserError, match=r"option of agentehr 'per_tasks'\. Did you mean 'per_task'"):
        wd.build_benchmark("agentehr", here / "store", here / "b", per_tasks=3)
    with pytest.raises(UserError, match=r"family of benchmarks 'agentehrs'\. Did you mean 'agentehr'"):
        wd.build_benchmark("agentehrs", here / "store", here / "b")
    with pytest.raises(UserError, match="built from a store"):
        wd.build_benchmark("ehrshot", None, here / "b")


def test_a_benchmark_is_built_with_the_code_tables_that_the_user_added(
    here: Path, icd9_procedures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def maps(name: str, **options: object) -> object:
        built = wd.build_benchmark("agentehr", here / "store", tmp_path / name, per_task=1, **options)
        return built.manifest["label_maps"]["icd9_procedures"]

    monkeypatch.setenv("WARDROUND_HOME", str(tmp_path))
    (tmp_path / "codes").symlink_to(icd9_procedures)
    assert maps("added") is True
    assert maps("named", user_codes=tmp_path / "no such folder") is False


def test_the_page_on_python_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, names)
    assert "Run('run': 4 of 4 episodes done)" in capsys.readouterr().out
    columns = re.search(r"# columns: (.*)", page)
    assert columns is not None
    assert list(as_rows(names["scores"])[0]) == columns[1].split(", ")
    assert Path("run/report/index.html").is_file()
    assert set(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE)) == set(wd.__all__) - {"__version__"}


def test_a_forecast_and_a_reproduction_are_frames_inside_a_running_loop(here: Path) -> None:
    where = (f"{here}/bench", f"{here}/store")

    async def cells() -> tuple[list[dict[str, object]], ...]:
        wide = wd.forecast(*where, agents="react", limit=2, price=(1.0, 2.0))
        like = wd.forecast(*where, agents="react", limit=2, like=wd.open_run(here / "run"))
        played = wd.reproduce("retrosum-figure-7", *where, out=f"{here}/figure", limit=1, tasks="transfers")
        return as_rows(wide), as_rows(like), as_rows(played.table())

    wide, like, rows = asyncio.run(cells())
    assert wide[0]["calls_min"] == wide[0]["episodes"]
    assert wide[0]["cost_min"] < wide[0]["cost_max"]  # type: ignore[operator]
    assert (like[0]["basis"], like[0]["calls_min"]) == ("earlier run", like[0]["calls_max"])
    assert is_missing(like[0]["cost_min"])
    assert {row["task"] for row in rows} >= {"transfers"}
    with pytest.raises(UserError, match="retrosum-figure-77"):
        wd.reproduce("retrosum-figure-77", *where, out=here / "none")


def test_settings_are_listed_with_their_defaults() -> None:
    rows = {row["name"]: row for row in as_rows(wd.settings())}
    assert rows["run.limit"]["unit"] == "samples"
    assert rows["budget.turns"]["what"]


def test_a_coroutine_runs_to_its_end_beside_a_running_loop() -> None:
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    async def cell() -> str:
        return run_to_end(where())

    assert run_to_end(where()) == threading.current_thread().name
    assert asyncio.run(cell()) != threading.current_thread().name


def test_its_error_is_the_callers_and_an_interrupt_cancels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    began = threading.Event()

    async def fails() -> None:
        raise UserError("as it is")

    async def sleeps() -> None:
        began.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cleaned up")
            raise

    async def cell(coroutine: object) -> None:
        run_to_end(coroutine)  # type: ignore[arg-type]

    with pytest.raises(UserError, match="as it is"):
        asyncio.run(cell(fails()))

    def interrupted(future: object, timeout: float | None = None) -> None:
        began.wait()
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(cell(sleeps()))
    assert ended == ["cleaned up"]
