"""Toolsets by name: which tools a run offers, and the names under which other systems know them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wardround.core import Registry
from wardround.tools.inner_tools import get_next_page
from wardround.tools.toolset import PUBLISHED_TOOLS, TOOLS, Toolset, default_toolset

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
