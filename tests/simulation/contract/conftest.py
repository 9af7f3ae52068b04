"""One API server after the other under the same tests: the one in memory, and a real one.

The real one is the control plane that all integration tests of a run share. Each test has a
namespace of its own, and names of its own for what is in no namespace.
"""

import itertools

import pytest

from tests.simulation.contract import sides
from vscheduler.sandbox import contents

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def memory() -> sides.Memory:
    """The API server in memory."""
    return sides.Memory.made()


@pytest.fixture(params=["memory", "real"])
def case(request: pytest.FixtureRequest) -> sides.Case:
    """A place for one test, on either API server."""
    namespace = f"contract-{next(NUMBERS)}"
    if request.param == "memory":
        side: sides.Side = request.getfixturevalue("memory")
        side.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return sides.Case(side, namespace)
    plane = request.getfixturevalue("plane")
    contents.create_namespace(plane.api, namespace)
    return sides.Case(sides.Real(plane, plane.api), namespace)
