"""What a waiting job is told, in a picture of its cluster."""

from collections.abc import Mapping
from typing import Any

from tests import running
from vscheduler.mirror.wording import sentences
from vscheduler.testing import pictures

FLAT = {
    "actions": "enqueue, allocate, backfill",
    "tiers": running.tiers("gang | overcommit predicates proportion"),
}
TREE = {
    "actions": "enqueue, allocate, backfill",
    "tiers": running.tiers("gang | predicates capacity:enableHierarchy=true"),
}


def told(picture: str, job: str, tree: Mapping[str, Any] = FLAT) -> str:
    """The sentence about this job after one cycle."""
    result = running.run(pictures.documents(picture), tree)
    (reason,) = [group.reason for group in result.groups if group.job == f"default/{job}"]
    assert reason is not None
    return sentences.sentence(reason)


def test_a_pod_that_is_to_be_near_others_is_not_told_of_too_few_resources() -> None:
    """One node has what it asks for, the other has company."""
    picture = """
        node n1 cpu=4 gpu=1 label=zone=a
        node n2 cpu=4 label=zone=b
        queue q
        job q/db min=1 label=app=db n2
        job q/j min=1 gpu=1 near=app=db@zone -
        """
    assert told(picture, "j") == (
        "needs 1 cpu and 1 nvidia.com/gpu; no node that it may use now has nvidia.com/gpu left; "
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, "
        "1 node(s) didn't match pod affinity rules"
    )


def test_slots_are_among_what_is_needed() -> None:
    """As they are among what there is."""
    picture = "node n1 cpu=9 pods=3 queue q job q/j min=4 m:-@2 w:-@3*3"
    assert told(picture, "j") == (
        "all nodes that it may use have 9 cpu and 3 pods, and it needs 11 cpu and 4 pods at least; "
        "ask for less, or add nodes"
    )


def test_pods_without_requests_are_no_pods_that_are_there() -> None:
    """Of six pods that are missing, five ask for something."""
    picture = "node n1 cpu=40 queue q capability=cpu:9 job q/j min=6 cpu=3 -*5 -@0"
    assert told(picture, "j") == (
        "queue q may have at most 9 cpu, and 5 pods need 15; ask for less, or raise the capability"
    )


def test_a_queue_without_capability_shares_what_there_is() -> None:
    """It may have more as soon as there is more."""
    picture = """
        node n1 cpu=2
        queue above
        queue q parent=above deserved=cpu:2
        job q/a min=1 n1*2
        job q/j min=1 -
        """
    assert told(picture, "j", TREE) == (
        "queue above has 2 cpu of the 2 there are to share; this pod needs 1"
    )


def test_a_capability_above_all_there_is_is_no_limit() -> None:
    """Only more nodes help, and no higher capability."""
    picture = """
        node n1 cpu=2
        queue above capability=cpu:4
        queue q parent=above deserved=cpu:2
        job q/a min=1 n1*2
        job q/j min=1 -
        """
    assert told(picture, "j", TREE) == (
        "queue above has 2 cpu of the 2 there are to share; this pod needs 1"
    )


def test_where_root_is_the_limit_the_cluster_is_not_too_small() -> None:
    """More nodes would change nothing."""
    picture = """
        node n1 cpu=20
        queue root capability=cpu:5
        queue q
        queue r guarantee=cpu:1
        job q/a min=3 minresources=cpu:3 n1*3
        job q/j min=3 minresources=cpu:3 phase=Pending -*3
        """
    assert told(picture, "j") == (
        "not admitted: queue q uses or has reserved 3 cpu of the 5 it may have; "
        "this job asks for 3 cpu (minResources)"
    )


def test_promises_of_some_nodes_are_told_from_those_of_the_cluster() -> None:
    """Only one node is open to the job; the cluster has enough."""
    picture = """
        node n1 cpu=2 label=zone=a
        node n2 cpu=20
        queue q
        job q/j min=2 select=zone=a minresources=cpu:3 phase=Pending -*2
        """
    assert told(picture, "j") == (
        "not admitted: of the 2.4 cpu that the nodes open to it can reserve beside what runs, "
        "2.4 cpu is left; this job asks for 3 cpu (minResources)"
    )


def test_a_further_sub_group_is_told_what_the_queue_has_without_it() -> None:
    """The first pod of the sub-group had a place while the second was tried."""
    picture = """
        node n1 cpu=9
        queue q capability=cpu:3
        job q/j min=2 subgroups=1x2 a:n1*2 b:-*2
        """
    assert told(picture, "j", TREE) == (
        "needs 2 cpu for 2 more pods; queue q has 2 cpu of the 3 it may have, which leaves 1"
    )


def test_a_capability_is_told_from_what_the_queue_deserves() -> None:
    """Both are in the way; only one of them could never be exceeded."""
    picture = """
        node n1 cpu=20 memory=20Gi
        queue q capability=cpu:2
        queue r
        job q/a min=1 cpu=1 memory=4Gi n1*2
        job r/b min=1 cpu=1 memory=9Gi -*2
        job q/j min=1 cpu=1 memory=4Gi -
        """
    assert told(picture, "j") == "queue q has 2 cpu of the 2 it may have; this pod needs 1"


def test_what_a_queue_may_have_is_its_capability() -> None:
    """Though it deserves less, and the pod would take it above both."""
    picture = """
        node n1 cpu=8
        queue q capability=cpu:5
        queue r
        job q/a min=1 cpu=3 n1
        job r/b min=1 -*9
        job q/j min=1 cpu=3 -
        """
    assert told(picture, "j") == "queue q has 3 cpu of the 5 it may have; this pod needs 3"


def test_the_capability_of_root_comes_before_those_below() -> None:
    """Though its child could have more, and would not be enough either."""
    picture = """
        node n1 cpu=40
        queue root capability=cpu:4
        queue above capability=cpu:6
        queue q parent=above deserved=cpu:2
        job q/j min=4 cpu=2 -*4
        """
    assert told(picture, "j", TREE) == (
        "queue root may have at most 4 cpu, and 4 pods need 8; "
        "ask for less, or raise the capability"
    )


def test_what_a_job_has_of_its_minimum_is_not_asked_for_again() -> None:
    """Two of its three pods run, and one cpu more can't be promised."""
    picture = """
        node n1 cpu=3
        queue q
        queue r
        job r/a min=1 n1
        job q/j min=3 minresources=cpu:3 phase=Pending n1*2 -
        """
    assert told(picture, "j") == (
        "not admitted: of the 0.6 cpu that the cluster can reserve beside what runs, 0.6 cpu is "
        "left; this job still asks for 1 of its 3 cpu (minResources)"
    )


FULL = """
    node n1 cpu=9
    queue above
    queue q parent=above{capability}
    job q/a min=8 minresources=cpu:8 n1*8
    job q/j min=2 minresources=cpu:2 phase=Pending -*2
    """


def test_where_no_cluster_would_do_the_queue_itself_is_named() -> None:
    """The one above is at the limit as well, but nodes would help it."""
    picture = FULL.format(capability=" capability=cpu:9")
    assert told(picture, "j", TREE) == (
        "not admitted: queue q uses or has reserved 8 cpu of the 9 it may have; "
        "this job asks for 2 cpu (minResources)"
    )


def test_where_nodes_would_do_what_there_is_to_share_is_told() -> None:
    """No queue above has a limit of its own."""
    assert told(FULL.format(capability=""), "j", TREE) == (
        "not admitted: the cluster is too small for queue above, which uses or has reserved "
        "8 cpu of the 9 there are to share; this job asks for 2 cpu (minResources)"
    )


def test_a_pod_that_no_node_takes_is_not_told_of_nodes_with_room() -> None:
    """The spread closes the node with room, and resources the other."""
    picture = """
        node n1 cpu=1 label=kubernetes.io/hostname=n1
        node n2 cpu=4 label=kubernetes.io/hostname=n2
        queue q
        job q/j min=4 label=app=j spread=app=j@host:1 apart=app=red@host n1 n2*2 -
        """
    assert told(picture, "j", TREE) == (
        "needs 4 pods; no node takes a pod with 1 cpu; 0/2 nodes are available: "
        "1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints"
    )


def test_a_gang_that_root_limits_is_told_of_root() -> None:
    """Its queue deserves more than that."""
    picture = """
        node n1 cpu=9
        queue root capability=cpu:4
        queue q deserved=cpu:8
        job q/a min=1 cpu=2 n1
        job q/j min=2 -@2 -@3 -@1
        """
    tiers = running.tiers("gang | predicates capacity")
    assert told(picture, "j", TREE | {"tiers": tiers}) == (
        "queue root has 2 cpu of the 4 it may have; "
        "the smallest pods that this gang can start with need 3 cpu"
    )


def test_a_gang_that_lacks_a_role_is_told_with_how_many_pods_its_queue_was_full() -> None:
    """Volcano's order begins with a worker, whose place is given up, as there is no master."""
    picture = """
        node n1 cpu=20
        queue q capability=cpu:7
        job q/j min=2 roles=m:1,w:1 w:n1@2*2 w:-@2*2 m:-@2
        """
    assert told(picture, "j", FLAT | {"compatibility": "volcano"}) == (
        "with 3 of its 5 pods queue q has 6 cpu of the 7 it may have; a pod of role w needs 2"
    )
