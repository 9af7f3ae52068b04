"""A small cluster where most jobs wait in vain, and now and then something changes.

Nothing here knows what is kept of waiting jobs: it shows objects to a Mirror, does what cycles
decide, and hands over what they carry.
"""

import copy
import datetime as dt
import random
from collections.abc import Callable
from typing import Any, TypeAlias

from tests import running
from vscheduler.core.config.policy import Policy
from vscheduler.mirror.decode import events
from vscheduler.mirror.decode.events import Kind, Remove
from vscheduler.mirror.state import Mirror, Options
from vscheduler.model.decisions import CycleResult
from vscheduler.model.snapshot import FRESH, Snapshot
from vscheduler.testing import pictures

Document: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[str, str]
"""Kind and name of an object."""

Run: TypeAlias = Callable[[Snapshot, Policy], CycleResult]

AROUND = """
    node n1 cpu=8 memory=8Gi label=zone=a   node n2 cpu=8 memory=8Gi label=zone=a
    node n3 cpu=8 memory=8Gi label=zone=b   node n4 cpu=6 memory=8Gi label=zone=b
    queue q   queue r weight=2   queue s weight=1 capability=cpu:6
    job r/there min=1 cpu=2 memory=1Gi phase=Running n1*3 n2*3 n3*2 n4*1
    job s/here min=2 cpu=2 memory=2Gi phase=Running n3*1 n4*1
"""
RUNNING = ("there", "here")
KINDS = (
    *("cpu=5", "cpu=5 minresources=cpu:5", "cpu=7 memory=1Gi", "cpu=3 memory=7Gi"),
    *("cpu=4 priority=5", "cpu=2 select=zone=b", "cpu=5 label=app=db", "cpu=3 port=80"),
    *("cpu=4 minresources=cpu:4", "cpu=1 memory=9Gi", "cpu=6 tolerate=no", "cpu=0"),
)
"""What pods of waiting jobs are, most of them larger than what any node has free."""

COMING = """
    job q/late min=1 cpu=1 phase=Inqueue -
    job r/later min=2 cpu=2 phase=Pending - -
    job s/latest min=1 cpu=1 memory=1Gi minresources=cpu:1 phase=Pending -
    job q/mixed min=2 cpu=5 phase=Inqueue - -@4
    job q/apart min=1 cpu=5 phase=Inqueue label=app=db apart=app=db@kubernetes.io/hostname -
    job q/other min=1 cpu=4 phase=Inqueue scheduler=other nominated=n1 -
    job q/gone min=1 cpu=3 phase=Running scheduler=other -
"""
SECONDS = (0.0, 1.0, 1.0, 30.0, 400.0)
"""From one cycle to the next; a promise ends after ten minutes."""


def picture(chance: random.Random) -> str:
    """The nodes and the jobs that are there from the beginning, or come later."""
    lines = [AROUND, COMING]
    for number, kind in enumerate(KINDS):
        for queue in chance.sample("qrs", chance.randint(1, 2)):
            size = chance.choice((1, 1, 2, 3))
            for twin in range(chance.randint(1, 3)):
                phase = chance.choice(("Inqueue", "Inqueue", "Pending"))
                job = f"{queue}/w{number}{queue}{twin} min={size} {kind} phase={phase}"
                lines.append(f"job {job}{' -' * size}")
    return "\n".join(lines)


class WaitingWorld:
    """The objects of one cluster, and everything that may become of them."""

    def __init__(self, seed: int, tree: Document) -> None:
        self.chance = random.Random(seed)
        self._policies = [running.policy_of(tree), running.policy_of(tree)]
        self._mirror = Mirror(Options(scheduler_names=(pictures.SCHEDULER,)))
        self._carried, self._now = FRESH, pictures.NOW.timestamp()
        self._there: dict[Key, Document] = {}
        self._absent: dict[Key, Document] = {}
        """What may still come, or come back."""
        later = {name for name in COMING.split() if "/" in name and "=" not in name}
        names = {name.partition("/")[2] for name in later}
        for document in pictures.documents(picture(self.chance)):
            if document["metadata"]["name"].partition("-")[0] in names:
                self._absent[key_of(document)] = document
            else:
                self._show(document)

    def live(self, run: Run, cycles: int) -> None:
        """So many cycles, with changes before some of them."""
        for _ in range(cycles):
            for _ in range(self.chance.choice((0, 0, 1, 1, 1, 2))):
                self.chance.choice(CHANGES)(self)
            self._now += self.chance.choice(SECONDS)
            result = run(self._mirror.snapshot(self._now, self._carried), self._policies[0])
            self._carried = result.carried
            self._obey(result)

    def _obey(self, result: CycleResult) -> None:
        """Bound pods run, evicted ones are gone, and mostly the status of groups is stored."""
        for bind in result.binds:
            pod = copy.deepcopy(self._there["Pod", bind.task.name])
            pod["spec"]["nodeName"] = bind.node
            self._show({**pod, "status": {"phase": self.chance.choice(("Running", "Pending"))}})
        for evict in result.evicts:
            self._drop(("Pod", evict.task.name))
        for status in result.groups if self.chance.random() < 0.7 else ():
            group = self._there["PodGroup", status.job.partition("/")[2]]
            if group["status"]["phase"] != str(status.phase):
                self._show({**group, "status": {"phase": str(status.phase)}})

    def _show(self, document: Document) -> None:
        kind = events.kind_of(document)
        assert kind is not None
        self._there[key_of(document)] = document
        self._absent.pop(key_of(document), None)
        self._mirror.apply(events.convert(kind, document))

    def _drop(self, key: Key) -> None:
        """The object is gone; it may come back as one that waits."""
        document = self._there.pop(key)
        kind, metadata = events.kind_of(document), document["metadata"]
        assert kind is not None
        self._mirror.apply(
            Remove(
                kind=kind,
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                uid=metadata.get("uid", ""),
            )
        )
        again = copy.deepcopy(document)
        if kind is Kind.POD:
            again["metadata"]["uid"] += "x"
            again["spec"].pop("nodeName", None)
            again["status"] = {"phase": "Pending"}
        self._absent[key] = again

    def _some(self, kind: str) -> list[Key]:
        return sorted(key for key in self._there if key[0] == kind)

    def _any(self, kind: str) -> Document:
        return copy.deepcopy(self._there[self.chance.choice(self._some(kind))])

    def end_pod(self) -> None:
        """A pod that runs has ended, or is being deleted."""
        on_nodes = [each for each in self._some("Pod") if self._there[each]["spec"].get("nodeName")]
        if on_nodes:
            pod = copy.deepcopy(self._there[self.chance.choice(on_nodes)])
            if self.chance.random() < 0.3:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:00Z"
            else:
                pod["status"] = {"phase": self.chance.choice(("Succeeded", "Failed", "Running"))}
            self._show(pod)

    def leave(self) -> None:
        """Somebody deletes a pod or a group."""
        self._drop(self.chance.choice(self._some(self.chance.choice(("Pod", "PodGroup")))))

    def come(self) -> None:
        """Somebody creates an object, mostly the pods of a group together."""
        if self._absent:
            name = self.chance.choice(sorted(self._absent))[1].partition("-")[0]
            for key in [key for key in self._absent if key[1].partition("-")[0] == name]:
                self._show(self._absent[key])

    def change_node(self) -> None:
        """A node gets larger or smaller, another label, is cordoned, or a taint."""
        node = self._any("Node")
        change = self.chance.randrange(4)
        if change == 0:
            node["status"]["allocatable"] = {
                **node["status"]["allocatable"],
                "cpu": self.chance.choice(("6", "8", "9")),
            }
        elif change == 1:
            node["metadata"]["labels"] = {"zone": self.chance.choice("ab")}
        elif change == 2:
            node["spec"]["unschedulable"] = not node["spec"].get("unschedulable", False)
        else:
            taint = {"key": "no", "value": "", "effect": "NoSchedule"}
            node["spec"]["taints"] = self.chance.choice(([], [taint]))
        self._show(node)

    def change_queue(self) -> None:
        """A queue gets another weight or capability, is closed, or opened again."""
        queue = self._any("Queue")
        change = self.chance.randrange(3)
        if change == 0:
            queue["spec"]["weight"] = self.chance.randint(1, 4)
        elif change == 1:
            capability = self.chance.choice(({}, {"cpu": "4"}, {"cpu": "12"}))
            queue["spec"]["capability"] = capability
        else:
            queue["status"] = {"state": self.chance.choice(("Open", "Open", "Closed"))}
        self._show(queue)

    def change_group(self) -> None:
        """A group needs another number of pods, has another queue, or another priority."""
        group = self._any("PodGroup")
        change = self.chance.randrange(4)
        if change == 0:
            group["spec"]["minMember"] = self.chance.randint(1, 3)
        elif change == 1:
            group["spec"]["queue"] = self.chance.choice("qrs")
        elif change == 2:
            group["spec"]["priorityClassName"] = self.chance.choice(("priority-5", "nothing"))
        else:
            group["spec"]["minResources"] = {"cpu": self.chance.choice(("1", "5", "30"))}
        self._show(group)

    def change_priority(self) -> None:
        """A PriorityClass gets another value."""
        self._show({**self._any("PriorityClass"), "value": self.chance.choice((0, 5, 9))})

    def nominate(self) -> None:
        """Another scheduler nominates a pod to a node, or has given it up."""
        if ("Pod", "other-0") in self._there:
            self._drop(("Pod", "other-0"))
        elif ("Pod", "other-0") in self._absent:
            pod = self._absent["Pod", "other-0"]
            node = self.chance.choice(("n1", "n3"))
            self._show({**pod, "status": {"phase": "Pending", "nominatedNodeName": node}})

    def others_pod(self) -> None:
        """A pod of another scheduler starts on a node, or has ended there."""
        pod = copy.deepcopy(self._there.get(("Pod", "gone-0")) or self._absent["Pod", "gone-0"])
        pod["spec"]["nodeName"] = self.chance.choice(("n1", "n2", "n3"))
        pod["metadata"]["uid"] += "y"
        if ("Pod", "gone-0") in self._there:
            self._drop(("Pod", "gone-0"))
        self._show({**pod, "status": {"phase": self.chance.choice(("Running", "Succeeded"))}})

    def refuse(self) -> None:
        """A kubelet refuses a pod."""
        pods = [each for each in self._some("Pod") if not self._there[each]["spec"].get("nodeName")]
        if pods and self.chance.random() < 0.3:
            pod = copy.deepcopy(self._there[self.chance.choice(pods)])
            pod["spec"]["nodeName"] = self.chance.choice(("n1", "n2"))
            started = dt.datetime.fromtimestamp(self._now, dt.UTC).isoformat()
            status = {"phase": "Failed", "reason": "OutOfcpu", "startTime": started}
            self._show({**pod, "status": status})

    def configure(self) -> None:
        """The same configuration is read again."""
        self._policies.reverse()


def key_of(document: Document) -> Key:
    """Return the kind and the name of an object; all are in one namespace."""
    return document["kind"], document["metadata"]["name"]


CHANGES = (
    *(WaitingWorld.end_pod, WaitingWorld.end_pod, WaitingWorld.end_pod, WaitingWorld.end_pod),
    *(WaitingWorld.leave, WaitingWorld.come, WaitingWorld.come, WaitingWorld.come),
    *(WaitingWorld.change_node, WaitingWorld.change_queue, WaitingWorld.change_group),
    *(WaitingWorld.change_priority, WaitingWorld.others_pod, WaitingWorld.refuse),
    *(WaitingWorld.configure, WaitingWorld.nominate),
)
