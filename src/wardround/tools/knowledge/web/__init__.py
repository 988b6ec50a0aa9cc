"""The web, where a deployment lets anything leave at all: search providers and pages, each behind its guards."""
