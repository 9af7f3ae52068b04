"""What is left over, as an API server tells it."""

from typing import Any, cast

import pytest

from sandbox import contents
from sandbox.client import Answer, Client
from sandbox.errors import ApiError
from vscheduler.mirror import paths
from vscheduler.mirror.paths import Collection


class Server:
    """Has one node, and answers everything else with one status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def request(self, method: str, path: str, **_: Any) -> Answer:
        """The one node, or a refusal."""
        if path == "/api/v1/nodes":
            return Answer(status=200, text='{"items": [{"metadata": {"name": "n1"}}]}')
        raise ApiError(status=self.status, method=method, path=path, message="no")


def left(status: int) -> list[str]:
    """What is found when a collection isn't there, or can't be listed."""
    api = cast("Client", Server(status))
    things = Collection(api_version="example.com/v1", kind="Thing", plural="things")
    found = contents.find_leftovers(api, [things, paths.NODES])
    return [each.path for each in found]


def test_a_collection_that_is_served_no_more_holds_nothing() -> None:
    """A definition that is being deleted is still listed when its objects are gone."""
    assert left(404) == ["/api/v1/nodes/n1"]


def test_a_collection_that_cannot_be_listed_is_an_error() -> None:
    """Else a slate would pass for clean that isn't."""
    with pytest.raises(ApiError):
        left(500)
