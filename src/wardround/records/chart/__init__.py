"""The chart: what of a subject was known at a moment, as tables and as one list of events."""
