"""The leak test of a foreign pipeline: run it on copies of its raw files that differ in what nobody could know yet."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from wardround.audits.leaks import rounds_of
from wardround.audits.pipeline.compare import (
    LEAKS,
    VERDICTS,
    VOCABULARY,
    Change,
    Differences,
    PipelineFinding,
    PipelineReport,
    Place,
    Verdict,
    differences,
    family,
    grouped,
    rank_auc,
)
from wardround.audits.pipeline.copies import (
    ROWS,
    Copies,
    CopyVariant,
    PipelineCommand,
    PipelineFailed,
    RunPipeline,
    kept_copy,
    keys_in,
    linked_copy,
    placed,
    unruled_files,
)
from wardround.audits.pipeline.readers import Output, ReadOutput, parse_reading, plain
from wardround.audits.pipeline.samples import PipelineSample, with_controls, write_samples
from wardround.audits.swap import SwapTable, load_swap_table, write_swapped
from wardround.audits.swap.files import files_below
from wardround.audits.swap.write import bare_key
from wardround.core import Progress, Reporter, UserError, silent
from wardround.records.reading import subject_number

_HOURS = (1, 6, 24, 168)
_CERTAIN, _STRICT = CopyVariant(clocks="certain"), CopyVariant(clocks="strict")
_CUT, _ORDER = CopyVariant(clocks="strict", cut=True), CopyVariant(order=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """``bisect``: also find the raw columns, and how early, with at most ``most_runs`` further runs. ``alone``: other
    people are left out of the copies. ``only``: by raw file, the columns that may change. ``declared``: by pattern of a
    feature, why it may look ahead. ``keep``: a folder for every copy and result, else nothing is kept."""

    bisect: bool = False
    most_runs: int = 60
    alone: bool = False
    tolerance: float = 1e-6
    only: Mapping[str, Collection[str] | None] | None = None
    declared: Mapping[str, str] = field(default_factory=dict)
    keep: Path | None = None


def audit_pipeline(
    run: PipelineCommand | RunPipeline,
    raw: Path | str | Sequence[Path | str],
    samples: Iterable[PipelineSample],
    *,
    read: ReadOutput | str | Sequence[str],
    source: str | SwapTable = "mimiciv",
    settings: PipelineSettings | None = None,
    report: Reporter = silent,
) -> PipelineReport:
    """Run a pipeline on copies of its raw files and compare what it makes of each sample.

    ``run`` is a command, or a function of a raw folder and a folder for results. ``read`` says where results lie (see
    :class:`OutputReading`) or reads them. UserError: it fails on the files as they are, or its results cannot be read.
    """
    folders = tuple(map(Path, (raw,) if isinstance(raw, Path | str) else raw))
    table = load_swap_table(source) if isinstance(source, str) else source
    settings = settings or PipelineSettings()
    with tempfile.TemporaryDirectory(prefix="wardround-leak-test-") as there:
        place = Path(there) if settings.keep is None else settings.keep
        place.mkdir(parents=True, exist_ok=True)
        audit = _Audit(run, folders, with_controls(samples), _reader(read), table, settings, place, report)
        return audit.made()


def assert_no_future(
    run: PipelineCommand | RunPipeline,
    raw: Path | str | Sequence[Path | str],
    samples: Iterable[PipelineSample],
    *,
    read: ReadOutput | str | Sequence[str],
    source: str | SwapTable = "mimiciv",
    settings: PipelineSettings | None = None,
) -> None:
    """Fail a test where a pipeline shows what was not known yet. AssertionError: the report."""
    found = audit_pipeline(run, raw, samples, read=read, source=source, settings=settings)
    if not found.clean:
        raise AssertionError(found.as_text())


def read_hindsight(file: Path) -> dict[str, str]:
    """Read why features may look ahead: ``[declared]`` of a TOML file, by pattern. UserError: it is not so written."""
    try:
        declared = tomllib.loads(file.read_text(encoding="utf-8")).get("declared", {})
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{file}: {error}") from error
    if not isinstance(declared, dict) or not all(isinstance(why, str) and why for why in declared.values()):
        raise UserError(f"{file}: write [declared] and below it FEATURE = 'why it may look ahead'")
    return declared


def _reader(read: ReadOutput | str | Sequence[str]) -> Callable[[Path, Sequence[PipelineSample]], Output]:
    """One reader of all that a run wrote; with several, features bear the name of the file."""
    if callable(read):
        return lambda out, samples: _output(read(out, samples), samples)
    readings = [parse_reading(text) for text in ((read,) if isinstance(read, str) else read)]
    if not readings:
        raise UserError("say where the pipeline's results lie: --read KIND:{out}/FILE")

    def every(out: Path, samples: Sequence[PipelineSample]) -> Output:
        made = Output()
        for reading in readings:
            made.add(reading(out, samples), f"{Path(reading.path).name}: " if len(readings) > 1 else "")
        return made

    return every


def _output(found: Output | Mapping[PipelineSample, Mapping[str, Any]], samples: Sequence[PipelineSample]) -> Output:
    if isinstance(found, Output):
        return found
    ours = {sample: sample for sample in samples}
    features = {
        ours.get(sample, sample): {
            name: value if isinstance(value, tuple) else (plain(value),) for name, value in each.items()
        }
        for sample, each in found.items()
    }
    return Output(features=features, columns={name for each in features.values() for name in each})


@dataclass(slots=True)
class _Audit:
    run: PipelineCommand | RunPipeline
    folders: tuple[Path, ...]
    samples: list[PipelineSample]
    read: Callable[[Path, Sequence[PipelineSample]], Output]
    table: SwapTable
    settings: PipelineSettings
    place: Path
    report: Reporter
    runs: int = 0
    keys: set[str] = field(default_factory=set)
    written: list[tuple[int, int]] = field(default_factory=list)
    read_keys: bool = False

    def made(self) -> PipelineReport:
        """Run everything and put the findings together."""
        if not self.samples:
            raise UserError("no samples to look at")
        subjects = {sample: _number(sample.subject) for sample in self.samples}
        raw = self._folder("raw")
        if self.settings.alone:
            nobody = dict.fromkeys(subjects.values())
            place = placed(self.table, self.folders)
            made = write_swapped(self.table, self.folders, raw, nobody, placement=place, others=False)
            self.folders = tuple(made[0])
        else:
            self.folders = tuple(kept_copy(self.folders, raw))
        self.written = self._written()
        rounds = [
            [sample for sample in self.samples if moments.get(subjects[sample]) == sample.time]
            for moments in rounds_of([(subjects[sample], sample.time) for sample in self.samples])
        ]
        found = PipelineReport(
            source=self.table.name,
            command=" ".join(self.run.words) if isinstance(self.run, PipelineCommand) else "",
            samples=len(self.samples),
            subjects=len({sample.subject for sample in self.samples}),
            controls=sum(sample.is_control for sample in self.samples),
            rounds=len(rounds),
        )
        if unruled := unruled_files(self.table, self.folders):
            found.problems.append(
                f"no rule says when {', '.join(unruled)} could be known: copied as they are, so what comes of them is "
                "not tested"
            )
        if not found.controls:
            found.notes.append("too few subjects for controls: what comes from other people would be called a leak")
        shared = None if self._reads_samples and len(rounds) > 1 else self._run_base(found, self.samples)
        base = Output()
        places: dict[Verdict, dict[Place, Change]] = {}
        best: tuple[int, list[PipelineSample], Copies] | None = None
        worse: tuple[int, list[PipelineSample], Copies] | None
        cut: dict[PipelineSample, Mapping[str, tuple[Any, ...]]] = {}
        for number, members in enumerate(rounds):
            mine = _of(shared, members) if shared is not None else self._run_base(found, members)
            base.add(mine)
            copies = self._copies(members, number)
            sorted_out = self._round(found, mine, members, copies, cut)
            hits = sum(len(each) for verdict, each in sorted_out.items() if verdict in LEAKS)
            worse = (hits, members, copies)
            if best is None or hits > best[0]:
                best, worse = worse, best
            if worse is not None:
                worse[2].forget()
            for verdict, each in sorted_out.items():
                places.setdefault(verdict, {}).update(each)
        sources: dict[str, set[str]] = {}
        early: dict[str, int] = {}
        if self.settings.bisect:
            wanted = {verdict: {name for _, name in each} for verdict, each in places.items() if verdict in LEAKS}
            if wanted and best is not None:
                _, members, copies = best
                self._explain(found, _of(base, members), members, copies, wanted, sources=sources, early=early)
        if best is not None:
            best[2].forget()
        found.compared = len(base.features)
        found.controls = sum(sample.is_control for sample in base.features)
        if found.compared < found.samples:
            found.notes.append(f"{found.samples - found.compared:,} samples are not in the pipeline's results")
        for verdict, each in _gravest(places).items():
            for one in grouped(verdict, each, found.compared, sources):
                found.findings.append(self._worth(self._with_hours(one, each, early), base, cut))
        found.features = len({name for features in base.features.values() for name in features})
        found.runs = self.runs
        return found

    def _with_hours(
        self, one: PipelineFinding, places: Mapping[Place, Change], early: Mapping[str, int]
    ) -> PipelineFinding:
        features = {name for _, name in places if name == one.feature or family(name) == one.feature}
        hours = max((early[name] for name in features if name in early), default=None)
        declared = next(
            (why for pattern, why in self.settings.declared.items() if fnmatchcase(one.feature, pattern)), None
        )
        return replace(one, hours=hours, declared=declared)

    @property
    def _reads_samples(self) -> bool:
        return isinstance(self.run, PipelineCommand) and any("{samples}" in word for word in self.run.words)

    def _run_base(self, found: PipelineReport, members: Sequence[PipelineSample]) -> Output:
        """Run twice on the files as they are; what differs is not deterministic."""
        outputs = []
        for name in ("as-it-is", "again"):
            try:
                outputs.append(self._run(f"{name}-{self.runs}", None, members))
            except PipelineFailed as error:
                raise UserError(
                    f"the pipeline fails on the files as they are: {error}\n{error.last}".rstrip()
                ) from error
        base, again = outputs
        if not base.features:
            raise UserError("none of the samples is in the pipeline's results: are their keys the right ones?")
        differing = differences(base, again, tolerance=self.settings.tolerance)
        found.unstable |= differing.features()
        found.findings += grouped("NOT DETERMINISTIC", differing.places, len(self.samples))
        return base

    def _round(
        self,
        found: PipelineReport,
        base: Output,
        members: Sequence[PipelineSample],
        copies: Copies,
        cut: dict[PipelineSample, Mapping[str, tuple[Any, ...]]],
    ) -> dict[Verdict, dict[Place, Change]]:
        """Run every variant for samples of different subjects, and sort what differs by what it says."""
        differing: dict[str, Differences] = {}
        for name, variant in (("certain", _CERTAIN), ("strict", _STRICT), ("order", _ORDER), ("cut", _CUT)):
            variant = replace(variant, only=self.settings.only)
            try:
                place = f"{name}-{self.runs}"
                output = self._run(place, copies.write(self._folder(f"{place}-raw"), variant), members)
            except PipelineFailed as error:
                if name == "cut":
                    found.open_stay = f"{error}\n{error.last}".rstrip()
                else:
                    found.problems.append(f"no verdict from the {name} copy: {error} {error.last}".rstrip())
                continue
            if name == "cut":
                cut.update(output.features)
            if name == "strict":
                found.facts += copies.counts.changed
            self.keys |= copies.keys
            differing[name] = differences(base, output, tolerance=self.settings.tolerance)
        return self._sorted_out(found, differing)

    def _sorted_out(
        self, found: PipelineReport, differing: Mapping[str, Differences]
    ) -> dict[Verdict, dict[Place, Change]]:
        none = Differences()
        certain, strict = differing.get("certain", none), differing.get("strict", none)
        order, cut = differing.get("order", none), differing.get("cut", none)
        made: dict[Verdict, dict[Place, Change]] = {}
        everybody = {name for one in (certain, strict) for name in one.features(controls=True)} - found.unstable
        lost = (certain.lost | strict.lost) - found.unstable
        if lost:
            sample = self.samples[0]
            change = Change(kind="value", before=(f"{len(lost)} columns come or go",), after=tuple(sorted(lost)[:3]))
            made.setdefault("POPULATION", {})[sample, VOCABULARY] = change
        seen: set[Place] = set()
        futures: tuple[tuple[Verdict, Differences], ...] = (("LEAK", certain), ("LATE-RECORDED", strict))
        for verdict, one in futures:
            for place, change in one.places.items():
                sample, name = place
                if name in found.unstable or place in seen:
                    continue
                seen.add(place)
                given = verdict
                if name in everybody or sample.is_control:
                    given = "POPULATION"
                elif change.kind == "order":
                    given = "ORDER"
                elif change.kind == "value" and self._only_keys(change):
                    given = "IDENTIFIERS"
                made.setdefault(given, {})[place] = change
            for place, change in one.labels.items():
                made.setdefault("LABELS", {}).setdefault(place, change)
        others: tuple[tuple[Verdict, Differences], ...] = (("ORDER", order), ("CANNOT RUN ON AN OPEN STAY", cut))
        for verdict, other in others:
            for place, change in other.places.items():
                if place not in seen and place[1] not in found.unstable | everybody and not place[0].is_control:
                    seen.add(place)
                    made.setdefault(verdict, {})[place] = change
        return made

    def _only_keys(self, change: Change) -> bool:
        """Whether all that differs are numbers of rows: keys that the other future gave otherwise."""
        before, after = (Counter(_scalars(value or ())) for value in (change.before, change.after))
        differing = {*(before - after), *(after - before)}
        if not differing & self.keys:
            return False
        if not differing <= self.keys and not self.read_keys:
            self.keys |= keys_in(self.table, self.folders)
            self.read_keys = True
        return differing <= self.keys

    def _explain(
        self,
        found: PipelineReport,
        base: Output,
        members: Sequence[PipelineSample],
        copies: Copies,
        by_verdict: Mapping[Verdict, set[str]],
        *,
        sources: dict[str, set[str]],
        early: dict[str, int],
    ) -> None:
        """Find the raw columns that alone make features differ, and how long before its fact a feature knows it."""
        wanted = {name for names in by_verdict.values() for name in names}
        last = self.runs + self.settings.most_runs

        def differ(changed: CopyVariant) -> set[str]:
            if self.runs >= last:
                return set()
            raws = copies.write(self._folder(f"bisect-{self.runs}-raw"), changed)
            try:
                output = self._run(f"bisect-{self.runs}", raws, members)
            except PipelineFailed:
                return set()
            return differences(base, output, tolerance=self.settings.tolerance).features(controls=False) & wanted

        columns = {kind: sorted(changed.keys() - {ROWS}) for kind, changed in copies.changed.items() if changed}

        def by_kind(kinds: Sequence[str]) -> set[str]:
            return differ(replace(_STRICT, only=dict.fromkeys(kinds)))

        for kind, hit in _search(sorted(columns), wanted, by_kind):

            def by_name(names: Sequence[str], kind: str = kind) -> set[str]:
                return differ(replace(_STRICT, only={kind: set(names)}))

            by_column = list(_search(columns[kind], hit, by_name))
            for name, its in by_column:
                for feature in its:
                    sources.setdefault(feature, set()).add(f"{kind}.{name}")
                found.rows.setdefault(f"{kind}.{name}", copies.examples.get((kind, name), [])[:3])
            for feature in hit - {each for _, its in by_column for each in its}:
                sources.setdefault(feature, set()).add(f"{kind}.{ROWS}")
                found.rows.setdefault(f"{kind}.{ROWS}", copies.examples.get((kind, ROWS), [])[:3])
        variant = _CERTAIN if "LEAK" in by_verdict else _STRICT
        for hours in _HOURS:
            still = differ(replace(variant, later=timedelta(hours=hours)))
            if not still:
                break
            early.update(dict.fromkeys(still, hours))
        if self.runs >= last:
            found.problems.append(f"stopped after {self.settings.most_runs} runs (--most-runs): columns may be missing")

    def _worth(
        self, one: PipelineFinding, base: Output, cut: Mapping[PipelineSample, Mapping[str, tuple[Any, ...]]]
    ) -> PipelineFinding:
        """Add how well a feature alone foretells the label, as it is and from what was known, where it is a number."""
        labelled = [sample for sample in self.samples if sample.label is not None and sample in base.features]
        if one.verdict not in ("LEAK", "LATE-RECORDED") or not labelled or one.features > 1:
            return one
        theirs, known = (_auc(one.feature, labelled, features) for features in (base.features, cut))
        return one if theirs is None else replace(one, auc=(theirs, known))

    def _copies(self, members: Sequence[PipelineSample], number: int) -> Copies:
        moments = {_number(sample.subject): None if sample.is_control else sample.time for sample in members}
        return Copies(
            table=self.table,
            folders=self.folders,
            moments=moments,
            there=self._folder(f"whole-{number}"),
            kept=_STRICT if self.settings.bisect else None,
            placement=placed(self.table, self.folders),
        )

    def _folder(self, name: str) -> Path:
        return self.place / name

    def _written(self) -> list[tuple[int, int]]:
        """Size and time of writing of every raw file that the copies are made from."""
        files = [path.stat() for folder in self.folders for path in files_below(folder)]
        return [(one.st_size, one.st_mtime_ns) for one in files]

    def _run(self, name: str, raws: Sequence[Path] | None, members: Sequence[PipelineSample]) -> Output:
        """Run the pipeline and read its results of some samples."""
        self.runs += 1
        self.report(Progress(label=f"leak test: {name}", done=self.runs, unit="runs"))
        raw_place = self._folder(f"{name}-raw")
        if raws is None:
            raws = linked_copy(self.folders, raw_place)
        out = self._folder(f"{name}-out")
        out.mkdir()
        samples = self._folder(f"{name}-samples.csv")
        write_samples(members, samples)
        if isinstance(self.run, PipelineCommand):
            self.run(raws, out, samples)
        else:
            try:
                self.run(raws[0], out)
            except Exception as error:
                raise PipelineFailed(f"{type(error).__name__}: {error}") from error
        read = self.read(out, members)
        if self._written() != self.written:
            raise UserError("the pipeline writes into its raw files: let it write below {out}")
        if self.settings.keep is None:
            shutil.rmtree(raw_place, ignore_errors=True)
            shutil.rmtree(out, ignore_errors=True)
        return read


def _gravest(places: Mapping[Verdict, dict[Place, Change]]) -> dict[Verdict, dict[Place, Change]]:
    """Leave out what differs of a feature that a graver verdict has named."""
    made: dict[Verdict, dict[Place, Change]] = {}
    named: set[str] = set()
    for verdict in VERDICTS:
        each = {place: change for place, change in places.get(verdict, {}).items() if place[1] not in named}
        if each:
            made[verdict] = each
        if verdict != "LABELS":
            named |= {name for _, name in each}
    return made


def _search(
    items: Sequence[str], wanted: set[str], differ: Callable[[Sequence[str]], set[str]], *, sure: bool = True
) -> Iterator[tuple[str, set[str]]]:
    """Yield each item that alone makes something wanted differ, with what: by halves, leaving out what does nothing."""
    hit = wanted if sure and len(items) > 1 else differ(items) & wanted
    if not hit:
        return
    if len(items) == 1:
        yield items[0], hit
        return
    middle = len(items) // 2
    for half in (items[:middle], items[middle:]):
        yield from _search(half, hit, differ, sure=False)


def _of(output: Output, members: Sequence[PipelineSample]) -> Output:
    """What an output holds of some samples."""
    kept = set(members)
    return Output(
        features={sample: features for sample, features in output.features.items() if sample in kept},
        columns=output.columns,
        labels={sample: labels for sample, labels in output.labels.items() if sample in kept},
        places={sample: place for sample, place in output.places.items() if sample in kept},
    )


def _number(subject: str) -> int:
    key = bare_key(subject)
    try:
        return int(key)
    except ValueError:
        return subject_number(key)


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, tuple):
        for part in value:
            yield from _scalars(part)
    else:
        yield str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _auc(
    feature: str, samples: Sequence[PipelineSample], features: Mapping[PipelineSample, Mapping[str, tuple[Any, ...]]]
) -> float | None:
    """The AUC of a number for the label, among samples that have it; None where under half of them do."""
    numbers = [(features.get(sample, {}).get(feature, ()), sample.label) for sample in samples]
    had = [(value[0], label) for value, label in numbers if len(value) == 1 and isinstance(value[0], int | float)]
    if 2 * len(had) < len(samples):
        return None
    return rank_auc([float(value) for value, _ in had], [label not in ("0", "False", "false") for _, label in had])
