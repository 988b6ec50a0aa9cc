"""The rule language: when something happened or became known, read from a spec's text and evaluated over columns."""
