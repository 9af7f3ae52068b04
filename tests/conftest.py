import pytest

pytest.register_assert_rewrite("tests.checks", "tests.running", "tests.scenarios.deciding")

ROUNDS = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """How long the races of tests/integration/test_group_races.py are; `make test-faults`: 100."""
    parser.addoption("--rounds", type=int, default=ROUNDS, help="rounds of each race, 2 or more")


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    """Rounds of each race."""
    return int(pytestconfig.getoption("--rounds"))
