"""Executors: where the parts of an ingest, the tasks of a benchmark and the workers of a run are played.

One small protocol (start, wait, stop); processes of this machine are its first implementation, a Ray cluster its
second. What the parts share is files in a folder that all machines see. What the parts do is said in other rooms.
"""

from wardround.core.executors.executor import Executor, ExecutorKind, Job, JobResult, left_alone, perform
from wardround.core.executors.processes import EXECUTORS, MOST_LOSSES, Processes, each, opened, starting, watched
from wardround.core.executors.ray_cluster import RayCluster

__all__ = [
    "EXECUTORS",
    "MOST_LOSSES",
    "Executor",
    "ExecutorKind",
    "Job",
    "JobResult",
    "Processes",
    "RayCluster",
    "each",
    "left_alone",
    "opened",
    "perform",
    "starting",
    "watched",
]
