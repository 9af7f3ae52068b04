import pytest

pytest.register_assert_rewrite("tests.checks", "tests.running", "tests.scenarios.deciding")

ROUNDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long races and takeovers are in tests/integration; `make test-faults`: longer."""
    parser.addoption("--rounds", type=int, default=ROUNDS, help="rounds of each race, 2 or more")
    parser.addoption(
        "--lease-timing",
        choices=("short", "default"),
        default="short",
        help="the patience of instances in tests/integration/test_takeovers.py and the like",
    )


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """Rounds of each race."""
    return int(pytestconfig.getoption("--rounds"))
