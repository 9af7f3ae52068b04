"""One API server after the other under the same tests: the one in memory, and a real one.

The real one is the control plane that all integration tests of a run share. Each test has a
namespace of its own, and names of its own for what is in no namespace.
"""

import itertools
import random
from collections.abc import Iterator

import pytest

from tests.simulation.api_server import server
from tests.simulation.contract import sides

pytest_plugins = ("tests.integration.conftest",)

NUMBERS = itertools.count()
