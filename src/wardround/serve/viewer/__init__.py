"""Viewer: runs, samples, episodes and the record beside them as pages, served or written as a static site.

Needs the extra ``[view]``. The pages hold record text: they are patient data like the runs they come from.
"""

from wardround.serve.viewer.app import viewer_app
from wardround.serve.viewer.door import must_be_token
from wardround.serve.viewer.export import write_site
from wardround.serve.viewer.pages import ViewerPages
from wardround.serve.viewer.viewed_run import NotThere, ViewedRun

__all__ = ["NotThere", "ViewedRun", "ViewerPages", "must_be_token", "viewer_app", "write_site"]
