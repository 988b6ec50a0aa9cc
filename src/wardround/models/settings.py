"""Model settings: where models are served, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from wardround.core import Price, UserError, check_settings, setting
from wardround.models.schema_calls import ToolCalls
from wardround.models.wire import ShowPictures


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Where a model is served and how it is called. The key itself is never written."""

    base_url: str | None = setting(
        None, "an OpenAI-compatible endpoint, e.g. http://127.0.0.1:8000/v1", unit="URL", flag="--base-url"
    )
    api_key_variable: str | None = setting(
        None,
        "environment variable that holds the endpoint's key",
        unit="name of a variable",
        flag="--api-key-variable",
    )
    tool_calls: ToolCalls = setting(
        "native",
        "how a served model gets tool calls: through the endpoint's tools, or described in the prompt with the "
        "reply bound to their schemas; auto finds out whether the server's template ignores tools",
    )
    pictures: ShowPictures = setting(
        "user",
        "where the server takes the pictures of tool results: in a user message behind them, in the tool message "
        "itself, or nowhere, with a line that lists the images",
    )
    price: tuple[float, ...] = setting((), "input,output[,cached]", unit="US dollars per million tokens")
    temperature: float | None = setting(
        0.7, "sampling temperature", source="RetroSum, appendix D.2", least=0, flag="--temperature"
    )
    top_p: float | None = setting(0.8, "nucleus sampling", source="RetroSum, appendix D.2", above=0, most=1)
    presence_penalty: float | None = setting(
        None,
        "what a token that was written already loses; none: the endpoint's own",
        source="released code of RetroSum: 1.0, and 0.0 for RetroSum without memory",
        least=-2,
        most=2,
    )

    saw_data: bool = setting(
        False,
        "these weights were trained on the data set that the questions are made of: noted beside every figure",
        source="ClinSeekAgent, section 3.2 (EHR-R1 was trained on the patients' own data set)",
    )

    parameters: float | None = setting(
        None,
        "how large the model is: what a report sets scores against",
        unit="billions of parameters",
        source="ClinSeekAgent, figure 2",
        above=0,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.price and (len(self.price) not in (2, 3) or not all(0 <= value < inf for value in self.price)):
            raise UserError("price takes input,output[,cached] in US dollars per million tokens")

    @property
    def known_price(self) -> Price | None:
        """The price to account with, or None when none is set."""
        if not self.price:
            return None
        return Price(input=self.price[0], output=self.price[1], cached=self.price[2] if len(self.price) > 2 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel(ModelOptions):
    """A model under the experiment's own name; unset options are those of all models."""

    name: str = setting("", "the model behind this name, e.g. openai/qwen3-4b")

    def __post_init__(self) -> None:
        ModelOptions.__post_init__(self)
        if not self.name:
            raise UserError('a named model needs the name of a model: name = "openai/qwen3-4b"')
