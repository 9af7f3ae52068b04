"""Queues count devices by class: capability, shares, reclaim, and claims that pods share."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests import device_labs, running
from tests.device_labs import Lab
from tests.oracle import manifests
from tests.volume_labs import binds, waits
from vscheduler.core import cycle
from vscheduler.core.shares import fair_shares
from vscheduler.core.shares.fair_shares import FairShares
from vscheduler.core.shares.surplus import Surplus
from vscheduler.mirror.wording import sentences
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId
from vscheduler.testing import pictures

Document = dict[str, Any]

GPU = "deviceclass.resource.k8s.io/gpu"
CLASS = device_labs.device_class()
FOUR = [device_labs.resource_slice(node, 4) for node in ("n1", "n2")]
PLUGINS = ("drf predicates proportion", "predicates capacity", "predicates proportion fairshare")
NODES = """
    node  n1 cpu=16
    node  n2 cpu=16
"""


def lab(
    picture: str,
    uses: Mapping[str, Sequence[str]],
    *others: Document,
    plugins: str = PLUGINS[0],
    actions: str = "enqueue, allocate, backfill",
    **queues: Mapping[str, Any],
) -> Lab:
    """A cluster with eight devices; each claim that pods use is of one, unless it is given."""
    given = {each["metadata"]["name"] for each in others}
    names = sorted({name for use in uses.values() for name in use} - given)
    tree = {"actions": actions, "tiers": running.tiers(f"priority gang | {plugins}")}
    made = [device_labs.claim(name) for name in names]
    found = Lab(NODES + picture, CLASS, *FOUR, *made, *others, uses=uses, tree=tree)
    for name, spec in queues.items():
        queue = found.get("Queue", name)
        queue["spec"] |= spec
        found.put(queue)
    return found


def own(*pods: str) -> dict[str, list[str]]:
    """A claim for each pod, called like it."""
    return {pod: [pod] for pod in pods}


def run(found: Lab, cycles: int = 4) -> list[CycleResult]:
    """Several cycles."""
    return [found.cycle() for _ in range(cycles)]


def started(results: Sequence[CycleResult]) -> set[str]:
    """The pods that were bound."""
    return {name for result in results for name in binds(result)}


def figures(result: CycleResult, queue: str = "q") -> tuple[float, float]:
    """How many devices a queue has, and asks for with those."""
    found = next(each for each in result.queues if each.name == queue)
    return found.allocated.get(GPU, 0), found.request.get(GPU, 0)


def reason(result: CycleResult, job: str) -> str:
    """Why a job waits."""
    found = {str(group.job): group.reason for group in result.groups}[f"{pictures.NAMESPACE}/{job}"]
    assert found is not None
    return sentences.sentence(found)


@pytest.mark.parametrize("plugins", PLUGINS[:2])
def test_a_queue_gets_no_more_devices_than_it_may_have(plugins: str) -> None:
    """Eight are free, and the second job waits."""
    found = lab(
        """
        queue q
        job   q/a min=2 cpu=1 - -
        job   q/b min=1 cpu=1 -
        """,
        own("a-0", "a-1", "b-0"),
        plugins=plugins,
        q={"capability": {GPU: "2"}},
    )
    results = run(found)
    assert started(results) == {"a-0", "a-1"}
    assert [figures(result) for result in results] == [(0, 3), (2, 3), (2, 3), (2, 3)]
    assert f"queue q has 2 {GPU} of the 2 it may have; this pod needs 1" in reason(results[-1], "b")


def test_a_gang_beyond_the_capability_gets_nothing() -> None:
    """Not even a part of its claims."""
    found = lab(
        "queue q\njob q/a min=3 cpu=1 - - -",
        own("a-0", "a-1", "a-2"),
        q={"capability": {GPU: "2"}},
    )
    results = run(found)
    assert started(results) == set()
    assert found.allocated() == {}
    assert f"queue q has 0 {GPU} of the 2 it may have" in reason(results[-1], "a")


def test_unequal_pods_are_searched_within_the_capability() -> None:
    """The search for a gang that needs some of its pods leaves out those with many devices."""
    found = lab(
        "queue q\njob q/a min=3 cpu=1 - - - -",
        own("a-0", "a-1", "a-2", "a-3"),
        device_labs.claim("a-0", 2),
        q={"capability": {GPU: "3"}},
    )
    assert started(run(found)) == {"a-1", "a-2", "a-3"}


def test_devices_are_shared_by_weight_and_reclaimed() -> None:
    """Although each node has room for many more pods: the other queue deserves half of them."""
    greedy = own(*(f"greedy-{number}" for number in range(8)))
    needy = own("needy-0", "needy-1")
    found = lab(
        """
        node  n3 cpu=4
        queue q
        queue p
        job   q/greedy min=1 cpu=1 - - - - - - - -
        job   q/plain min=1 cpu=1 - -
        job   p/needy min=2 cpu=1 - -
        """,
        greedy | needy,
        actions="enqueue, allocate, reclaim",
    )
    waiting = [found.get("Pod", name) for name in needy]
    found.delete("Pod", *needy)
    assert len(started(run(found))) == 10
    for pod in waiting:
        found.put(pod)
    result = found.cycle()
    assert len({evict.task.name for evict in result.evicts} & set(greedy)) == 2
    assert set(waits(result)) == set(needy)
    deserved = {
        queue.name: queue.entitlement.deserved[GPU] for queue in result.queues if queue.entitlement
    }
    assert deserved == {"q": 6.0, "p": 2.0}


@pytest.mark.parametrize(("phase", "total"), [("", 8), ("Running", 6), ("Succeeded", 8)])
def test_devices_of_other_schedulers_are_not_shared_out(phase: str, total: int) -> None:
    """As long as their pods live: a claim whose pods are gone is free in a moment."""
    theirs = device_labs.claim("theirs", 2)
    device = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n1"}
    theirs["status"] = {
        "allocation": {"devices": {"results": [{**device, "device": f"gpu-{n}"} for n in (0, 1)]}},
        "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}],
    }
    found = lab("queue q\njob q/a min=1 cpu=1 -", own("a-0"), theirs)
    pod = manifests.pod("x", pictures.NAMESPACE)
    pod["metadata"]["uid"] = "x"
    pod["spec"] |= {"schedulerName": "default-scheduler", "nodeName": "n1"}
    pod["status"] = {"phase": phase}
    if phase:
        found.put(pod)
    assert found.cycle().total[GPU] == total


def test_a_claim_that_pods_share_counts_once() -> None:
    """For the first pod, before and after it is allocated, and for the next one once that ends."""
    found = lab(
        "queue q\njob q/a min=3 cpu=1 - - -",
        {f"a-{number}": ["shared"] for number in range(3)},
        q={"capability": {GPU: "1"}},
    )
    results = run(found)
    assert started(results) == {"a-0", "a-1", "a-2"}
    assert figures(results[0]) == (0, 1)
    assert figures(results[-1]) == (1, 1)
    found.delete("Pod", "a-0")
    assert figures(found.cycle()) == (1, 1)
    found.delete("Pod", "a-1", "a-2")
    assert figures(found.cycle()) == (0, 0)


def test_a_shared_claim_counts_for_a_pod_that_runs() -> None:
    """Not for the first one that it is reserved for, as long as that one waits."""
    found = lab("queue q\njob q/a min=1 cpu=1 - n1", {"a-0": ["shared"], "a-1": ["shared"]})
    found.cycle()
    claim = found.get("ResourceClaim", "shared")
    assert [each["name"] for each in claim["status"]["reservedFor"]] == ["a-0"]
    user = {"resource": "pods", "name": "a-1", "uid": found.get("Pod", "a-1")["metadata"]["uid"]}
    claim["status"]["reservedFor"].append(user)
    found.put(claim)
    pod = found.get("Pod", "a-0")
    pod["spec"]["nodeSelector"] = {"zone": "elsewhere"}
    found.put(pod)
    assert figures(found.cycle()) == (1, 1)


@pytest.mark.parametrize("plugins", PLUGINS[:2])
def test_no_pod_starts_past_the_one_that_a_shared_claim_counts_for(plugins: str) -> None:
    """The claim counts for one pod of the job, and the queue may have none of its devices."""
    found = lab(
        "queue q\njob q/a min=1 cpu=1 - -",
        {f"a-{number}": ["shared"] for number in range(2)},
        plugins=plugins,
        q={"capability": {GPU: "0"}},
    )
    results = run(found)
    assert started(results) == set()
    assert found.allocated() == {}


@pytest.mark.parametrize(("least", "got"), [(1, "aaabbbcc"), (4, "aaaabbbb")])
def test_devices_that_no_queue_can_use_within_its_share_are_lent(least: int, got: str) -> None:
    """Each queue deserves two and two thirds of eight devices, for pods that request nothing else.
    Pods borrow one by one, where the least of a share is used, and gangs as a whole.
    """
    names = [f"{job}-{number}" for job in "abc" for number in range(4)]
    found = lab(
        f"""
        queue q queue p queue r
        job q/a min={least} cpu=1 age=3 -*4
        job p/b min={least} cpu=1 age=2 -*4
        job r/c min={least} cpu=1 age=1 -*4
        """,
        own(*names),
    )
    for name in names:
        pod = found.get("Pod", name)
        pod["spec"]["containers"] = [{"name": "main"}]
        found.put(pod)
    assert "".join(sorted(name[0] for name in started(run(found, 12)))) == got


def test_devices_of_pods_that_request_nothing_else_are_reclaimed() -> None:
    """By a queue that ends within its share."""
    names = [f"{job}-{number}" for job in "ab" for number in range(8)]
    found = lab(
        """
        queue q queue p weight=3
        job q/a min=1 -*8
        """,
        own(*names),
        actions="enqueue, allocate, backfill, reclaim",
    )
    assert len(started(run(found, 12))) == 8
    for document in pictures.documents("queue p weight=3 job p/b min=1 cpu=1 -*3"):
        device_labs.use(document, own(*names))
        found.put(document)
    assert len(found.cycle().evicts) == 3


UNUSABLE: tuple[Document, ...] = (
    {"nodeSelector": {"zone": "elsewhere"}},
    {"containers": [{"name": "main", "resources": {"requests": {"cpu": "17"}}}]},
    {"nodeSelector": {"kubernetes.io/hostname": "n3"}},
)
"""What no node has: a label, so much CPU, or so much beside devices."""


@pytest.mark.parametrize("spec", UNUSABLE)
def test_a_shared_claim_counts_for_a_pod_that_a_node_is_there_for(spec: Document) -> None:
    """The first pod of the job can't start anywhere, and the others don't wait for it."""
    found = lab(
        "node n3 cpu=16 label=kubernetes.io/hostname=n3\nqueue q\njob q/a min=1 cpu=1 - - -",
        {f"a-{number}": ["shared"] for number in range(3)},
        q={"capability": {GPU: "1"}},
    )
    pod = found.get("Pod", "a-0")
    pod["spec"] |= spec
    found.put(pod)
    results = run(found)
    assert [figures(each) for each in results] == [(0, 1), *[(1, 1)] * 3]
    assert started(results) == {"a-1", "a-2"}


def test_a_shared_claim_counts_for_the_first_pod_again_once_a_node_is_there() -> None:
    """As long as it has no devices."""
    found = lab(
        "queue q\njob q/a min=1 cpu=1 - -",
        {f"a-{number}": ["shared"] for number in range(2)},
        q={"capability": {GPU: "0"}},
    )
    pod = found.get("Pod", "a-0")
    pod["spec"]["nodeSelector"] = {"zone": "elsewhere"}
    found.put(pod)
    assert charged(found) == {"a-1": {GPU: 1}}
    node = found.get("Node", "n1")
    node["metadata"]["labels"]["zone"] = "elsewhere"
    found.put(node)
    assert charged(found) == {"a-0": {GPU: 1}}


def charged(found: Lab) -> dict[str, dict[str, int]]:
    """What counts for each pod in the next cycle."""
    opened = cycle.open_session(found.mirror().snapshot(found.now, found.carried), found.policy)
    return {
        task.name: dict(task.pod_class.devices)
        for job in opened.snapshot.jobs
        for task in job.tasks
        if task.pod_class.devices
    }


def test_queues_that_share_a_claim_pay_for_it_once_it_is_allocated() -> None:
    """Each job has a pod for which it counts; then, only the first one that it is reserved for."""
    found = lab(
        """
        queue q
        queue p
        job   q/a min=1 cpu=1 -
        job   p/b min=1 cpu=1 -
        """,
        {"a-0": ["shared"], "b-0": ["shared"]},
        p={"capability": {GPU: "0"}},
    )
    results = run(found)
    assert figures(results[0], "p") == (0, 1)
    assert started(results) == {"a-0", "b-0"}
    assert (figures(results[-1], "q"), figures(results[-1], "p")) == ((1, 1), (0, 0))


def test_the_first_alternative_counts_until_devices_are_allocated() -> None:
    """Then those that the claim has got; an administrator's access doesn't count."""
    claim = device_labs.claim("a-0")
    large = {"cel": {"expression": "false"}}
    request = {"deviceClassName": device_labs.CLASS}
    claim["spec"]["devices"]["requests"] = [
        {
            "name": "gpus",
            "firstAvailable": [
                {"name": "many", **request, "count": 3, "selectors": [large]},
                {"name": "few", **request, "count": 2},
            ],
        },
        {"name": "look", "exactly": {**request, "adminAccess": True}},
    ]
    found = lab("queue q\njob q/a min=1 cpu=1 -", own("a-0"), claim)
    results = run(found)
    assert figures(results[0]) == (0, 3)
    assert figures(results[-1]) == (2, 2)


def test_the_figures_survive_a_restart() -> None:
    """What runs counts, although nobody waits for devices."""
    found = lab("queue q\njob q/a min=2 cpu=1 - -", own("a-0", "a-1"))
    run(found)
    found.restart()
    result = found.cycle()
    assert figures(result) == (2, 2)
    assert result.total[GPU] == 8


def test_devices_that_are_gone_are_their_queues() -> None:
    """A driver takes the devices of a running pod away; it still has them, and nobody else does."""
    found = lab("queue q\njob q/a min=2 cpu=1 - -", own("a-0", "a-1"))
    run(found)
    for node in ("n1", "n2"):
        found.delete("ResourceSlice", f"slice-{node}")
    result = found.cycle()
    assert figures(result) == (2, 2)
    assert result.total[GPU] == 2


def test_a_job_with_more_devices_comes_later() -> None:
    """Plugin drf compares the largest shares of jobs, and devices are the largest here."""
    found = lab(
        """
        queue q
        job   q/a min=1 cpu=1 - - -
        job   q/b min=1 cpu=2 - -
        """,
        own("a-0", "a-1", "a-2", "b-1"),
        device_labs.claim("a-0", 4),
        device_labs.claim("a-1", 3),
    )
    young = [found.get("Pod", name) for name in ("a-2", "b-1")]
    found.delete("Pod", "a-2", "b-1")
    assert started(run(found)) == {"a-0", "a-1", "b-0"}
    for pod in young:
        found.put(pod)
    assert set(waits(found.cycle())) == {"b-1"}


def test_the_pod_that_a_shared_claim_counts_for_is_placed_first() -> None:
    """By the search for a gang, too, which begins with the largest pods."""
    found = Lab(
        """
        node  n1 cpu=4
        node  n2 cpu=7
        queue q
        job   q/a min=3 cpu=1 - - -
        """,
        *(CLASS, *FOUR, device_labs.claim("shared")),
        uses={f"a-{number}": ["shared"] for number in range(3)},
        tree={"actions": "allocate", "tiers": running.tiers("priority gang | predicates")},
    )
    for name in ("a-1", "a-2"):
        pod = found.get("Pod", name)
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
        found.put(pod)
    assert set(waits(found.cycle()).values()) == {"n2"}


def test_min_resources_may_name_devices() -> None:
    """A group that asks for more devices than there are isn't admitted; others are."""
    found = lab(
        """
        queue q
        job   q/a min=1 cpu=1 -
        job   q/b min=1 cpu=1 -
        """,
        own("a-0", "b-0"),
        plugins="drf predicates proportion overcommit",
    )
    for name, count in (("a", "9"), ("b", "8")):
        group = found.get("PodGroup", name)
        group["spec"]["minResources"] = {GPU: count}
        group["status"] = {"phase": "Pending"}
        found.put(group)
    assert started(run(found)) == {"b-0"}


def test_surplus_counts_devices_of_pods_that_run_and_that_leave() -> None:
    """A queue has four devices on the only node that the other one can use, though its share would
    be as good elsewhere. With a pod that leaves, it has one less there.
    """
    greedy = own(*(f"greedy-{number}" for number in range(4)))
    needy = own(*(f"needy-{number}" for number in range(4)))
    found = lab(
        """
        node  n3 cpu=4 label=zone=a
        queue q
        queue p
        job   q/greedy min=1 cpu=1 - - - -
        job   p/needy min=4 cpu=1 - - - -
        """,
        greedy | needy,
        device_labs.resource_slice("n3", 4),
    )
    for name in needy:
        pod = found.get("Pod", name)
        pod["spec"]["nodeSelector"] = {"zone": "a"}
        found.put(pod)
    for name in greedy:
        pod = found.get("Pod", name)
        pod["spec"]["nodeName"] = "n3"
        pod["status"]["phase"] = "Running"
        found.put(pod)
        claim = found.get("ResourceClaim", name)
        result = {"request": "gpus", "driver": device_labs.DRIVER, "pool": "n3"}
        results = [{**result, "device": f"gpu-{name[-1]}"}]
        consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        claim["status"] = {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [consumer],
        }
        found.put(claim)
    opened = cycle.open_session(found.mirror().snapshot(found.now), found.policy)
    limits = fair_shares.limits(opened.space, opened.queues, {})
    shares = FairShares(opened.space, opened.pools, limits, [1] * len(limits.names))
    surpluses = Surplus(opened, opened.pools, shares)
    tasks = opened.job_states[JobId("default/greedy")].job.tasks
    column = opened.space.columns[GPU]

    def most() -> float:
        answer = surpluses.surplus(tasks[1])
        assert answer is not None
        return float(answer[1][column])

    assert most() == 4.0
    surpluses.move(tasks[0], -1)
    assert most() == 3.0


def test_jobs_with_few_devices_come_before_those_with_many() -> None:
    """A pod with a device adds an eighth of all to its job's share, two cpu of 32 a sixteenth."""
    found = lab(
        "queue q\njob q/a min=1 cpu=1 n1 - -\njob q/b min=1 cpu=2 n1 -",
        own("a-1", "a-2"),
        q={"capability": {"cpu": "6"}},
    )
    assert started(run(found)) == {"a-1", "b-1"}


@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 2, 3)])
def test_what_a_gang_needs_includes_the_claim_that_its_pods_share(sizes: tuple[int, ...]) -> None:
    """Whichever of them start; it counts for the first, and all of them need it once."""
    names = [f"a-{number}" for number in range(3)]
    found = lab(
        "queue q\njob q/a min=2 cpu=1 - - -",
        {name: [name, "shared"] for name in names},
        *(device_labs.claim(name, size) for name, size in zip(names, sizes, strict=True)),
        device_labs.claim("shared", 2),
        q={"capability": {GPU: "3"}},
    )
    (reason,) = [group.reason for group in run(found)[-1].groups]
    assert reason is not None
    assert [each.requested for each in reason.shortages] == [sum(sizes[:2]) + 2]
    assert not reason.refusals
