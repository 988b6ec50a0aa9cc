"""Viewer: pages of runs, episodes with their record, and live streams, served or written as a static site.

Needs the extra ``[view]``. The pages contain record text: they are patient data like the runs.
"""

from wardround.serve.guarded import must_be_token
from wardround.serve.viewer.app import viewer_app
from wardround.serve.viewer.pages import ViewerPages, write_site
from wardround.serve.viewer.review import MarksFile, ReviewPages, review_app
from wardround.serve.viewer.run import NotFound, ViewedRun
from wardround.serve.viewer.stream import ViewedStream

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
