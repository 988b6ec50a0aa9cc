"""What a run stands on, opened again as the run found it: the same store, benchmark and prompts, or one clear line.

A store or a benchmark that was replaced under a run would mix rows that answer different questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wardround.agents import AgentSpec
from wardround.core import UserError, changed_plugins
from wardround.models import find_model
from wardround.records import NoRecords, Store
from wardround.runs.folder import RunFolder
from wardround.runs.settings import RunSettings
from wardround.tasks.benchmarks import Benchmark, rules_prompt
from wardround.tasks.scoring.judging import MEDR_BENCH_JUDGE, equivalence_prompts, judge_prompts, medr_bench_prompts


def source_facts(store: Store, benchmark: Benchmark) -> dict[str, Any]:
    """Return what a run's manifest keeps of them, to know them again."""
    return {
        "store_digest": store.digest,
        "store_version": store.manifest["version"],
        "spec_sha256": store.spec.sha256,
        "source": store.spec.name,
        "people": store.spec.people,
        "benchmark": benchmark.name,
        "benchmark_digest": benchmark.digest,
        "benchmark_spaces": dict(benchmark.manifest.get("spaces", {})),
    }


def open_records(settings: RunSettings) -> Store:
    """Open the store of some settings; for text cases, the one without records."""
    return NoRecords() if settings.is_text_cases else Store.open(Path(settings.run.store))


def open_store(folder: RunFolder) -> Store:
    """Open a run's store; UserError where it is another one by now."""
    store = open_records(folder.settings)
    _same(folder, "store", folder.settings.run.store, {"store_digest": store.digest, "spec_sha256": store.spec.sha256})
    return store


def open_benchmark(folder: RunFolder) -> Benchmark:
    """Open a run's benchmark; UserError where it is another one by now."""
    benchmark = Benchmark.open(Path(folder.settings.run.benchmark))
    facts = {"benchmark_digest": benchmark.digest, "benchmark_spaces": dict(benchmark.manifest.get("spaces", {}))}
    _same(folder, "benchmark", folder.settings.run.benchmark, facts)
    return benchmark


def prompt_hashes(agents: Sequence[AgentSpec], benchmark: Benchmark, settings: RunSettings) -> dict[str, str]:
    """Return the hash of every template that a run puts before a model, by its name."""
    files = [file for agent in agents for file in agent.prompt_files()]
    files += benchmark.prompts
    if settings.scoring.judge is not None and any(task.answer.judged for task in benchmark.tasks):
        files += medr_bench_prompts() if settings.scoring.judge_protocol == MEDR_BENCH_JUDGE else judge_prompts()
    if settings.scoring.equivalence and any(task.answer.by_steps for task in benchmark.tasks):
        files += equivalence_prompts()
    if settings.aids.answer_rules:
        files.append(rules_prompt())
    return {file.name: file.sha256 for file in sorted(files, key=lambda file: file.name)}


def must_have_plugins(folder: RunFolder) -> None:
    """Raise UserError where a plug-in is not what it was when the run began."""
    changed = changed_plugins(folder.manifest.get("plugins", ()))
    if changed:
        raise UserError(
            f"the run {str(folder.path)!r} began with another version of {', '.join(changed)}; put that one back, or "
            "start a new run with --out"
        )


def must_have_prompts(folder: RunFolder, prompts: Mapping[str, str]) -> None:
    """Raise UserError where this wardround would go on with other prompts than the run began with."""
    changed = _changed(folder.manifest.get("prompts", {}), prompts)
    if changed:
        raise UserError(
            f"the run {str(folder.path)!r} began with other prompts ({', '.join(changed)}); finish it with wardround "
            f"{folder.manifest['wardround']} as it was then, or start a new run"
        )


def must_fit_cassettes(settings: RunSettings, prompts: Mapping[str, str]) -> None:
    """Raise UserError where a model is a recording that was made with other prompts: no reply of it could be served."""
    for model in settings.run.models:
        entry, rest = find_model(settings.model_named(model).name)
        place = Path(rest)
        manifest = _manifest_beside(place) if entry.recorded else {}
        changed = _changed(manifest.get("prompts", {}), prompts)
        if changed:
            raise UserError(
                f"the cassette {str(place)!r} was recorded with other prompts ({', '.join(changed)}); replay it with "
                f"wardround {manifest.get('wardround')} as it was then, or record it again"
            )


def _same(folder: RunFolder, what: str, path: str, facts: Mapping[str, Any]) -> None:
    if any(folder.manifest.get(name) != fact for name, fact in facts.items()):
        raise UserError(
            f"the {what} {path!r} is not the one this run began with (it was replaced); put that one back, or start a "
            "new run with --out"
        )


def _changed(held: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return sorted(name for name, digest in now.items() if name in held and held[name] != digest)


def _manifest_beside(place: Path) -> Mapping[str, Any]:
    """The manifest of the run that a cassette is, or is a log of; empty where it has none."""
    for folder in (place, place.parent.parent):
        file = folder / "manifest.json"
        if file.is_file():
            try:
                body = json.loads(file.read_text(encoding="utf-8"))
            except ValueError:
                return {}
            return body if isinstance(body, dict) else {}
    return {}
