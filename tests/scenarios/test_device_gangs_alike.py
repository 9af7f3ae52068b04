"""Gangs whose pods differ only in claims made from a template, and what is found out for one."""

from tests.device_labs import Lab
from tests.scenarios import test_device_quotas
from vscheduler.model.jobs import Phase
from vscheduler.testing import pictures


def made_from_a_template(found: Lab, pod: str) -> None:
    """Let the claim called like the pod be one that a controller has made for it."""
    stored, claim = found.get("Pod", pod), found.get("ResourceClaim", pod)
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    stored["spec"]["resourceClaims"] = [entry]
    stored["status"]["resourceClaimStatuses"] = [{"name": "gpus", "resourceClaimName": pod}]
    owner = {"kind": "Pod", "name": pod, "uid": stored["metadata"]["uid"], "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    for each in (stored, claim):
        found.put(each)


def test_gangs_of_equal_pods_need_not_fit_alike() -> None:
    """The first starts with two of its five pods; the second needs all of them, and 40 cpu."""
    names = [f"{job}-{number}" for job in "ab" for number in range(5)]
    found = test_device_quotas.lab(
        """
        queue q
        job   q/a min=2 cpu=8 - - - - -
        job   q/b min=5 cpu=8 - - - - -
        """,
        test_device_quotas.own(*names),
    )
    for name in names:
        made_from_a_template(found, name)
    results = test_device_quotas.run(found)
    assert {"a-0", "a-1"} <= test_device_quotas.started(results) <= {*names[:5]}
    phases = {str(group.job): group.phase for group in results[0].groups}
    assert phases[f"{pictures.NAMESPACE}/b"] is Phase.PENDING
    assert "needs 40 cpu" in test_device_quotas.reason(results[0], "b")
