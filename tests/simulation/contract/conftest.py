"""One API server after the other under the same tests: the one in memory, and a real one.

The real one is the control plane that all integration tests of a run share. Each test has a
namespace of its own, and names of its own for what is in no namespace.
"""

import itertools

import pytest

from sandbox import contents
from tests.simulation.contract.sides import Case, Memory, Real, Side

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def memory() -> Memory:
    """The API server in memory."""
    return Memory.made()


@pytest.fixture(params=["memory", "real"])
def case(request: pytest.FixtureRequest) -> Case:
    """A place for one test, on either API server."""
    namespace = f"contract-{next(NUMBERS)}"
    if request.param == "memory":
        side: Side = request.getfixturevalue("memory")
        side.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return Case(side, namespace)
    plane = request.getfixturevalue("plane")
    contents.create_namespace(plane.api, namespace)
    return Case(Real(plane, plane.api), namespace)
