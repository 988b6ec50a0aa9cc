"""Fixtures every room's tests share: where the real open data lies, when it is there, and stores made once."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import forkserver, util
from pathlib import Path

import pytest
from hypothesis import settings

from effort import LONG
from forking import end_commands
from wardround.core.executors.processes import LOADED
from wardround.models.local import LOCAL_MODELS, serving
from wardround.records import IngestSettings, Store, ingest
from wardround.synth import synthesize, write_dialect
from wardround.synth.dialects.mimiciii import PROCEDURES
from working_folder import working_folder

REPOSITORY = Path(__file__).resolve().parents[1]

settings.register_profile("untimed", deadline=None, max_examples=40)  # a machine under load is no defect
settings.register_profile("long", parent=settings.get_profile("untimed"), max_examples=1000)
settings.load_profile("long" if LONG else "untimed")

pytest_plugins = ("cpu_report",)

Once = Callable[[str, Callable[[Path], object]], Path]

if os.environ.get("WARDROUND_TEST_BYTECODE", "1") == "1":
    # Where nothing compiled is kept, every command that a test starts compiles the package anew: half of its time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def pytest_configure(config: pytest.Config) -> None:
    with ExitStack() as until_the_end:
        until_the_end.enter_context(working_folder())
        config.add_cleanup(until_the_end.pop_all().close)
    gc.disable()  # until all is collected: what is imported stays
    config.addinivalue_line("markers", "long: runs only at length, with WARDROUND_TEST_LONG=1 (make long)")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background: our children would not hear it
        signal.signal(signal.SIGINT, signal.default_int_handler)


DEAREST_FIRST = ("tasks", "audits", "stream", "memory", "runs", "exports", "records", "tools", "agents")
"""Folders with the dearest files: begun last, one of them keeps one process busy and the other waiting for minutes."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(DEAREST_FIRST)}
    here = Path(__file__).parent
    items.sort(key=lambda item: order.get(item.path.relative_to(here).parts[0], len(order)))
    left_out = [] if LONG else [item for item in items if item.get_closest_marker("long")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays to the end, its 90,000 objects of garbage too (to find them takes 0.4 CPU-seconds in
    each process): whoever looks for garbage need not look through it, nor look every 700 objects, which took a
    twentieth of the suite."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def one_core() -> Iterator[None]:
    """Commands play in one process unless a test names more: every other one costs two CPU-seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "cpu_count", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_home_of_a_person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test reads or writes the corpora, code lists and weights that somebody keeps on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARDROUND_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk() -> Iterator[None]:
    """No test cuts the power, so nothing need be on the disk before it goes on: a third of what an ingest costs. Which
    files are synced, and when, is tested by names; at length all of them are."""
    with pytest.MonkeyPatch.context() as patch:
        if not LONG:
            patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_ended() -> Iterator[None]:
    """The processes that commands and workers are forked from end with the tests, so that what they cost is on their
    bill. The second is started by the first test that asks for workers, and serves all that come."""
    LOADED.extend(("wardround.runs.execute", "wardround.predictors.fit"))
    yield
    end_commands()
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # nobody else waits for it
    util._exit_function()  # type: ignore[attr-defined]  # as at the end of this process, when its folder is gone


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Make a folder once for all processes of a test run: whoever asks first makes it, the others wait for it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent

    def made(name: str, make: Callable[[Path], object]) -> Path:
        folder = root / "made-once" / name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "done").exists():
                make(folder / "made")
                (folder / "done").touch()
        return folder / "made"

    return made


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of open clinical data sets, next to a development checkout."""
    folder = Path(os.environ.get("WARDROUND_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("the open data folder is not here (set WARDROUND_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def mimic_demo() -> Path:
    """The MIMIC-IV demo 2.2 as downloaded."""
    named = os.environ.get("WARDROUND_MIMIC_DEMO")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data" / "mimic-iv-demo-2.2"
    if not folder.is_dir():
        pytest.skip("the MIMIC-IV demo is not here (set WARDROUND_MIMIC_DEMO)")
    return folder


@pytest.fixture(scope="session")
def mimic_demo_store(mimic_demo: Path, once: Once) -> Store:
    """The demo's store."""
    return Store.open(once("mimic-demo-store", lambda path: ingest("mimiciv", mimic_demo, path)))


@pytest.fixture(scope="session")
def meds_demo(shared_data: Path) -> Path:
    """The MIMIC-IV demo in MEDS as downloaded."""
    folder = shared_data / "mimic-iv-demo-meds" / "meds"
    if not folder.is_dir():
        pytest.skip("the MIMIC-IV demo in MEDS is not here")
    return folder


@pytest.fixture(scope="session")
def meds_demo_store(meds_demo: Path, once: Once) -> Store:
    """Its store."""
    return Store.open(once("meds-demo-store", lambda path: ingest("meds", meds_demo, path)))


@pytest.fixture(scope="session")
def synthetic_hospital(once: Once) -> Path:
    """Raw files of 120 invented patients."""
    return once("synthetic-hospital", lambda folder: synthesize(folder, patients=120, seed=3, decoys=False))


@pytest.fixture(scope="session")
def synthetic_store_path(synthetic_hospital: Path, once: Once) -> Path:
    """Their store."""
    return once("synthetic-store", lambda path: ingest("mimiciv", synthetic_hospital, path))


@pytest.fixture(scope="session")
def synthetic_store(synthetic_store_path: Path) -> Store:
    """Their store, open."""
    return Store.open(synthetic_store_path)


@pytest.fixture(scope="session")
def film_hospital(once: Once) -> Path:
    """Raw files of 12 invented patients with their chest films."""
    pytest.importorskip("pydicom", reason="needs the extra [imaging]")
    from wardround.synth.radiographs import write_films

    def make(folder: Path) -> None:
        synthesize(folder, patients=12, seed=3, films=True, decoys=False)
        write_films(folder)

    return once("film-hospital", make)


@pytest.fixture(scope="session")
def film_store(film_hospital: Path, once: Once) -> Store:
    """Their store, open."""
    return Store.open(once("film-store", lambda path: ingest("mimiciv", film_hospital, path)))


@pytest.fixture(scope="session")
def synthetic_benchmark_path(synthetic_store: Store, once: Once) -> Path:
    """The six AgentEHR tasks on them, a few samples each."""
    from wardround.tasks.benchmarks.agentehr import build_agentehr

    return once("synthetic-benchmark", lambda path: build_agentehr(synthetic_store, path, seed=3, per_task=6))


@pytest.fixture(scope="session")
def training_run_path(synthetic_benchmark_path: Path, synthetic_store_path: Path, once: Once) -> Path:
    """What the offline policy did on training samples of two tasks, twice each. Copy it: memories lie beside it."""
    from wardround.runs import RunSettings, execute, start

    settings = RunSettings.of(
        benchmark=str(synthetic_benchmark_path),
        store=str(synthetic_store_path),
        tasks=("diagnoses", "labevents"),
        split="train",
        limit=4,
        epochs=2,
        agents=("react",),
    )
    return once("training-run", lambda path: execute(start(path, settings)))


@pytest.fixture(scope="session")
def synthetic_stays_path(synthetic_store: Store, once: Once) -> Path:
    """The stays of the synthetic hospital, to be played bundle by bundle."""
    from wardround.tasks.benchmarks import build_trace

    return once("synthetic-stays", lambda path: build_trace(synthetic_store, path))


@pytest.fixture(scope="session")
def clinseek_path(synthetic_store: Store, once: Once) -> Path:
    """All tasks of ClinSeek-Bench on them, two samples of each in every split."""
    from wardround.tasks.benchmarks.clinseek import build_clinseek

    return once(
        "synthetic-clinseek", lambda path: build_clinseek(synthetic_store, path, seed=3, per_task=2, allow_missing=True)
    )


@pytest.fixture(scope="session")
def mimiciii_hospital(synthetic_hospital: Path, once: Once) -> Path:
    """The same invented patients in files of the shape of MIMIC-III 1.4."""
    return once("mimiciii-hospital", lambda folder: write_dialect("mimiciii", synthetic_hospital, folder))


@pytest.fixture(scope="session")
def icd9_procedures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """User codes with the few ICD-9 procedures of that hospital."""
    from wardround.clinical.codes import add_user_codes

    folder = tmp_path_factory.mktemp("codes")
    rows = (f"{code},{category},x,x\n" for code, category in PROCEDURES.items())
    text = "ICD,CCS_CATEGORY,ICD_DESCRIPTION,CCS_CATEGORY_DESCRIPTION\n" + "".join(rows)
    (folder / "ccs.csv").write_text(text, encoding="utf-8")
    add_user_codes("icd9-procedures", folder / "ccs.csv", folder / "home")
    return folder / "home"


@pytest.fixture(scope="session")
def mimiciii_store_path(mimiciii_hospital: Path, icd9_procedures: Path, once: Once) -> Path:
    """Their store."""
    settings = IngestSettings(user_codes=icd9_procedures)
    return once("mimiciii-store", lambda path: ingest("mimiciii", mimiciii_hospital, path, settings=settings))


@pytest.fixture(scope="session")
def real_model_url() -> Iterator[str]:
    """The base URL of the real small model, served for these tests on one thread unless more are asked for."""
    if os.environ.get("WARDROUND_REAL_MODEL") != "1":
        pytest.skip("needs WARDROUND_REAL_MODEL=1, the extra [local] and the weights (make weights)")
    with serving(LOCAL_MODELS["smollm2"], threads=int(os.environ.get("WARDROUND_REAL_MODEL_THREADS", "1"))) as url:
        yield url
