"""Racks that somebody describes as HyperNodes and changes, and gangs that must be in one."""

from collections.abc import Sequence

from tests.simulation.actors.base import Object
from tests.simulation.actors.editors import Editor
from tests.simulation.actors.informers import path
from tests.simulation.actors.launchers import Gangs

KIND = "hypernodes"
NOBODY = "nobody"
"""A node that never exists: a HyperNode has a member at least."""
RACKS = 3
KNOWN_SECONDS = 1.0
MISTAKES = 0.1
"""How often a node is described as in two racks."""
GONE_SECONDS = (1.0, 120.0)
HARD = 0.7


def hyper_node(name: str, nodes: Sequence[str]) -> Object:
    """A rack with these nodes."""
    members = [
        {"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in (*nodes, NOBODY)
    ]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": 1, "tierName": "rack", "members": members},
    }


class Racks(Editor):
    """Moves nodes between racks, and takes a rack away for a while."""

    def start(self) -> None:
        """Describe the racks once the nodes are known."""
        super().start()
        self._nodes: dict[str, list[str]] = {}
        self.later(KNOWN_SECONDS, self._describe)

    def _describe(self) -> None:
        nodes = sorted(each["metadata"]["name"] for each in self.around.store.all("nodes"))
        self._nodes = {f"rack-{number}": nodes[number::RACKS] for number in range(RACKS)}
        for name in self._nodes:
            self._create(name)

    def act(self) -> None:
        """Move a node, or delete a rack and describe it again."""
        if not self._nodes:
            return
        name, other = self.chance.sample(sorted(self._nodes), 2)
        if self.chance.random() < 0.3:
            self.attempt(lambda: self.client.delete(path(KIND, name=name)))
            self.clock.after(self.chance.uniform(*GONE_SECONDS), lambda: self._create(name))
            return
        if not self._nodes[name]:
            return
        node = self.chance.choice(self._nodes[name])
        if self.chance.random() > MISTAKES:
            self._nodes[name].remove(node)
        if node not in self._nodes[other]:
            self._nodes[other].append(node)
        for each in (name, other):
            self._write(each)

    def _create(self, name: str) -> None:
        self.insist(lambda: self.client.create(path(KIND), hyper_node(name, self._nodes[name])))

    def _write(self, name: str) -> None:
        spec = hyper_node(name, self._nodes[name])["spec"]
        self.attempt(lambda: self.client.patch(path(KIND, name=name), {"spec": spec}))


class NearGangs(Gangs):
    """Gangs that have to be in one rack, or would like to."""

    style = "near"

    def more_of_group(self) -> Object:
        """Ask for a rack."""
        if self.chance.random() < HARD:
            return {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        return {"networkTopology": {"mode": "soft"}}


RESTLESS = ("racks", "near-gangs")
