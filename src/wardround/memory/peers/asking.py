"""How a peer asks a model: one template, one value of a schema, every call recorded and its template remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wardround.core import load_prompt
from wardround.memory.construction.asking import ask_value
from wardround.memory.extract import Asker


@dataclass(slots=True, kw_only=True)
class PeerAsking:
    """Who is asked in the name of one case; ``model`` and ``used`` (template to hash) go into what comes of it."""

    asker: Asker
    model: str
    used: dict[str, str] = field(default_factory=dict)

    async def value(self, template: str, schema: Mapping[str, Any], **values: Any) -> Any:
        """Ask for a value of a schema. Raises FormatError where two replies are none."""
        prompt = load_prompt("wardround.memory", template)
        self.used[prompt.name] = prompt.sha256
        return await ask_value(self.asker, prompt.render(**values), schema, purpose=template)

    @property
    def origin(self) -> dict[str, Any]:
        """What a note says of how it was written."""
        return {"model": self.model, "prompts": dict(self.used)}
