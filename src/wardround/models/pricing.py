"""What a person says a model costs. There is no built-in price list: a guessed price is a wrong number."""

from __future__ import annotations

from wardround.core import Price, UserError


def parse_price(text: str) -> Price:
    """Read ``input,output[,cached]``, US dollars per million tokens, as in ``--price 2,10,0.5``."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(0 <= number < float("inf") for number in numbers):
        raise UserError(f"price {text!r} is not input,output[,cached] in US dollars per million tokens, e.g. 2,10,0.5")
    return Price(input=numbers[0], output=numbers[1], cached=numbers[2] if len(numbers) == 3 else None)
