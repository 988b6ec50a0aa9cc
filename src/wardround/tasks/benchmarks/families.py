"""Every family of benchmarks by its name, and one function that builds any of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Unpack, get_args, get_type_hints

from wardround.core import Reporter, UserError, own_codes, silent
from wardround.core.errors import unknown
from wardround.records import Store
from wardround.tasks.answers import AnswerClass
from wardround.tasks.benchmarks.agentehr import build_agentehr
from wardround.tasks.benchmarks.benchmark import Benchmark
from wardround.tasks.benchmarks.clinseek import build_clinseek
from wardround.tasks.benchmarks.clinseek_mm import build_clinseek_mm
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS, Fractions
from wardround.tasks.benchmarks.ehrshot import build_ehrshot
from wardround.tasks.benchmarks.own import OWN_TASKS, build_own, read_aces_task, read_label_table, read_task_file
from wardround.tasks.benchmarks.own.labelling import OwnTask
from wardround.tasks.benchmarks.pipeline import BoundedOptions, BuildSettings
from wardround.tasks.benchmarks.text_cases import TEXT_CASE_FAMILIES, CaseFiles, build_text_cases
from wardround.tasks.benchmarks.trace import build_trace

Files = Sequence[Path | str]


def build_benchmark(
    family: str, store: Store | Path | str | None, out: Path | str, *, report: Reporter = silent, **options: Any
) -> Benchmark:
    """Build a benchmark, save it in the folder ``out``, and return it.

    ``family``: a key of ``FAMILIES``, such as "agentehr", "ehrshot", "clinseek" or "trace". ``store``: an open store or
    its folder; None for families whose cases are texts. ``options``: those of the family's own function, such as
    ``per_task``, ``seed``, ``tasks`` and ``policy`` of :func:`build_agentehr`; code tables that the user added are
    used where the family maps codes. UserError: no such family or option, or ``out`` is not empty.

    Example: ``build_benchmark("agentehr", "store", "bench", per_task=60)``.
    """
    if family not in FAMILIES:
        raise UserError(unknown("family of benchmarks", family, FAMILIES))
    known = options_of(family)
    for name in options:
        if name not in known:
            others = [other for other in FAMILIES if name in options_of(other)]
            raise UserError(
                f"{name} is for {' and '.join(others)}, not for {family}"
                if others
                else unknown(f"option of {family}", name, known)
            )
    if "user_codes" in known:
        options.setdefault("user_codes", own_codes())
    if "report" in signature(FAMILIES[family]).parameters:
        options["report"] = report
    if family in TEXT_CASE_FAMILIES:
        if store is not None:
            raise UserError(f"{family} tells its cases in words: it takes no store")
        return FAMILIES[family](Path(out), **options)
    if store is None:
        raise UserError(f"{family} is built from a store: name its folder")
    return FAMILIES[family](store if isinstance(store, Store) else Store.open(store), Path(out), **options)


def options_of(family: str) -> Collection[str]:
    """Return the names of the options that a family's builder takes."""
    builder = FAMILIES[family]
    parameters = signature(builder).parameters.values()
    own = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY and one.name != "report"]
    shared = get_type_hints(builder.func if isinstance(builder, partial) else builder).get("options")
    return own if shared is None else [*own, *get_type_hints(get_args(shared)[0])]


def _labels(
    store: Store,
    folder: Path,
    *,
    labels: Path | str | None = None,
    label_name: str | None = None,
    question: str | None = None,
    classes: Sequence[AnswerClass] = (),
    cuts: Sequence[float] = (),
    user_codes: Path | None = None,
    report: Reporter = silent,
    **options: Unpack[BoundedOptions],
) -> Benchmark:
    """Build the task of a user's table of labels."""
    if labels is None:
        raise UserError("say which table of labels: wardround bench build labels --labels FILE ...")
    task = read_label_table(Path(labels), name=label_name, description=question, classes=classes, cuts=cuts)
    return build_own([task], store, folder, BuildSettings(**options), user_codes=user_codes, report=report)


def _own(
    store: Store,
    folder: Path,
    *,
    aces: Path | str | None = None,
    label_name: str | None = None,
    question: str | None = None,
    report: Reporter = silent,
    **options: Unpack[BoundedOptions],
) -> Benchmark:
    """Build the task of an ACES task file, labelled by the package es-aces itself."""
    if aces is None:
        raise UserError("say which task file of ACES: wardround bench build own --aces FILE ...")
    task = read_aces_task(Path(aces), store, name=label_name, description=question, report=report)
    return build_own([task], store, folder, BuildSettings(**options), report=report)


def _tasks(
    store: Store,
    folder: Path,
    *,
    task_files: Files = (),
    tasks: Sequence[str] = (),
    user_codes: Path | None = None,
    report: Reporter = silent,
    **options: Unpack[BoundedOptions],
) -> Benchmark:
    """Build the tasks of a user's files (``task_files``) and of plug-ins (``tasks``)."""
    if not task_files and not tasks:
        raise UserError("say which tasks: wardround bench build tasks --task-file FILE ... (or --task of a plug-in)")
    own: list[OwnTask] = [read_task_file(Path(path), store.spec) for path in task_files]
    own += [OWN_TASKS.get(name)(store.spec) for name in tasks]
    return build_own(own, store, folder, BuildSettings(**options), user_codes=user_codes, report=report)


def _text_cases(
    family: str,
    folder: Path,
    *,
    cases: Files = (),
    test_cases: Files = (),
    drop_overlaps: bool = False,
    seed: int = 0,
    fractions: Fractions = DEFAULT_FRACTIONS,
) -> Benchmark:
    """Build a family of text cases from a user's files."""
    files = CaseFiles(cases=tuple(map(Path, cases)), test=tuple(map(Path, test_cases)))
    return build_text_cases(family, files, folder, seed=seed, fractions=fractions, drop_overlaps=drop_overlaps)


FAMILIES: Mapping[str, Callable[..., Benchmark]] = {
    "agentehr": build_agentehr,
    "ehrshot": build_ehrshot,
    "clinseek": build_clinseek,
    "clinseek-mm": build_clinseek_mm,
    "trace": build_trace,
    "labels": _labels,
    "tasks": _tasks,
    "own": _own,
    **{family: partial(_text_cases, family) for family in TEXT_CASE_FAMILIES},
}
"""The builder of each family. A builder gets the store (None for text cases), the folder, and its options."""
