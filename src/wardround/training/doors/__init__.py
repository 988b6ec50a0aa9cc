"""Doors into the one world of :mod:`wardround.training.world`, each in a trainer's own shape."""
