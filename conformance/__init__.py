"""Standards that we say we keep, each asked by somebody else's software or by its sentences: ``make conformance``."""
