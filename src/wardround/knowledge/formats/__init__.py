"""Formats: the files that corpora are made of, each read as a stream of documents."""

from wardround.knowledge.formats.catalogue import FORMATS, CorpusFormat, format_of

__all__ = ["FORMATS", "CorpusFormat", "format_of"]
