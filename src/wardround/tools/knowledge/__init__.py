"""Knowledge: corpora of medical text on this machine, searched by words, and pages of the web if allowed.

The package has no access to patients. Queries come from tools; everything that leaves the machine passes their guard.
"""

from wardround.tools.knowledge.access import Knowledge, KnowledgeSettings, WebAccess
from wardround.tools.knowledge.browser import CURRENT, Browser
from wardround.tools.knowledge.corpus import CORPUS, Corpus, CorpusManifest, damage_of_corpus
from wardround.tools.knowledge.formats import FORMATS, CorpusFormat
from wardround.tools.knowledge.index import Deletion, Document, Hit, visible
from wardround.tools.knowledge.library import HANDBOOK, Added, Library, add_corpus, remove_corpus
from wardround.tools.knowledge.web import PROVIDERS, ProviderOpening, Searcher, SearchProvider

__all__ = [
    "CORPUS",
    "CURRENT",
    "FORMATS",
    "HANDBOOK",
    "PROVIDERS",
    "Added",
    "Browser",
    "Corpus",
    "CorpusFormat",
    "CorpusManifest",
    "Deletion",
    "Document",
    "Hit",
    "Knowledge",
    "KnowledgeSettings",
    "Library",
    "ProviderOpening",
    "SearchProvider",
    "Searcher",
    "WebAccess",
    "add_corpus",
    "damage_of_corpus",
    "remove_corpus",
    "visible",
]
