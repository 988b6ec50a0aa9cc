"""EHRSHOT's fifteen tasks as a labeller on any store: concepts by code system, places by source, rules on times."""

from wardround.tasks.benchmarks.ehrshot.build import build_ehrshot
from wardround.tasks.benchmarks.ehrshot.concepts import TaskConcept, known_sources, load_concepts, load_places

__all__ = ["TaskConcept", "build_ehrshot", "known_sources", "load_concepts", "load_places"]
