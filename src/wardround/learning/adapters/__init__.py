"""Doors into the one world of :mod:`wardround.learning.world`, each in a trainer's own shape."""

from __future__ import annotations
