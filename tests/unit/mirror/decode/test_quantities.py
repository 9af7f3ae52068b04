import pytest

from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.quantities import Quantity, QuantityError

LEGAL = [
    # text, in whole units, in thousandths
    ("0", 0, 0),
    ("2", 2, 2000),
    ("+2", 2, 2000),
    ("-2", -2, -2000),
    ("100m", 1, 100),
    ("1500m", 2, 1500),
    ("-1500m", -2, -1500),
    ("1u", 1, 1),
    ("1n", 1, 1),
    ("1001u", 1, 2),
    (".5", 1, 500),
    ("5.", 5, 5000),
    ("0.0001", 1, 1),
    ("1.5Gi", 1610612736, 1610612736000),
    (".5Ki", 512, 512000),
    ("1Ki", 1024, 1024000),
    ("1k", 1000, 1000000),
    ("3Mi", 3 * 2**20, 3000 * 2**20),
    ("3M", 3 * 10**6, 3 * 10**9),
    ("1Ti", 2**40, 1000 * 2**40),
    ("1Pi", 2**50, 1000 * 2**50),
    ("1E", 10**18, 2**63 - 1),
    ("1Ei", 2**60, 2**63 - 1),
    ("1T", 10**12, 10**15),
    ("1P", 10**15, 10**18),
    ("1G", 10**9, 10**12),
    ("1e3", 1000, 10**6),
    ("1E3", 1000, 10**6),
    ("1E+3", 1000, 10**6),
    ("25e-1", 3, 2500),
    ("1.5e-999999", 1, 1),
    ("0e999999", 0, 0),
    ("9e99", 2**63 - 1, 2**63 - 1),
    ("-9e99", 1 - 2**63, 1 - 2**63),
    (2, 2, 2000),
    (0.1, 1, 100),
    (1.5, 2, 1500),
    (1e16, 10**16, 2**63 - 1),
    (1e-7, 1, 1),
]


@pytest.mark.parametrize(("text", "whole", "milli"), LEGAL)
def test_every_legal_spelling_is_read_exactly(text: Quantity, whole: int, milli: int) -> None:
    """Suffixes, exponents, signs and bare points, rounded away from zero; too much is cut."""
    assert (quantities.parse_whole(text), quantities.parse_milli(text)) == (whole, milli)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        (" ", "it is empty"),
        ("1 Gi", "contain spaces"),
        (" 1", "contain spaces"),
        ("4GB", "no suffix 'GB'"),
        ("1gi", "no suffix 'gi'"),
        ("1K", "no suffix 'K'"),
        ("1e", "no suffix 'e'"),
        (".", "write 500m"),
        ("-", "write 500m"),
        ("Gi", "write 500m"),
        ("1.2.3", "write 500m"),
        ("1,5", "write 500m"),
        ("--1", "write 500m"),
        ("0x10", "write 500m"),
        ("٣", "write 500m"),
        ("1_000", "write 500m"),
        ("1" * 1001, "1001 characters"),
        (float("nan"), "'nan'"),
        (float("inf"), "'inf'"),
        (True, "true is not a quantity"),
    ],
)
def test_what_is_no_quantity_says_why(text: Quantity, says: str) -> None:
    """The message quotes the text and helps to mend it."""
    with pytest.raises(QuantityError, match=says):
        quantities.parse_whole(text)


@pytest.mark.parametrize(
    ("name", "amount", "written"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("cpu", 2_000_000, "2k"),
        ("cpu", 0, "0"),
        ("cpu", -500, "-500m"),
        ("cpu", 100000 / 3, "33333333u"),
        ("cpu", 33333.3, "33333300u"),
        ("cpu", 0.0001, "0"),
        ("memory", 2**30, "1Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 1000, "1000"),
        ("memory", 2**30 / 3, "357913941"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("ephemeral-storage", 2**40, "1Ti"),
        ("pods", 110, "110"),
        ("nvidia.com/gpu", 8, "8"),
        ("nvidia.com/gpu", 2000, "2k"),
        ("nvidia.com/gpu", 2.5, "2500m"),
        ("nvidia.com/gpu", 8 / 3, "2666667u"),
    ],
)
def test_amounts_are_written_as_kubernetes_does(name: str, amount: float, written: str) -> None:
    """The largest suffix without a fraction: binary for bytes, decimal for the rest."""
    assert quantities.format_quantity(name, amount) == written


def test_amounts_without_a_limit_are_left_out() -> None:
    """Unlimited is no quantity."""
    assert quantities.format_amounts({"memory": 2**30, "cpu": 1500.0, "x": float("inf")}) == {
        "cpu": "1500m",
        "memory": "1Gi",
    }


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 20_500, "20.5"),
        ("cpu", 59_000 / 3, "19.667"),
        ("cpu", 25_000, "25"),
        ("cpu", 1, "0.001"),
        ("cpu", 0, "0"),
        ("nvidia.com/gpu", 8 / 3, "2.667"),
        ("pods", 110, "110"),
        ("memory", 0, "0"),
        ("memory", 100 * 2**30, "100Gi"),
        ("memory", 1536 * 2**20, "1536Mi"),
        ("memory", 200 * 2**30 / 3, "66.67Gi"),
        ("memory", 2**63 - 1, "8Ei"),
        ("memory", 7, "7"),
    ],
)
def test_people_read_decimals(name: str, amount: float, text: str) -> None:
    """And Kubernetes reads them, too: as nearly the same amount."""
    assert quantities.readable(name, amount) == text
    assert quantities.parse(name, text) == pytest.approx(amount, rel=1e-3, abs=1)
