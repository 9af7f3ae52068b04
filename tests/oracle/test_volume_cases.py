import pytest

from tests.oracle import manifests, ours, volume_cases
from tests.oracle.volume_cases import Case

NUMBERED = list(enumerate(volume_cases.CASES))


@pytest.mark.parametrize(
    ("number", "case"), NUMBERED, ids=[case.name.replace(" ", "-") for _, case in NUMBERED]
)
def test_volume_cases(number: int, case: Case) -> None:
    """The nodes that kube-scheduler lets the probe onto."""
    world = volume_cases.world(number)
    (probe,) = world.waiting
    asked = {**probe, "spec": {**probe["spec"], "schedulerName": manifests.ORACLE}}
    documents = [*world.nodes, *world.storage, *world.standing, asked]
    assert ours.verdicts(documents)[manifests.key(probe)] == set(case.kube)
