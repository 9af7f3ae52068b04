from pathlib import Path

import pytest

from tests.conformance import suite
from tests.conformance.suite import Scenario

DOCUMENTED = (Path(__file__).parents[2] / "docs" / "volcano.md").read_text()


def parameters() -> list[object]:
    """Every scenario; those that can't pass yet are marked with their reason, strictly."""
    listed = suite.expected_failures()
    return [
        pytest.param(
            scenario,
            id=scenario.path.removesuffix(".yaml"),
            marks=[_mark(listed[scenario.path])] if scenario.path in listed else [],
        )
        for scenario in suite.scenarios()
    ]


def _mark(missing: str) -> pytest.MarkDecorator:
    """Only a wrong outcome is expected, no crash."""
    return pytest.mark.xfail(reason=missing, strict=True, raises=pytest.fail.Exception)


@pytest.mark.parametrize("scenario", parameters())
def test_a_cycle_decides_as_volcano_does(scenario: Scenario) -> None:
    """What a real vc-scheduler decided; see scenarios/README.md."""
    problems = suite.run(scenario)
    if problems:
        pytest.fail("; ".join(problems))


@pytest.mark.parametrize("scenario", suite.scenarios(), ids=lambda each: each.path)
def test_without_compatibility_only_what_is_listed_differs(scenario: Scenario) -> None:
    """Each difference has its reason, and each listed one is there; the docs tell of all."""
    problems = suite.run(scenario, as_volcano=False)
    reason = suite.differences().get(scenario.path)
    assert bool(problems) is (reason is not None), problems
    if reason is not None:
        assert f"| `{scenario.path}` | {reason} |" in DOCUMENTED


def test_differences_are_those_of_scenarios() -> None:
    """No path is left behind."""
    assert suite.differences().keys() <= {scenario.path for scenario in suite.scenarios()}
