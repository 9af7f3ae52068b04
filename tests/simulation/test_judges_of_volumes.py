"""Each judge of volumes flags a broken rule, and lets pass what breaks none."""

from typing import Any

import pytest

from tests.simulation.made_histories import History, Object, meta, node, pod, started
from tests.simulation.made_volumes import CLAIMS, ON_N1, VOLUMES, claim, user, volume

UNBOUND = "no pod starts before its claims"
AWAY = "no bind away from a volume"
LIMIT = "no node has too many volumes"
ALONE = "one pod for ReadWriteOncePod"
ONCE = "each volume has one claim"
NOBODY = "nothing is reserved for nobody"


def waiting(pods: int = 1) -> History:
    """A node, a leader, and pods that wait, each with a claim of its own that isn't there yet."""
    history = started(1, 0)
    for number in range(pods):
        history.put("pods", user(number, f"c{number}"))
    history.later(10)
    history.leads("a")
    return history


def bound(pods: int = 1, **spec: Any) -> History:
    """The same with bound claims."""
    history = waiting(pods)
    for number in range(pods):
        history.put(VOLUMES, volume(f"v{number}", f"c{number}", **spec))
        history.put(CLAIMS, claim(f"c{number}", f"v{number}"))
    history.later(10)
    history.leads("a")
    return history


def test_a_pod_starts_once_its_claim_is_bound() -> None:
    """The volume may be used from its node."""
    history = bound(nodeAffinity=ON_N1)
    history.bind("p0", "n1")
    assert history.broken() == []


def test_a_pod_does_not_start_with_a_claim_that_is_not_there() -> None:
    """The claim may come later."""
    history = waiting()
    history.bind("p0", "n1")
    assert history.broken() == [UNBOUND]


@pytest.mark.parametrize("found", [claim(), claim(selected="n1"), claim(volumeName="v0")])
def test_a_pod_does_not_start_with_a_claim_that_is_not_bound(found: Object) -> None:
    """A selected node, or the name of a volume, is not enough."""
    history = waiting()
    history.put(VOLUMES, volume())
    history.put(CLAIMS, found)
    history.later(10)
    history.leads("a")
    history.bind("p0", "n1")
    assert history.broken() == [UNBOUND]


def leaving(found: Object) -> Object:
    """The same, being deleted."""
    metadata = {**found["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**found, "metadata": metadata}


def test_a_pod_does_not_start_with_a_claim_that_leaves() -> None:
    """Known for a while; what is news may be unknown."""
    for seconds, rules in ((1, []), (10, [UNBOUND])):
        history = bound()
        history.put(CLAIMS, leaving(claim("c0", "v0")))
        history.later(seconds)
        history.leads("a")
        history.bind("p0", "n1")
        assert history.broken() == rules


def test_a_pod_does_not_start_with_a_claim_whose_volume_is_gone() -> None:
    """The claim still names it."""
    for seconds, rules in ((1, []), (10, [UNBOUND])):
        history = bound()
        history.drop(VOLUMES, "v0")
        history.later(seconds)
        history.leads("a")
        history.bind("p0", "n1")
        assert history.broken() == rules


def test_a_claim_made_for_a_pod_is_its_own() -> None:
    """Somebody else's claim of the same name isn't."""
    for owner, rules in (("uid-p0", []), ("uid-p9", [UNBOUND])):
        history = started(1, 0)
        history.put("pods", pod("p0", volumes=[{"name": "d", "ephemeral": TEMPLATE}]))
        found = claim("p0-d", "v0")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": owner}
        found["metadata"]["ownerReferences"] = [reference]
        history.put(VOLUMES, volume("v0", "p0-d"))
        history.put(CLAIMS, found)
        history.later(10)
        history.leads("a")
        history.bind("p0", "n1")
        assert history.broken() == rules


TEMPLATE = {"volumeClaimTemplate": {"spec": claim()["spec"]}}


def test_a_pod_goes_where_its_volume_is() -> None:
    """Not to another node; a node whose labels are news may be mistaken."""
    labelled = node("n2")
    labelled["metadata"]["labels"] = {"zone": "a"}
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
            ]
        }
    }
    for seconds, rules in ((1, []), (10, [AWAY])):
        history = bound(nodeAffinity=affinity)
        history.put("nodes", labelled)
        history.later(seconds)
        history.leads("a")
        history.bind("p0", "n2")
        assert history.broken() == rules
    history = bound(nodeAffinity=ON_N1)
    history.bind("p0", "n1")
    assert history.broken() == []


def test_a_pod_goes_to_the_zone_of_its_volume() -> None:
    """By label; a node without any zone takes all."""
    zone = "topology.kubernetes.io/zone"
    for labels, rules in (({zone: "a"}, []), ({zone: "b"}, [AWAY]), ({}, [])):
        history = waiting()
        zoned = volume("v0", "c0")
        zoned["metadata"]["labels"] = {zone: "a__c"}
        place = node("n2")
        place["metadata"]["labels"] = labels
        history.put("nodes", place)
        history.put(VOLUMES, zoned)
        history.put(CLAIMS, claim("c0", "v0"))
        history.later(10)
        history.leads("a")
        history.bind("p0", "n2")
        assert history.broken() == rules


def limited(count: int) -> Object:
    """A node's drivers."""
    return {
        "metadata": meta("n1"),
        "spec": {"drivers": [{"name": "csi", "nodeID": "n1", "allocatable": {"count": count}}]},
    }


def test_a_node_has_so_many_volumes() -> None:
    """The third pod is one too many; a limit that is news may be unknown."""
    for most, rules in ((3, []), (2, [LIMIT])):
        history = bound(3)
        history.put("csinodes", limited(most))
        history.later(10)
        history.leads("a")
        for number in range(3):
            history.bind(f"p{number}", "n1")
        assert history.broken() == rules
    history = bound(1)
    history.put("csinodes", limited(0))
    history.bind("p0", "n1")
    assert history.broken() == []


def test_a_volume_counts_once() -> None:
    """Two pods with one claim."""
    history = bound(1)
    history.put("csinodes", limited(1))
    history.put("pods", user(1, "c0"))
    history.later(10)
    history.leads("a")
    history.bind("p0", "n1")
    history.bind("p1", "n1")
    assert history.broken() == []


def test_a_claim_for_one_pod_has_one() -> None:
    """ReadWriteOncePod; once the first has ended, the second may start."""
    for ended, rules in ((False, [ALONE]), (True, [])):
        history = started(1, 0)
        history.put(VOLUMES, volume("v0", "c0"))
        history.put(CLAIMS, claim("c0", "v0", accessModes=["ReadWriteOncePod"]))
        history.put("pods", user(0))
        history.put("pods", user(1))
        history.later(10)
        history.leads("a")
        history.bind("p0", "n1")
        if ended:
            done = {**user(0, nodeName="n1"), "status": {"phase": "Succeeded"}}
            history.put("pods", done)
        history.bind("p1", "n1")
        assert history.broken() == rules


def test_a_volume_is_reserved_for_a_claim_that_it_suits() -> None:
    """Size, class, modes."""
    for spec, rules in (
        ({}, []),
        ({"capacity": {"storage": "1Mi"}}, [ONCE]),
        ({"storageClassName": "other"}, [ONCE]),
        ({"accessModes": ["ReadOnlyMany"]}, [ONCE]),
        ({"volumeMode": "Block"}, [ONCE]),
    ):
        history = waiting()
        history.put(CLAIMS, claim())
        history.put(VOLUMES, volume(**spec))
        history.put(VOLUMES, volume("v0", "c0", **spec), origin="a")
        assert [each for each in history.broken() if each != NOBODY] == rules


def test_a_volume_that_is_reserved_goes_to_no_other_claim() -> None:
    """Whoever has reserved it."""
    history = waiting(2)
    history.put(CLAIMS, claim("c0"))
    history.put(CLAIMS, claim("c1"))
    history.put(VOLUMES, volume("v0", "c0"))
    history.put(VOLUMES, volume("v0", "c1"), origin="a")
    assert history.broken() == [ONCE]


def test_no_volume_has_two_claims() -> None:
    """Both are bound to it."""
    history = bound(1)
    history.put(CLAIMS, claim("c1", "v0"))
    assert history.broken() == [ONCE]


def test_what_is_reserved_for_a_deleted_pod_is_given_back() -> None:
    """Soon, if it is a volume."""
    for gives_back, rules in ((True, []), (False, [NOBODY])):
        history = waiting()
        history.put(CLAIMS, claim())
        history.put(VOLUMES, volume())
        history.put(VOLUMES, volume("v0", "c0"), origin="a")
        history.drop("pods", "p0")
        history.later(10)
        history.leads("a")
        if gives_back:
            history.put(VOLUMES, volume(), origin="a")
        history.later(50)
        history.leads("a")
        history.put("pods", pod("p9"))
        assert [each for each in history.broken() if each != "leases are renewed"] == rules


def test_what_a_user_reserved_is_no_business_of_the_daemon() -> None:
    """A volume with a claimRef, for a claim without pods."""
    history = waiting()
    history.drop("pods", "p0")
    history.put(CLAIMS, claim())
    history.put(VOLUMES, volume("v0", "c0"))
    history.put(CLAIMS, claim(selected="n1"))
    assert history.broken() == []


def test_a_node_that_is_selected_for_nobody_is_given_back_by_the_end() -> None:
    """While a pod waits it stays."""
    for gone, rules in ((False, []), (True, [NOBODY])):
        history = waiting()
        history.put(CLAIMS, claim())
        history.put(CLAIMS, claim(selected="n1"), origin="a")
        if gone:
            history.drop("pods", "p0")
        assert history.broken() == rules


def test_the_claims_of_a_scheduler_are_written_by_its_leader() -> None:
    """And by nobody else."""
    history = waiting()
    history.put(CLAIMS, claim())
    history.put(CLAIMS, claim(selected="n1"), origin="b")
    assert history.broken() == ["one writer"]
