"""What an episode of a run is bound to and what is said of it, whoever plays it: our agents or an outside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from wardround.benchmarks import Benchmark, Sample, get_task, question_of
from wardround.imaging import Imaging, open_images
from wardround.knowledge import Knowledge
from wardround.memory import KnownCase, known_case
from wardround.records import Store, ToldCase
from wardround.retrieval import Encoder, RetrievalSettings
from wardround.runs.guard import data_use_guard
from wardround.runs.models import open_image_model
from wardround.runs.settings import EpisodeKey, RunSettings
from wardround.tools import Aids, Environment, ToldEnvironment, open_toolset
from wardround.tools.image_tools import image_visualizer
from wardround.tools.toolsets import USUAL

DEFAULT_AIDS = Aids()
Surrounding = Environment | ToldEnvironment
NO_IMAGES = Imaging()


def open_run_images(settings: RunSettings, store: Store) -> Imaging:
    """Open the images of a run's charts, with the models that its image tools ask, behind its data-use guard.

    What it returns is handed to tools: it must not lead to the store.
    """
    guard = data_use_guard(settings, store)
    return open_images(settings.images, guard, opened=partial(open_image_model, settings, guard, store.spec.roles))


def open_environment(
    store: Store,
    benchmark: Benchmark,
    sample: Sample,
    *,
    result_tokens: int,
    encoder: Encoder | None = None,
    retrieval: RetrievalSettings | None = None,
    toolset: str = USUAL,
    more_tools: Sequence[str] = (),
    aids: Aids = DEFAULT_AIDS,
    knowledge: Knowledge | None = None,
    images: Imaging = NO_IMAGES,
) -> Environment:
    """Bind the tools to a sample's subject and clock, with the benchmark's candidate tables.

    ``encoder`` and ``retrieval`` are what evidence is found with; ``more_tools`` are offered
    beside those of the ``toolset``.
    ``aids`` are what the session does for a language model, ``knowledge`` what it may read beside the chart,
    ``images`` where the chart's images are opened: a question about films is asked with the tool that shows them.
    """
    space = benchmark.space(get_task(sample.task))
    chart = sample.chart(store, benchmark.policy)
    asks_of_films = images.source is not None and question_of(get_task(sample.task), sample).images
    return Environment(
        chart,
        open_toolset(toolset, more=(*more_tools, image_visualizer.name) if asks_of_films else more_tools),
        {} if space is None and aids.short_pages else benchmark.spaces_of(sample.person),
        max_result_tokens=result_tokens,
        encoder=encoder,
        retrieval=retrieval,
        answer_space=None if space is None else space.name,
        listed=sample.facts.get("listed", ()),
        aids=aids,
        knowledge=knowledge,
        images=images.of(chart, store.subject_key(sample.subject_id)),
    )


def open_surroundings(store: Store, benchmark: Benchmark, sample: Sample, **options: Any) -> Surrounding:
    """Return what surrounds an episode on a sample: an environment as :func:`open_environment` binds it with these
    ``options``, or of a case told in words one without a chart."""
    told = told_case(sample)
    return open_environment(store, benchmark, sample, **options) if told is None else ToldEnvironment(told)


def told_case(sample: Sample) -> ToldCase | None:
    """The case of a sample whose question tells it in words; None of one that has a chart."""
    return ToldCase(subject_id=sample.person, text=str(sample.facts["asked"])) if sample.told else None


def case_of(store: Store, benchmark: Benchmark, sample: Sample) -> KnownCase:
    """Return the case of a sample as memory knows it: by its chart, or by the words that tell it."""
    chart = None if sample.told else sample.chart(store, benchmark.policy)
    found = known_case(chart, told_case(sample))
    assert found is not None  # a sample has the one or the other
    return found


def episode_facts(key: EpisodeKey, sample: Sample, benchmark: Benchmark, *, resumed_turns: int = 0) -> dict[str, Any]:
    """Return what the log keeps of an episode from its beginning; never its target."""
    return {
        **asdict(key),
        "subject_id": sample.subject_id,
        **({} if sample.told else {"prediction_time": sample.moment.isoformat(sep=" ")}),
        "policy": benchmark.policy,
        "resumed_turns": resumed_turns,
    }
