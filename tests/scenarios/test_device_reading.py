"""Claims with more selectors than a cycle has time for: they are read in several cycles. And
claims whose devices would be searched for without end.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from tests import device_labs, running
from tests.device_labs import Lab
from vscheduler.core import cycle
from vscheduler.core.claims.devices import choices
from vscheduler.mirror.decode import events
from vscheduler.mirror.state import Mirror, Options
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH
from vscheduler.testing import pictures

Document = dict[str, Any]

BUDGET = 20_000
MINE = "odd-0"
THEIRS = "train-0"
WORLD = """
    node  n1 cpu=4
    node  n2 cpu=4
    queue mine
    queue yours
    job   mine/odd min=1 cpu=1     -
    job   yours/train min=1 cpu=1  -
"""


def claim(name: str, texts: Iterable[str], *, requests: int = 1) -> Document:
    """A claim with a selector for each of the texts, in each of its requests."""
    one = device_labs.claim(name)
    one["spec"]["devices"]["requests"] = [
        {
            "name": f"r{number}",
            "exactly": {
                "deviceClassName": device_labs.CLASS,
                "selectors": [
                    {
                        "cel": {
                            "expression": f'device.attributes["{device_labs.DRIVER}"].id'
                            f' != "{number}-{text}"'
                        }
                    }
                    for text in texts
                ],
            },
        }
        for number in range(requests)
    ]
    return one


COSTLY = claim("odd", map(str, range(32)), requests=2)
"""Each of its selectors is evaluated for each of the devices, of which no two are alike: this takes
many times as long as a namespace has in a cycle."""


def unlike_devices(node: str) -> Document:
    """The devices of a node, each with a value of its own."""
    found = device_labs.resource_slice(node, 16)
    for device in found["spec"]["devices"]:
        device["attributes"] = {"id": {"string": f"{node}/{device['name']}"}}
    return found


class Cluster:
    """Two tenants: the first one, in a namespace of its own, has a costly claim."""

    def __init__(
        self,
        world: str = WORLD,
        *,
        theirs: Document | None = None,
        tree: Mapping[str, Any] = device_labs.TREE,
    ) -> None:
        self.policy = running.policy_of(tree)
        self.mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
        self.now, self.carried = pictures.NOW.timestamp(), FRESH
        uses = {MINE: ["odd"]} | ({} if theirs is None else {THEIRS: ["cheap"]})
        self.put(
            *(device_labs.device_class(), unlike_devices("n1"), unlike_devices("n2")),
            *([COSTLY] if theirs is None else [COSTLY, theirs]),
            *pictures.documents(world),
            uses=uses,
        )

    def put(self, *documents: Document, uses: Mapping[str, list[str]] = {}) -> None:
        """Store objects; those called odd are the first tenant's."""
        for document in copy.deepcopy(documents):
            device_labs.use(document, uses)
            metadata = document["metadata"]
            if metadata["name"].startswith("odd"):
                metadata["namespace"] = "mine"
            kind = events.kind_of(document)
            assert kind is not None
            self.mirror.apply(events.convert(kind, document))
        assert not self.mirror.rejections

    def cycle(self) -> CycleResult:
        """One cycle, when the last one asked for it."""
        taken = self.mirror.snapshot(self.now, self.carried)
        result = cycle.run_cycle(taken, self.policy, BUDGET)
        assert result.faults == ()
        for bind in result.binds:
            assert self.mirror.assume(bind.task.uid, bind.node, self.now)
        self.carried = result.carried
        self.now = result.wake_at or self.now
        return result

    def read(self) -> list[CycleResult]:
        """Cycles until none is due any more."""
        results = [self.cycle()]
        while results[-1].wake_at is not None:
            assert len(results) < 500, "it never ends"
            results.append(self.cycle())
        return results


def told(result: CycleResult) -> str:
    """What the first tenant is told."""
    (group,) = [group for group in result.groups if "odd" in str(group.job)]
    return "" if group.reason is None else sentences.sentence(group.reason)


def is_allocated(result: CycleResult, name: str) -> bool:
    """Whether the cycle gives a claim its devices."""
    return any(claim.name == name for found in result.claims for claim in found.requests)


def test_another_tenant_starts_while_a_claim_is_read() -> None:
    """In the same cycle, which costs little more than the part of a namespace; the claim gets its
    devices in the end, and until then the pod is told why it waits.
    """
    results = Cluster().read()
    assert [bind.task.name for bind in results[0].binds if bind.task.name == THEIRS]
    assert len(results) > 2
    assert all(result.spent < BUDGET / 2 and result.finished for result in results)
    assert 'the device selectors of resourceclaim "odd" are still being evaluated' in told(
        results[0]
    )
    assert [is_allocated(result, "odd") for result in results].index(True) == len(results) - 1


def test_the_tenant_of_a_claim_pays_for_its_selectors() -> None:
    """Whoever's turn it is when they are evaluated."""
    result = Cluster().cycle()
    assert result.costs["mine"] > BUDGET / 4
    assert result.spent - result.costs["mine"] < BUDGET / 8


def test_another_tenants_claim_is_read_in_the_same_cycle() -> None:
    """As long as it asks for no more than its part; so is one that selects nothing."""
    cluster = Cluster(theirs=claim("cheap", ["x"]))
    result = cluster.cycle()
    assert is_allocated(result, "cheap")
    assert not is_allocated(result, "odd")


def test_evictions_for_a_job_are_looked_for_once_its_claim_is_read() -> None:
    """Although nothing has changed since cycles in which there were none."""
    full = """
        node  n1 cpu=4
        node  n2 cpu=4
        queue mine
        queue yours
        job   yours/train min=1 cpu=1  n1*4 n2*4
        job   yours/more min=1 cpu=1   -
        job   mine/odd min=1 cpu=1     -
    """
    tree = {
        "actions": "enqueue, allocate, reclaim",
        "tiers": running.tiers("priority gang | drf predicates proportion nodeorder binpack"),
    }
    *before, last = Cluster(full, tree=tree).read()
    assert len(before) > 2
    assert not any(each.evicts for each in before)
    assert [evict.task.job.partition("/")[2] for evict in last.evicts] == ["train"]


def test_a_search_in_vain_on_many_nodes_is_bounded_and_charged() -> None:
    """Eight devices with one value, of which each node has seven, and no two are alike."""
    spent = [searched(nodes) for nodes in (40, 160)]
    assert spent[0] > 3 * choices.EXTRA_MAX
    assert spent[1] < 2 * spent[0]


def searched(nodes: int) -> int:
    """What it costs to look for the devices on so many nodes."""
    world = "\n".join(f"node  n{number} cpu=4" for number in range(nodes))
    one = device_labs.claim("c", 8)
    about = [f"{device_labs.DRIVER}/group", f"{device_labs.DRIVER}/id"]
    one["spec"]["devices"]["constraints"] = [
        {"matchAttribute": about[0]},
        {"matchAttribute": about[1], "requests": ["nothing"]},
    ]
    slices = [unlike_devices(f"n{number}") for number in range(nodes)]
    for each in slices:
        for number, device in enumerate(each["spec"]["devices"]):
            device["attributes"]["group"] = {"int": number // 7}
    lab = Lab(
        f"{world}\nqueue q\njob q/a min=1 cpu=1 -",
        *(device_labs.device_class(), one, *slices),
        uses={"a-0": ["c"]},
    )
    result = lab.cycle()
    assert not result.claims
    return result.spent
