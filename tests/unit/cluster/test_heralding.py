import json

from vscheduler.cluster import heralding
from vscheduler.mirror import statuses


def test_an_event_of_a_lease_is_kept_beside_it() -> None:
    """`kubectl describe lease` finds it by the kind and the UID."""
    lease = statuses.Subject(kind="Lease", namespace="volcano-system", name="a", uid="u")
    notice = statuses.lease_notice(lease, "me", leads=True)
    identity = heralding.Identity(controller="vscheduler", instance="i")
    body = json.loads(heralding.event_body(notice, "a.1", 1.5, identity))
    assert body["metadata"] == {"name": "a.1", "namespace": "volcano-system"}
    assert body["regarding"] == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "namespace": "volcano-system",
        "name": "a",
        "uid": "u",
    }
    assert (body["reason"], body["action"]) == ("LeaderElection", "Electing")
