"""Amounts as people read them: `1 turn`, `2.5 seconds`, `0.50` US dollars; never in powers of ten."""

CENTS = 2
MORE = 4
"""The maximum number of decimal places, unless only zeros would be left."""


def format_amount(number: float, unit: str) -> str:
    """`unit` is in the singular."""
    figure = _shortened(f"{number:.3f}", 0)
    return f"{figure} {unit if figure == '1' else f'{unit}s'}"


def format_usd(amount: float) -> str:
    """A number of US dollars, with its cents; less than a cent is not rounded to nothing."""
    exponent = int(f"{amount:e}".partition("e")[2])
    return _shortened(f"{amount:.{max(MORE, 1 - exponent)}f}", CENTS)


def _shortened(figure: str, places: int) -> str:
    """Without the zeros at its end, as far as they come after that many decimal places."""
    whole, _, fraction = figure.partition(".")
    fraction = fraction.rstrip("0").ljust(places, "0")
    return f"{whole}.{fraction}" if fraction else whole
