import pytest

from tests.unit.mirror import manifests
from tests.unit.mirror.manifests import Document

KNOWN = ("g", *(f"g{number}" for number in range(101)))
PAIR = manifests.group("g", {"queue": "q", "minMember": 2})


@pytest.mark.parametrize(
    ("documents", "more"),
    [
        ([], False),
        ([PAIR], True),
        ([manifests.pod("a", group="later")], True),
        ([manifests.pod("loner")], False),
        ([manifests.pod("a", group="g")], False),
        (
            [PAIR, manifests.pod("a", group="g")],
            True,
        ),
        (
            [
                PAIR,
                manifests.pod("a", group="g"),
                manifests.pod("b", group="g"),
            ],
            False,
        ),
        ([manifests.pod(f"p{number}", group=f"g{number}") for number in range(101)], True),
    ],
)
def test_more_is_to_come_of_gangs_that_are_not_whole(documents: list[Document], more: bool) -> None:
    """Of those that came or changed since the last snapshot; and where a great many did."""
    seen = manifests.mirror(manifests.queue("q"), *(manifests.group(name) for name in KNOWN))
    seen.snapshot(0.0)
    for document in documents:
        seen.apply(manifests.event_of(document))
    assert seen.more_to_come() is more
    seen.snapshot(0.0)
    assert not seen.more_to_come()
