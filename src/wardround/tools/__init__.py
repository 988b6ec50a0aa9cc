"""Tools: typed functions over one chart, and the environment that binds them to a subject and a clock.

Knows charts, codes and candidate spaces; no model, no task and no target.
"""

from wardround.tools.definition import Range, Tool, tool
from wardround.tools.environment import Environment, NoChartEnvironment
from wardround.tools.finish import Citation
from wardround.tools.knowledge_tools import corpus_tool
from wardround.tools.session import AID_NAMES, Aids, EnvironmentOptions, Page, Session, ToolResult
from wardround.tools.sql_gate import SqlAnswer, SqlGate, SqlLimits
from wardround.tools.toolset import (
    CLINSEEK_TOOLS,
    TOOLS,
    TOOLSETS,
    NamedToolset,
    Toolset,
    default_toolset,
    open_toolset,
)

__all__ = [
    "AID_NAMES",
    "CLINSEEK_TOOLS",
    "TOOLS",
    "TOOLSETS",
    "Aids",
    "Citation",
    "Environment",
    "EnvironmentOptions",
    "NamedToolset",
    "NoChartEnvironment",
    "Page",
    "Range",
    "Session",
    "SqlAnswer",
    "SqlGate",
    "SqlLimits",
    "Tool",
    "ToolResult",
    "Toolset",
    "corpus_tool",
    "default_toolset",
    "open_toolset",
    "tool",
]
