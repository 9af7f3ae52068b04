import pytest

from tests.conformance import suite


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
def test_a_cycle_decides_as_volcano_does(scenario: suite.Scenario) -> None:
    """What a real vc-scheduler decided; see scenarios/README.md."""
    problems = suite.run(scenario)
    if problems:
        pytest.fail("; ".join(problems))
