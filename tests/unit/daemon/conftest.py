"""The API server of a few lines, from the tests of the room below."""

from tests.unit.cluster.conftest import serve

__all__ = ["serve"]
