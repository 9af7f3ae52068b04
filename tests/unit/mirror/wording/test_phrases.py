import pytest

from vscheduler.mirror.wording import phrases

GI = 2**30


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 24000, "24"),
        ("cpu", 100.4, "0.1"),
        ("cpu", 17700, "17.7"),
        ("memory", 512, "512"),
        ("memory", 2048, "2Ki"),
        ("memory", 1.5 * GI, "1536Mi"),
        ("memory", 100.5 * GI, "102912Mi"),
        ("memory", 2**70, "1024Ei"),
        ("hugepages-2Mi", 4 * 2**20, "4Mi"),
        ("ephemeral-storage", GI, "1Gi"),
        ("nvidia.com/gpu", 3.0, "3"),
        ("nvidia.com/gpu", 1 / 3, "0.33"),
        ("example.com/many", 10**9, "1000000000"),
    ],
)
def test_amounts_are_short_quantities(resource: str, value: float, text: str) -> None:
    """A person reads three digits and a unit."""
    assert phrases.amount(resource, value) == text
