"""Tables made at ingest from the text of another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from wardround.records.ingest.sections import admission_sections
from wardround.records.specs.spec import Derivation

DERIVATIONS: Mapping[str, Callable[[str], str]] = {"admission_sections": admission_sections}


def derive_rows(rows: pa.Table, derivation: Derivation) -> pa.Table:
    """Return the rows with their text replaced by what the function makes of it; rows without any are dropped."""
    function = DERIVATIONS[derivation.function]
    texts = [function(text) or None if text else None for text in rows.column(derivation.text).to_pylist()]
    place = rows.schema.get_field_index(derivation.text)
    rows = rows.set_column(place, derivation.text, pa.array(texts, pa.string()))
    return rows.filter(rows.column(derivation.text).is_valid())
