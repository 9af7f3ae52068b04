"""The queues above a queue, whatever its owner wrote into spec.parent."""

from typing import Any

import pytest

from vscheduler.cli.queue import ancestors


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({"team": "dept", "dept": "root"}, ["team", "dept"]),
        ({"team": "dept", "dept": None}, ["team", "dept"]),
        ({"team": "dept", "dept": "team"}, ["team", "dept"]),
        ({"team": "team"}, ["team"]),
        ({"team": "gone"}, ["team", "gone"]),
    ],
)
def test_each_is_seen_once_up_to_root(parents: dict[str, str | None], expected: list[str]) -> None:
    """A loop ends where it began, and the path at a queue that doesn't exist."""

    def get(name: str) -> dict[str, Any] | None:
        return {"spec": {"parent": parents[name]}} if name in parents else None

    found = list(ancestors.ancestors(get, "team"))
    assert [name for name, _ in found] == expected
    assert [queue is None for _, queue in found] == [name == "gone" for name in expected]


@pytest.mark.parametrize("queue", [None, {}, {"spec": None}, {"spec": {"parent": "root"}}])
def test_nothing_is_above_a_queue_below_root(queue: dict[str, Any] | None) -> None:
    """Nobody is asked about root."""
    assert list(ancestors.ancestors(pytest.fail, ancestors.parent_of(queue))) == []
