import pytest

from tests.scenarios.deciding import bind, decide

NODES = """
    node  n1 cpu=4 taint=dedicated=lab:NoSchedule
    node  n2 cpu=4 cordoned
    node  n3 cpu=4 unready
    node  n4 cpu=4 label=zone=a label=disk=ssd
    node  n5 cpu=4 label=zone=b
    queue q
    """

WHERE = {
    "nothing asked: the first ordinary node": ("", "n4"),
    "a label": ("select=zone=b", "n5"),
    "two labels, both wanted": ("select=zone=a select=disk=ssd", "n4"),
    "two labels that no node has together": ("select=zone=b select=disk=ssd", None),
    "a label that no node has": ("select=zone=c", None),
    "a toleration opens the tainted node": ("tolerate=dedicated=lab:NoSchedule", "n1"),
    "a toleration of any value": ("tolerate=dedicated", "n1"),
    "a toleration of another value": ("tolerate=dedicated=shop", "n4"),
    "a toleration of another effect": ("tolerate=dedicated:NoExecute", "n4"),
    "a toleration of cordons": ("tolerate=node.kubernetes.io/unschedulable", "n2"),
}


@pytest.mark.parametrize(("settings", "node"), WHERE.values(), ids=WHERE)
def test_a_pod_goes_where_its_conditions_let_it(settings: str, node: str | None) -> None:
    """Selectors, taints, cordons and nodes that aren't ready."""
    expected = [] if node is None else [bind("p-0", node)]
    assert decide(f"{NODES} job q/p {settings} -", "allocate", "gang | predicates") == expected


def test_without_the_plugin_only_room_counts() -> None:
    """Amounts are looked at whatever is configured; a node that isn't ready is never used."""
    picture = f"{NODES} job q/p cpu=3 select=zone=b -*3"
    expected = [bind("p-0", "n1"), bind("p-1", "n2"), bind("p-2", "n4")]
    assert decide(picture, "allocate", "gang") == expected


def test_a_port_is_used_once_per_node() -> None:
    """Ports of pods placed in this cycle count like those of running ones."""
    picture = """
        node  n1 cpu=4   node n2 cpu=4   node n3 cpu=4
        queue q
        job   q/old port=80 n2
        job   q/web port=80 -*3
        """
    expected = [bind("web-0", "n1"), bind("web-1", "n3")]
    assert decide(picture, "allocate", "gang | predicates") == expected


def test_ports_of_a_gang_that_failed_are_free_again() -> None:
    """A rollback gives ports back as well."""
    picture = """
        node  n1 cpu=4
        queue q
        job   q/gang port=80 min=2 -*2
        job   q/solo port=80       -
        """
    assert decide(picture, "allocate", "gang | predicates") == [bind("solo-0", "n1")]


def test_a_node_takes_as_many_pods_as_it_says() -> None:
    """The pod count is a resource like any other."""
    picture = """
        node  n1 cpu=8 pods=2   node n2 cpu=8 pods=1
        queue q
        job   q/p n1 -*3
        """
    expected = [bind("p-1", "n1"), bind("p-2", "n2")]
    assert decide(picture, "allocate", "gang | predicates") == expected
