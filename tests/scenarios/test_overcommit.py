import pytest

from tests import running
from vscheduler.model.decisions import ReasonCode
from vscheduler.testing import pictures

TOO_SMALL = {ReasonCode.CLUSTER_FULL, ReasonCode.NEVER_FITS}


def admitted(picture: str, plugin: str = "overcommit", volcano: bool = False) -> set[str]:
    """The jobs that are Inqueue after one cycle of enqueue; the others are told that
    the cluster is too small.
    """
    tree = {"actions": "enqueue", "tiers": running.tiers(f"priority | {plugin} predicates")}
    if volcano:
        tree["compatibility"] = "volcano"
    result = running.run_claimed(pictures.documents(picture), tree)
    waiting = {group.job: group.reason for group in result.groups if group.phase == "Pending"}
    assert {reason and reason.code for reason in waiting.values()} <= TOO_SMALL
    return {group.job.partition("/")[2] for group in result.groups if group.phase == "Inqueue"}


TABLE = {
    "a fifth more than there is, by default": (
        """
        node  n1 cpu=10
        queue q
        job   q/a phase=Pending minresources=cpu:10 age=9   -
        job   q/b phase=Pending minresources=cpu:2  age=8   -
        job   q/c phase=Pending minresources=cpu:1          -
        """,
        {"a", "b"},
    ),
    "what pods use is not there": (
        """
        node  n1 cpu=10
        queue q
        job   q/r min=0 n1*9
        job   q/a phase=Pending minresources=cpu:4  -
        job   q/b phase=Pending minresources=cpu:3  -
        """,
        {"b"},
    ),
    "a resource that it doesn't ask for doesn't matter": (
        """
        node  n1 cpu=10 memory=1Gi
        queue q
        job   q/a phase=Pending minresources=memory:2Gi age=1   -
        job   q/b phase=Pending minresources=cpu:3               -
        """,
        {"b"},
    ),
    "a group that names no minimum passes": (
        """
        node  n1 cpu=9
        queue q
        job   q/r min=0 n1*9
        job   q/a phase=Pending cpu=9 -
        """,
        {"a"},
    ),
}


@pytest.mark.parametrize("volcano", [False, True])
@pytest.mark.parametrize(("picture", "expected"), TABLE.values(), ids=TABLE)
def test_the_cluster_promises_its_room_times_a_factor(
    picture: str, expected: set[str], volcano: bool
) -> None:
    """In both ways the same."""
    assert admitted(picture, volcano=volcano) - {"r"} == expected


def test_the_factor_can_be_set() -> None:
    """Twice the cluster."""
    picture = "node n1 cpu=10 queue q job q/a phase=Pending minresources=cpu:20 -"
    assert admitted(picture) == set()
    assert admitted(picture, "overcommit:overcommit-factor=2") == {"a"}


USABLE = {
    "a node that it doesn't select": "node n2 cpu=10 label=zone=b",
    "a taint": "node n2 cpu=10 label=zone=a taint=gpu=yes:NoSchedule",
    "a cordon": "node n2 cpu=10 label=zone=a cordoned",
    "a node that isn't ready": "node n2 cpu=10 label=zone=a unready",
}


@pytest.mark.parametrize("other", USABLE.values(), ids=USABLE)
def test_room_that_its_pods_may_not_use_is_not_promised(other: str) -> None:
    """Twelve cpus of the ten on n1, whatever n2 has; Volcano counts all nodes that are ready."""
    picture = f"""
        node  n1 cpu=10 label=zone=a   {other}
        queue q
        job   q/a phase=Pending minresources=cpu:13 select=zone=a -
        job   q/b phase=Pending minresources=cpu:12 select=zone=a -
        """
    assert admitted(picture) == {"b"}
    everyone = set() if "unready" in other else {"a"}
    assert admitted(picture, volcano=True) >= everyone


def test_promises_elsewhere_do_not_count_against_nodes_of_its_own() -> None:
    """Zone b is full of promises, zone a isn't; a group without pods may use both."""
    picture = """
        node  n1 cpu=10 label=zone=a   node n2 cpu=10 label=zone=b
        queue q
        job   q/b  phase=Inqueue minresources=cpu:12 select=zone=b -
        job   q/b2 phase=Pending minresources=cpu:1  select=zone=b -
        job   q/a  phase=Pending minresources=cpu:11 select=zone=a -
        job   q/x  phase=Pending minresources=cpu:2 scheduler=vscheduler
        """
    assert admitted(picture) == {"b", "a"}


def test_all_promises_together_stay_within_all_nodes() -> None:
    """Zone a has room; but the group without pods may go there, too."""
    picture = """
        node  n1 cpu=10 label=zone=a   node n2 cpu=10 label=zone=b
        queue q
        job   q/x  phase=Inqueue minresources=cpu:14 -
        job   q/a  phase=Pending minresources=cpu:11 select=zone=a -
        job   q/a2 phase=Pending minresources=cpu:10 select=zone=a -
        """
    assert admitted(picture) == {"x", "a2"}


def test_pod_slots_are_not_promised() -> None:
    """Volcano's comparisons leave them out."""
    assert admitted("node n1 cpu=1 queue q job q/a phase=Pending minresources=pods:999 -") == {"a"}


def test_cordoned_nodes_are_for_those_who_tolerate_it() -> None:
    """A group without pods is promised nothing there."""
    picture = "node n1 cpu=10 node n2 cpu=10 cordoned queue q job q/a phase=Pending"
    tolerates = "tolerate=node.kubernetes.io/unschedulable -"
    assert admitted(f"{picture} minresources=cpu:13") == set()
    assert admitted(f"{picture} minresources=cpu:13 {tolerates}") == {"a"}


def test_what_an_admitted_group_has_got_is_counted_once() -> None:
    """Six of its eight cpus run: two are promised, and two more can be (Volcano: six too many)."""
    picture = """
        node  n1 cpu=8 memory=64Gi
        queue q
        job   q/a phase=Inqueue minresources=cpu:8 min=8 +n1*6 -*2
        job   q/b phase=Pending minresources=cpu:1 -
        """
    assert admitted(picture) == {"a", "b"}
    assert admitted(picture, volcano=True) == {"a"}
