"""Gangs of mixed priorities beside room that is nominated to others, against trying every order."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests import running
from vscheduler.model.gang_proof import GangProof
from vscheduler.testing import pictures

PRIORITIES = (1, 5, 9)
TREE = {"actions": "allocate", "tiers": running.tiers("priority gang | predicates nodeorder")}


@dataclass(frozen=True, slots=True)
class Pod:
    """Cores that a pod asks for, its priority, and the node to which it is nominated, or -1."""

    size: int
    priority: int
    node: int = -1


@dataclass(frozen=True, slots=True)
class World:
    """The cores of each node, a gang, and pods of another scheduler."""

    nodes: Sequence[int]
    gang: Sequence[Pod]
    nominated: Sequence[Pod]

    def picture(self) -> str:
        """The world as a picture."""
        lines = [f"node n{row} cpu={cores}" for row, cores in enumerate(self.nodes)]
        lines.append("queue q")
        for number, pod in enumerate(self.nominated):
            place = f"scheduler=default-scheduler nominated=n{pod.node}"
            lines.append(f"job q/other{number} {place} cpu={pod.size} -^{pod.priority}")
        pods = " ".join(f"-@{pod.size}^{pod.priority}" for pod in self.gang)
        lines.append(f"job q/g min={len(self.gang)} {pods}")
        return "\n".join(lines)

    def takes(self, used: Sequence[int], pod: Pod, row: int) -> bool:
        """Whether the node has room beside pods that are nominated with as much priority."""
        kept = sum(
            each.size
            for each in self.nominated
            if each.node == row and each.priority >= pod.priority
        )
        return used[row] + kept + pod.size <= self.nodes[row]

    def fits(self) -> bool:
        """Whether some order and some nodes let all pods of the gang in."""
        left = [(tuple(self.gang), (0,) * len(self.nodes))]
        seen = set(left)
        while left:
            pods, used = left.pop()
            if not pods:
                return True
            for place, pod in enumerate(pods):
                for row in range(len(self.nodes)):
                    if self.takes(used, pod, row):
                        more = (*used[:row], used[row] + pod.size, *used[row + 1 :])
                        state = ((*pods[:place], *pods[place + 1 :]), more)
                        if state not in seen:
                            seen.add(state)
                            left.append(state)
        return False


def drawn(number: int) -> World:
    """Draw up to three nodes, four pods of the gang, and three nominated pods."""
    chance = random.Random(f"nominated/{number}")
    sizes = chance.sample(range(2, 9), 2)  # so that nodes are equal but for what is nominated
    nodes = [chance.choice(sizes) for _ in range(chance.randint(1, 3))]
    gang = [
        Pod(chance.randint(1, 4), chance.choice(PRIORITIES)) for _ in range(chance.randint(2, 4))
    ]
    nominated = [
        Pod(chance.randint(1, 3), chance.choice(PRIORITIES), chance.randrange(len(nodes)))
        for _ in range(chance.randint(1, 3))
    ]
    return World(nodes, gang, nominated)


@pytest.mark.parametrize(
    "times", [300, pytest.param(5_000, marks=pytest.mark.at_length)], ids=["some", "many"]
)
def test_a_gang_gets_the_room_nominated_to_lesser_pods_and_no_other(times: int) -> None:
    """Whatever fits in some order starts; nothing is called proved, as the room may come free."""
    started = 0
    for number in range(times):
        world = drawn(number)
        result = running.run(pictures.documents(world.picture()), TREE)
        bound = {bind.task.name for bind in result.binds if bind.task.name.startswith("g-")}
        assert len(bound) in (0, len(world.gang))
        assert bool(bound) == world.fits(), world
        started += bool(bound)
        for status in result.groups:
            proof = status.reason and status.reason.proof
            assert not isinstance(proof, GangProof) or not proof.proved, world
    assert times / 4 < started < times * 3 / 4
