"""A leak test for anybody's pipeline: run it on copies of its raw files in which only the unknown is otherwise."""

from wardround.audits.pipeline.audit import PipelineSettings, assert_no_future, audit_pipeline, read_hindsight
from wardround.audits.pipeline.compare import VERDICTS, PipelineFinding, PipelineReport
from wardround.audits.pipeline.copies import PipelineCommand
from wardround.audits.pipeline.readers import Output
from wardround.audits.pipeline.samples import PipelineSample, draw_samples, read_samples

__all__ = [
    "VERDICTS",
    "Output",
    "PipelineCommand",
    "PipelineFinding",
    "PipelineReport",
    "PipelineSample",
    "PipelineSettings",
    "assert_no_future",
    "audit_pipeline",
    "draw_samples",
    "read_hindsight",
    "read_samples",
]
