"""Endpoints that refuse a prompt by a content filter (Azure: status 400, ``code: content_filter``)."""

from __future__ import annotations

from wardround.core import PromptWithheld, ProviderError

FILTER_CODES = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation")
"""Codes that error bodies name; the received text begins with the code where a body has one of them."""
_STATUSES = (400, 403, 422, 451)


def as_withheld(error: ProviderError) -> ProviderError:
    """Return the error as a PromptWithheld where a content filter refused the prompt; else itself."""
    if error.status not in _STATUSES or not any(f"{code}: " in str(error) for code in FILTER_CODES):
        return error
    return PromptWithheld(str(error), status=error.status, attempts=error.attempts)
