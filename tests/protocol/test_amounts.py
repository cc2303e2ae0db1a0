"""Amounts are written out, with the right number of their unit."""

import pytest

from buddy.protocol.amounts import format_amount, format_usd


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 seconds"), (1, "1 second"), (1.0, "1 second"), (1.5, "1.5 seconds"), (1_234_567, "1234567 seconds")],
)
def test_an_amount_has_its_unit(number: float, shown: str) -> None:
    assert format_amount(number, "second") == shown


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "0.00"),
        (1, "1.00"),
        (0.5, "0.50"),
        (0.1 + 0.2, "0.30"),
        (0.015, "0.015"),
        (1e-9, "0.000000001"),
        (1.2345e-9, "0.0000000012"),
        (1e9, "1000000000.00"),
    ],
)
def test_money_has_cents_and_no_powers_of_ten(amount: float, shown: str) -> None:
    assert format_usd(amount) == shown
