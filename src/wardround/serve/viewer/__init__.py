"""Viewer: pages of runs, episodes with their record, and live streams, served or written as a static site.

Needs the extra ``[view]``. The pages contain record text: they are patient data like the runs.
"""

from wardround.serve.viewer.app import must_be_token, viewer_app
from wardround.serve.viewer.export import write_site
from wardround.serve.viewer.live.stream import ViewedStream
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.review.marks import MarksFile
from wardround.serve.viewer.review.round import ReviewPages, review_app
from wardround.serve.viewer.run import NotFound, ViewedRun

__all__ = [
    "MarksFile",
    "NotFound",
    "ReviewPages",
    "ViewedRun",
    "ViewedStream",
    "ViewerPages",
    "must_be_token",
    "review_app",
    "viewer_app",
    "write_site",
]
