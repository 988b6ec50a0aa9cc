"""The ``offline`` policy model: rules and a short plan per task. A floor to compare with, not a language model.

It reads what an agent reads (the messages of a request) and acts through tool calls only. All it remembers is what it
said itself: every reply carries its findings as note lines, so a collapsed result costs it nothing.
"""

from wardround.models.offline.model import OfflineModel

__all__ = ["OfflineModel"]
