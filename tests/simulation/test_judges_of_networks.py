"""The judge of the network flags a gang across racks, and lets pass what is in one."""

from tests.simulation.actors import networks
from tests.simulation.made_histories import History, Object, group, meta, node, started

ACROSS = "no hard gang across racks"


def rack(name: str, *nodes: str) -> Object:
    """A HyperNode."""
    return {**networks.hyper_node(name, nodes), "metadata": meta(name)}


def in_racks(mode: str = "hard") -> History:
    """Racks of two nodes, and a gang of two pods that wait."""
    history = started(2, 2)
    for number in (2, 3, 4):
        history.put("nodes", node(f"n{number}"))
    history.put("hypernodes", rack("a", "n1", "n2"))
    history.put("hypernodes", rack("b", "n3", "n4"))
    found = group(2)
    found["spec"]["networkTopology"] = {"mode": mode, "highestTierAllowed": 1}
    history.put("podgroups", found)
    history.later(20)
    history.leads("a")
    return history


def broken(history: History) -> bool:
    """Whether a gang is across racks."""
    return ACROSS in history.broken()


def test_a_hard_gang_is_in_one_rack() -> None:
    """A soft one needn't be."""
    for mode, other, wrong in (("hard", "n2", False), ("hard", "n3", True), ("soft", "n3", False)):
        history = in_racks(mode)
        history.bind("p0", "n1")
        history.bind("p1", other)
        assert broken(history) is wrong


def test_racks_count_as_they_were_known_at_the_decision() -> None:
    """Not a node in two of them; a change that is older than the news is known."""
    for seconds, wrong in ((0, False), (20, True)):
        history = in_racks()
        history.put("hypernodes", rack("a", "n1"))
        history.later(seconds)
        history.leads("a")
        history.bind("p0", "n1")
        history.bind("p1", "n2")
        assert broken(history) is wrong
    history = in_racks()
    history.put("hypernodes", rack("b", "n2", "n3"))
    history.later(20)
    history.leads("a")
    history.bind("p0", "n1")
    history.bind("p1", "n2")
    assert broken(history)


def test_other_decisions_and_lost_nodes_do_not_count() -> None:
    """A pod follows those that run, wherever racks are by now."""
    history = in_racks()
    history.bind("p0", "n1")
    history.later(11)
    history.leads("a")
    history.bind("p1", "n3")
    assert not broken(history)
    history = in_racks()
    history.bind("p0", "n1")
    history.drop("nodes", "n1")
    history.bind("p1", "n3")
    assert not broken(history)
