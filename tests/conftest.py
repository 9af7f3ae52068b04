import pytest

pytest.register_assert_rewrite("tests.checks", "tests.running", "tests.scenarios.deciding")
