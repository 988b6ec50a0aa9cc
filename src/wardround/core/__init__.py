"""Core: the words every other room speaks (ids, time, messages, usage, errors, prompt files).

Registries and plug-in files are here too. Nothing here knows records, models or tools.
"""

from wardround.core.backends import find_backend, spelling
from wardround.core.confined import ConfinedReader, UnreadableBytes
from wardround.core.errors import (
    FormatError,
    LeakError,
    LimitReached,
    PromptTooLong,
    PromptWithheld,
    ProviderError,
    RecordError,
    ToolBroke,
    ToolFailure,
    UserError,
    WardroundError,
)
from wardround.core.extras import how_to_install, import_extra, missing_extra, needs_extra
from wardround.core.files import is_read_only, sync_folder, sync_tree, this_boot, write_atomically
from wardround.core.ids import (
    RowId,
    canonical_json,
    content_hash,
    derive_seed,
    is_sealed_json,
    row_id,
    sealed_json,
)
from wardround.core.messages import Message, ToolCall, ToolSchema, chain_hash
from wardround.core.pictures import Picture, PictureBytes, data_url
from wardround.core.plugins import Plugin, changed_plugins, load_plugins, loaded_plugins, must_be_loaded
from wardround.core.private import keep_private, must_be_new, private_file, private_folder, umask
from wardround.core.progress import Progress, Reporter, silent
from wardround.core.prompts import PromptFile, add_prompt, load_prompt
from wardround.core.registry import Registered, Registry
from wardround.core.row_seals import (
    count_broken_seals,
    must_be_sealed,
    register_seals,
    sealed_tables,
    with_row_seals,
)
from wardround.core.sealed import Sealed, unsealed
from wardround.core.secrets import Secret
from wardround.core.sensitivity import SENSITIVITIES, Sensitivity, strictest
from wardround.core.settings import Leaf, Setting, check_settings, choices_of, leaves, setting
from wardround.core.sqlite_files import open_database_unchanged, set_up_database
from wardround.core.strict import read_toml, refuse_unknown, strict
from wardround.core.suggestions import nearest, unknown
from wardround.core.terminal import PrintableStream, printable, printing
from wardround.core.thinking import without_thinking
from wardround.core.time import (
    END_OF_DAY,
    end_of_day,
    format_time,
    from_microseconds,
    parse_time,
    parse_time_bound,
    to_microseconds,
)
from wardround.core.tokens import estimate_tokens
from wardround.core.usage import Price, Usage

__all__ = [
    "END_OF_DAY",
    "SENSITIVITIES",
    "ConfinedReader",
    "FormatError",
    "Leaf",
    "LeakError",
    "LimitReached",
    "Message",
    "Picture",
    "PictureBytes",
    "Plugin",
    "Price",
    "PrintableStream",
    "Progress",
    "PromptFile",
    "PromptTooLong",
    "PromptWithheld",
    "ProviderError",
    "RecordError",
    "Registered",
    "Registry",
    "Reporter",
    "RowId",
    "Sealed",
    "Secret",
    "Sensitivity",
    "Setting",
    "ToolBroke",
    "ToolCall",
    "ToolFailure",
    "ToolSchema",
    "UnreadableBytes",
    "Usage",
    "UserError",
    "WardroundError",
    "add_prompt",
    "canonical_json",
    "chain_hash",
    "changed_plugins",
    "check_settings",
    "choices_of",
    "content_hash",
    "count_broken_seals",
    "data_url",
    "derive_seed",
    "end_of_day",
    "estimate_tokens",
    "find_backend",
    "format_time",
    "from_microseconds",
    "how_to_install",
    "import_extra",
    "is_read_only",
    "is_sealed_json",
    "keep_private",
    "leaves",
    "load_plugins",
    "load_prompt",
    "loaded_plugins",
    "missing_extra",
    "must_be_loaded",
    "must_be_new",
    "must_be_sealed",
    "nearest",
    "needs_extra",
    "open_database_unchanged",
    "parse_time",
    "parse_time_bound",
    "printable",
    "printing",
    "private_file",
    "private_folder",
    "read_toml",
    "refuse_unknown",
    "register_seals",
    "row_id",
    "sealed_json",
    "sealed_tables",
    "set_up_database",
    "setting",
    "silent",
    "spelling",
    "strict",
    "strictest",
    "sync_folder",
    "sync_tree",
    "this_boot",
    "to_microseconds",
    "umask",
    "unknown",
    "unsealed",
    "with_row_seals",
    "without_thinking",
    "write_atomically",
]
