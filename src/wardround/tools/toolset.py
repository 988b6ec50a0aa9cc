"""Toolsets: the tools a session offers, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from wardround.core import Registry, ToolSchema, UserError
from wardround.core.errors import unknown
from wardround.tools.candidate_tools import (
    get_candidates,
    get_candidates_by_fuzzy_matching,
    get_candidates_by_keyword,
    get_candidates_by_semantic_similarity,
)
from wardround.tools.definition import Tool
from wardround.tools.evidence_tool import retrieve_evidence
from wardround.tools.finish import finish, think
from wardround.tools.image_tools import (
    chest_xray_classifier,
    chest_xray_report_generator,
    chest_xray_segmentation,
    dicom_processor,
    image_visualizer,
    xray_phrase_grounding,
)
from wardround.tools.knowledge_tools import (
    browser_find,
    browser_open,
    browser_search,
    retrieve_corpus,
    retrieve_handbook,
    retrieve_pubmed,
    retrieve_statpearls,
    retrieve_textbooks,
    retrieve_wikipedia,
)
from wardround.tools.record_tools import (
    get_clinical_score,
    get_column_names,
    get_event_counts_by_time,
    get_latest_records,
    get_next_page,
    get_records_by_keyword,
    get_records_by_time,
    get_records_by_value,
    get_table_description,
    get_table_names,
    get_unique_values,
    load_ehr,
    run_sql_query,
)

_TABLES_AND_RECORDS = (
    get_table_names,
    get_column_names,
    get_records_by_time,
    get_latest_records,
    get_records_by_keyword,
    get_records_by_value,
    run_sql_query,
)
_PUBLISHED_RECORDS = (
    get_table_names,
    get_column_names,
    get_table_description,
    get_records_by_time,
    get_event_counts_by_time,
    get_latest_records,
    get_records_by_keyword,
    get_records_by_value,
    run_sql_query,
    get_unique_values,
)
_CANDIDATES = (
    get_candidates_by_keyword,
    get_candidates_by_fuzzy_matching,
    get_candidates_by_semantic_similarity,
)
_KNOWLEDGE = (
    retrieve_pubmed,
    retrieve_textbooks,
    retrieve_statpearls,
    retrieve_wikipedia,
    retrieve_handbook,
    retrieve_corpus,
)
_BROWSER = (browser_search, browser_open, browser_find)
_INNER = (get_next_page, think, finish)
_IMAGES = (
    dicom_processor,
    image_visualizer,
    chest_xray_classifier,
    chest_xray_report_generator,
    xray_phrase_grounding,
    chest_xray_segmentation,
)


_OTHER_NAMES = {
    f"ehr.{tool.name}": tool.name for tool in (*_PUBLISHED_RECORDS, *_CANDIDATES, retrieve_evidence, *_INNER, load_ehr)
} | {tool.name.replace(".", mark): tool.name for tool in (*_BROWSER, *_IMAGES) for mark in ("_", "__", "-")}
_INSTEAD = dict.fromkeys((tool.name for tool in _CANDIDATES), get_candidates.name) | {
    get_table_description.name: get_column_names.name
}
"""Tools of the papers, and which of the usual ones does what they do."""
PUBLISHED_TOOLS = tuple(tool.name for tool in (*_PUBLISHED_RECORDS, *_CANDIDATES, *_INNER))
"""Table 6 of AgentEHR, and get_next_page."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools in the order in which a model is told of them."""

    tools: tuple[Tool, ...]
    by_name: Mapping[str, Tool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [tool.name for tool in self.tools]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise UserError(f"a toolset holds each name once; twice here: {', '.join(sorted(twice))}")
        object.__setattr__(self, "by_name", dict(zip(names, self.tools, strict=True)))

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names."""
        return tuple(self.by_name)

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told."""
        return tuple(tool.schema for tool in self.tools)

    def own_name(self, written: str) -> str:
        """Return the name of the tool that is meant: ClinSeekAgent writes ``ehr.`` before those of the record,
        models write other marks for a dot, and remember tools of the papers that another one stands for here."""
        name = written if written in self.by_name else _OTHER_NAMES.get(written.strip(), written)
        return name if name in self.by_name else _INSTEAD.get(name, name)

    def offers(self, written: str) -> bool:
        """Return whether there is a tool of that name, or of another name for it."""
        return self.own_name(written) in self.by_name

    def select(self, wanted: Iterable[str]) -> Toolset:
        """Keep tools by name or by category (``record``, ``candidate``, ``inner``, ...); the order stays."""
        chosen = set(wanted)
        known = {tool.name for tool in self.tools} | {tool.category for tool in self.tools}
        for name in sorted(chosen - known):
            raise UserError(unknown("tool or tool category", name, sorted(known)))
        return Toolset(tuple(tool for tool in self.tools if chosen & {tool.name, tool.category}))

    def without(self, unwanted: Iterable[str]) -> Toolset:
        """Leave out tools by name or category."""
        left_out = set(unwanted)
        return Toolset(tuple(tool for tool in self.tools if not left_out & {tool.name, tool.category}))

    def having(self, abilities: Collection[str]) -> Toolset:
        """Leave out the tools that need what is not at hand."""
        if all(not tool.needs or tool.needs in abilities for tool in self.tools):
            return self
        return Toolset(tuple(tool for tool in self.tools if not tool.needs or tool.needs in abilities))

    def __add__(self, other: Toolset) -> Toolset:
        return Toolset(self.tools + other.tools)

    def __len__(self) -> int:
        return len(self.tools)


TOOLS: Registry[Tool] = Registry("tools", one="tool", of=Tool)
"""Every tool by name, those too that are offered only where somebody asks for them."""
_ON_RECORDS = (*_PUBLISHED_RECORDS, load_ehr, retrieve_evidence, get_clinical_score, get_candidates, *_CANDIDATES)
for _tool in (*_ON_RECORDS, *_KNOWLEDGE, *_BROWSER, *_INNER, *_IMAGES):
    TOOLS.add(_tool.name, _tool)


def default_toolset(*, evidence: bool = False, more: Iterable[str] = ()) -> Toolset:
    """Return the usual tools, without those that others can replace, since every call pays for all schemas.
    ``evidence`` adds ``retrieve_evidence``; ``more`` adds tools by name.

    Raises UserError for a name that no tool has.
    """
    usual = {tool.name for tool in (*_TABLES_AND_RECORDS, get_candidates, *_INNER)}
    extra_tools = dict.fromkeys((*((retrieve_evidence.name,) if evidence else ()), *more))
    found = [TOOLS.get(name) for name in extra_tools if name not in usual]
    return Toolset((*_TABLES_AND_RECORDS, *found, get_candidates, *_INNER))


# Toolsets by name: which tools a run offers, and the names under which other systems know them.


USUAL = "usual"
CLINSEEK_TOOLS = (
    "load_ehr",
    "get_table_description",
    "get_table_names",
    "get_column_names",
    "get_records_by_time",
    "run_sql_query",
    "get_candidates_by_semantic_similarity",
    "get_candidates_by_keyword",
    "get_latest_records",
    "think",
    "finish",
    "browser.search",
    "browser.open",
    "browser.find",
    "image.dicom_processor",
    "image.image_visualizer",
    "image.chest_xray_classifier",
    "image.chest_xray_report_generator",
    "image.xray_phrase_grounding",
    "image.chest_xray_segmentation",
)
"""Table 1 of ClinSeekAgent, in its order; what it calls ``ehr.load_ehr`` is ``load_ehr`` here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedToolset:
    """A toolset by name. ``tools`` None: the usual ones of :func:`default_toolset`."""

    name: str
    description: str
    tools: tuple[str, ...] | None


TOOLSETS: Registry[NamedToolset] = Registry("toolsets", one="toolset", of=NamedToolset)
"""Every toolset that a run may ask for by name."""
for _toolset in (
    NamedToolset(
        name=USUAL, description="tables, records, one lookup of names, get_next_page, think, finish", tools=None
    ),
    NamedToolset(
        name="agentehr",
        description="the tools of AgentEHR (table 6), with three lookups of names; and get_next_page",
        tools=PUBLISHED_TOOLS,
    ),
    NamedToolset(
        name="clinseek",
        description="the twenty tools of ClinSeekAgent (table 1): record, browser and X-ray; and get_next_page",
        tools=CLINSEEK_TOOLS,
    ),
):
    TOOLSETS.add(_toolset.name, _toolset)


def open_toolset(name: str = USUAL, *, more: Iterable[str] = ()) -> Toolset:
    """Return a toolset by its name, with ``more`` tools by theirs. Raises UserError for a name that nothing has.

    Every one has ``get_next_page``: results that do not fit on a page go on by it.
    """
    named = TOOLSETS.get(name)
    if named.tools is None:
        return default_toolset(more=more)
    wanted = dict.fromkeys((*named.tools, get_next_page.name, *more))
    return Toolset(tuple(map(TOOLS.get, wanted)))
