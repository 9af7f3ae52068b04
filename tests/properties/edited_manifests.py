"""Remedies as a user carries them out: manifests edited as plain data. Nothing of `explain` is used
but the numbers of its changes.
"""

import copy
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeAlias

from msgspec.structs import replace

from tests import running
from tests.properties.worlds import configurations, generator, manifests
from vscheduler.core.config.policy import Policy
from vscheduler.explain.changes import (
    ActionArgument,
    Change,
    CreateClaims,
    CreatePods,
    CreateQueue,
    DropAnnotation,
    EndOfJob,
    EndOfPatience,
    FewerPods,
    HigherPriority,
    HigherTier,
    HonorTaints,
    LabelNodes,
    LargerNodes,
    MarkPods,
    MayPreempt,
    MoreDisruptions,
    MoreNodes,
    Nothing,
    OpenQueues,
    OtherParent,
    OtherQueue,
    Preemptable,
    QueueAmounts,
    QueueNamespace,
    QueueWeight,
    QuotaAmounts,
    Reclaimable,
    RemoveGates,
    RemoveTaint,
    Restart,
    RunTime,
    SmallerRequest,
    SoftTopology,
    Tolerate,
    Uncordon,
    WithoutNodeAffinity,
    WithoutQueueAnnotation,
    WithoutSelector,
)
from vscheduler.mirror.decode import quantities
from vscheduler.mirror.decode.events import Upsert
from vscheduler.model.decisions import CycleResult
from vscheduler.model.jobs import JobId, Phase
from vscheduler.simulator import run
from vscheduler.simulator.run import Options
from vscheduler.simulator.world import World

Document = manifests.Document
Raised: TypeAlias = QueueAmounts | QuotaAmounts
CYCLES = 5
NAMESPACES = "vscheduler.io/namespaces"
MAX_RUN_TIME = "vscheduler.io/max-run-time"
LIMITS = {"reclaim.wholeGangs": ("never", "proportionate"), "reclaim.minRuntime": ("0s", "1h")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Manifests, some of whose pods run, and a configuration."""

    documents: list[Document]
    configuration: dict[str, Any]

    @property
    def policy(self) -> Policy:
        """The parsed configuration."""
        return running.policy_of(self.configuration)


def cluster(seed: int) -> Cluster:
    """A random cluster after a few cycles with half of its jobs; the others have just come."""
    chance = random.Random(f"explained {seed}")
    name = chance.choice([each for each in configurations.NAMES if "volcano" not in each])
    plan = generator.blueprint(seed, generator.SMALL, tree=configurations.has_tree(name))
    tree = configurations.tree(name)
    if chance.random() < 0.3:
        setting, values = chance.choice(list(LIMITS.items()))
        tree["configurations"] = [
            {"name": "reclaim", "arguments": {setting: chance.choice(values)}}
        ]
    documents = [copy.deepcopy(dict(document)) for document in plan.documents]
    for document in documents:
        if document["kind"] == "Node" and chance.random() < 0.1:
            document["spec"]["unschedulable"] = True
    early = max(1, len(plan.workloads) // 2)
    for number, workload in enumerate(plan.workloads):
        if number == early:
            documents = _settled(documents, tree)
        now = manifests.BEGINNING + number
        group = manifests.pod_group(workload, now)
        if chance.random() < 0.1:
            group["metadata"]["annotations"] = {manifests.PREEMPTABLE: "false"}
        documents.append(group)
        for at, template in enumerate(workload.templates):
            pod = f"{workload.name}-{at}"
            documents.append(manifests.pod(workload, template, pod, f"uid-{pod}", now))
    if chance.random() < 0.5:
        documents = _settled(documents, tree)
    return Cluster(documents=documents, configuration=tree)


def _settled(documents: list[Document], tree: Mapping[str, Any]) -> list[Document]:
    """The manifests after three cycles, without what was evicted."""
    found = run.simulate(documents, running.policy_of(tree), Options(cycles=3))
    binds = {bind.task.key: bind.node for bind in found.binds}
    gone = {evict.task.key for evict in found.evicts}
    kept = []
    for document in documents:
        key, kind, status = _key(document), document["kind"], None
        if kind == "Pod" and key in gone:
            continue
        if kind == "Pod" and key in binds:
            status = {"phase": "Running"}
            document["spec"]["nodeName"] = binds[key]
        if kind == "PodGroup" and JobId(key) in found.states:
            status = {"phase": str(found.states[JobId(key)].phase)}
        kept.append({**document, "status": status} if status else document)
    return kept


def _key(document: Document) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}".removeprefix("/")


def starts(before: Cluster, job: str, change: Change, *, most: int = CYCLES) -> bool:
    """Whether `vscheduler simulate --evicted-return` starts the job on the edited manifests, in so
    many cycles; or admits it, if it has no pods.
    """
    after = edited(before, job, change)
    group = _one(after.documents, "PodGroup", job)
    pods = _pods(after.documents, job)
    placed = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
    for result in _cycles(after, most):
        if not pods and _is_admitted(result, job):
            return True
        placed += sum(bind.task.job == job for bind in result.binds)
        if placed >= max(1, group["spec"]["minMember"]):
            return True
        placed -= sum(evict.task.job == job for evict in result.evicts)
    return False


def _is_admitted(result: CycleResult, job: str) -> bool:
    return any(group.job == job and group.phase is Phase.INQUEUE for group in result.groups)


def _cycles(after: Cluster, most: int) -> Iterator[CycleResult]:
    """The simulator's cycles, until the next ones can't be other than the last one.

    A cycle is a function of its snapshot. So nothing will be decided any more after a cycle that
    decides nothing, carries over what the one before did, and writes the same phases, while no pod
    starts or leaves and no time is due.
    """
    given = run.read(after.documents, after.policy, Options())
    objects = [event for event in given.events if isinstance(event, Upsert)]
    simulated = World(objects, pods_return=True)
    before: object = None
    moving = simulated.moving
    end = given.now + most * run.CYCLE_SECONDS
    for result, states in run.cycles(
        given.mirror, simulated, after.policy, Options(cycles=most), given.now
    ):
        yield result
        moved, moving = moving, simulated.moving
        moves = moved or moving or result.binds or result.evicts or result.claims
        due = result.wake_at is not None and result.wake_at <= end
        after_it = result.carried, {name: each.phase for name, each in states.items()}
        if not moves and not due and before == after_it:
            return
        before = after_it


def edited(before: Cluster, job: str, change: Change) -> Cluster:
    """The cluster after a user has carried out the change."""
    after = Edited(copy.deepcopy(before.documents), copy.deepcopy(before.configuration), job)
    getattr(after, f"change_{type(change).__name__.lower()}")(change)
    return Cluster(documents=after.documents, configuration=after.configuration)


class Edited:
    """A cluster under the hands of a user; a method for each kind of change."""

    def __init__(self, documents: list[Document], tree: dict[str, Any], job: str) -> None:
        self.documents = documents
        self.configuration = tree
        self._job = job
        pods = _pods(documents, job)
        self._waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]

    def _one(self, kind: str, key: str) -> Document:
        return _one(self.documents, kind, key)

    def change_nothing(self, _: Nothing) -> None:
        """Leave everything as it is."""

    def change_fewerpods(self, change: FewerPods) -> None:
        """Set minMember, and minResources in proportion."""
        spec = self._one("PodGroup", self._job)["spec"]
        part = Fraction(change.after, spec["minMember"])
        spec["minMember"] = change.after
        for name, text in spec.get("minResources", {}).items():
            _set(spec["minResources"], name, math.ceil(quantities.parse(name, text) * part))

    def change_smallerrequest(self, change: SmallerRequest) -> None:
        """Set the requests of the pods, and minResources in proportion."""
        _shrink(self.documents, self._job, self._waiting, change)

    def change_morenodes(self, change: MoreNodes) -> None:
        """Copy a node."""
        like = self._one("Node", change.like)
        for number in range(change.count):
            node = copy.deepcopy(like)
            name = f"{change.like}-more-{number + 1}"
            node["metadata"] |= {"name": name, "uid": name}
            node["metadata"]["labels"][manifests.HOST] = name
            self.documents.append(node)

    def change_queueweight(self, change: QueueWeight) -> None:
        """Set the weight."""
        self._one("Queue", change.queue)["spec"]["weight"] = change.after

    def change_queueamounts(self, change: QueueAmounts) -> None:
        """Set some amounts of the field."""
        amounts = self._one("Queue", change.queue)["spec"].setdefault(str(change.field), {})
        for name, amount in change.after:
            _set(amounts, name, amount)

    def change_endofjob(self, change: EndOfJob) -> None:
        """Delete the PodGroup and its pods."""
        gone = {id(pod) for pod in _pods(self.documents, change.job)}
        gone.add(id(self._one("PodGroup", change.job)))
        self.documents = [document for document in self.documents if id(document) not in gone]

    def change_reclaimable(self, change: Reclaimable) -> None:
        """Set the queue's field."""
        self._one("Queue", change.queue)["spec"]["reclaimable"] = True

    def change_withoutqueueannotation(self, change: WithoutQueueAnnotation) -> None:
        """Remove the queue's annotation."""
        annotations = self._one("Queue", change.queue)["metadata"]["annotations"]
        assert annotations.pop(change.name) == change.before

    def change_preemptable(self, change: Preemptable) -> None:
        """Set the annotation wherever it is."""
        group = self._one("PodGroup", change.job)
        for each in (group, *_pods(self.documents, change.job)):
            if manifests.PREEMPTABLE in each["metadata"].get("annotations", {}):
                each["metadata"]["annotations"][manifests.PREEMPTABLE] = "true"

    def change_actionargument(self, change: ActionArgument) -> None:
        """Set the argument in the configuration."""
        known = self.configuration.get("configurations", [])
        made = [each for each in known if each["name"] == change.action]
        made = made or [{"name": change.action, "arguments": {}}]
        made[0]["arguments"][change.name] = change.after
        others = [each for each in known if each["name"] != change.action]
        self.configuration["configurations"] = [*made, *others]

    def change_moredisruptions(self, change: MoreDisruptions) -> None:
        """Set what the budget's controller would write."""
        budget = self._one("PodDisruptionBudget", change.budget)
        budget["status"]["disruptionsAllowed"] = change.after

    def change_openqueues(self, change: OpenQueues) -> None:
        """Open the queues."""
        for name in change.queues:
            self._one("Queue", name)["status"] = {"state": "Open"}

    def change_createqueue(self, change: CreateQueue) -> None:
        """Create a queue that says nothing."""
        self.documents.append(manifests.queue(change.queue, {}, {}))

    def change_otherqueue(self, change: OtherQueue) -> None:
        """Set spec.queue."""
        self._one("PodGroup", self._job)["spec"]["queue"] = change.after

    def change_otherparent(self, change: OtherParent) -> None:
        """Set spec.parent."""
        self._one("Queue", change.queue)["spec"]["parent"] = change.after

    def change_queuenamespace(self, change: QueueNamespace) -> None:
        """List the namespace."""
        notes = self._one("Queue", change.queue)["metadata"]["annotations"]
        notes[NAMESPACES] += f",{change.namespace}"

    def change_createpods(self, change: CreatePods) -> None:
        """Copy pods; those of a role with the role."""
        copied = {
            document["metadata"]["uid"]: document
            for document in self.documents
            if document["kind"] == "Pod"
        }
        for at, new in enumerate(change.pods):
            for number in range(new.count):
                pod = copy.deepcopy(copied[new.like])
                name = f"created-{at}-{number}"
                pod["metadata"] |= {"name": name, "uid": name}
                pod["metadata"]["labels"] = {**pod["metadata"]["labels"], **dict(new.labels)}
                if new.role:
                    pod["metadata"]["annotations"][manifests.ROLE] = new.role
                pod["spec"].pop("nodeName", None)
                pod["status"] = {"phase": "Pending"}
                self.documents.append(pod)

    def change_markpods(self, change: MarkPods) -> None:
        """Set roles and labels."""
        by_uid = {each["metadata"]["uid"]: each["metadata"] for each in self._waiting}
        for mark in change.marks:
            where = "annotations" if mark.key == manifests.ROLE else "labels"
            by_uid[mark.pod][where][mark.key] = mark.value

    def change_removegates(self, _: RemoveGates) -> None:
        """Remove all scheduling gates."""
        for pod in self._waiting:
            pod["spec"].pop("schedulingGates", None)

    def change_createclaims(self, change: CreateClaims) -> None:
        """Create the claims, and their volumes."""
        for key in change.claims:
            self.documents += bound_claim(*key.split("/"))

    def change_quotaamounts(self, change: QuotaAmounts) -> None:
        """Set some amounts."""
        for name, amount in change.after:
            hard = self._one("ResourceQuota", change.quota)["spec"]["hard"]
            _set(hard, name, amount)

    def change_dropannotation(self, change: DropAnnotation) -> None:
        """Drop the annotation."""
        del self._one("PodGroup", self._job)["metadata"]["annotations"][change.key]

    def change_runtime(self, change: RunTime) -> None:
        """Set the annotation."""
        metadata = self._one("PodGroup", self._job)["metadata"]
        metadata.setdefault("annotations", {})[MAX_RUN_TIME] = f"{change.seconds}s"

    def change_higherpriority(self, change: HigherPriority) -> None:
        """Create a class and name it."""
        self.documents.append(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "higher"},
                "value": change.after,
            }
        )
        self._one("PodGroup", self._job)["spec"]["priorityClassName"] = "higher"

    def change_softtopology(self, _: SoftTopology) -> None:
        """Set the mode."""
        for topology in self._topologies():
            topology["mode"] = "soft"

    def change_highertier(self, change: HigherTier) -> None:
        """Set the tier wherever a lower one stands."""
        for topology in self._topologies():
            if topology.get("highestTierName") in change.below:
                del topology["highestTierName"]
                field = "highestTierName" if change.name else "highestTierAllowed"
                topology[field] = change.name or change.tier
            elif "highestTierAllowed" in topology:
                before = topology["highestTierAllowed"]
                topology["highestTierAllowed"] = max(before, change.tier)

    def change_restart(self, change: Restart) -> None:
        """Take the pods off their nodes."""
        self._one("PodGroup", self._job)["status"] = {"phase": "Pending"}
        name, count = self._job.partition("/")[2], 0
        for pod in self.documents:
            if pod["kind"] != "Pod" or not pod["spec"].get("nodeName"):
                continue
            if pod["metadata"]["annotations"].get(manifests.GROUP) == name:
                del pod["spec"]["nodeName"]
                pod["status"] = {"phase": "Pending"}
                count += 1
        assert count == change.pods

    def _topologies(self) -> list[dict[str, Any]]:
        """The network topologies of the job and its sub-groups."""
        spec = self._one("PodGroup", self._job)["spec"]
        every = [spec, *spec.get("subGroupPolicy", [])]
        return [each["networkTopology"] for each in every if "networkTopology" in each]

    def change_endofpatience(self, _: EndOfPatience) -> None:
        """Drop the annotation."""
        annotations = self._one("PodGroup", self._job)["metadata"]["annotations"]
        del annotations["volcano.sh/network-topology-patience"]

    def change_largernodes(self, change: LargerNodes) -> None:
        """Copy a node, and give the copies more."""
        for number in range(change.count):
            node = copy.deepcopy(self._one("Node", change.like))
            name = f"{change.like}-larger-{number + 1}"
            node["metadata"] |= {"name": name, "uid": name}
            node["metadata"]["labels"][manifests.HOST] = name
            for name, amount in change.allocatable:
                _set(node["status"]["allocatable"], name, amount)
                _set(node["status"]["capacity"], name, amount)
            self.documents.append(node)

    def change_removetaint(self, change: RemoveTaint) -> None:
        """Remove the taint from the nodes."""
        for name in change.nodes:
            spec = self._one("Node", name)["spec"]
            spec["taints"] = [each for each in spec["taints"] if each["key"] != change.taint.key]

    def change_uncordon(self, change: Uncordon) -> None:
        """Uncordon the nodes."""
        for name in change.nodes:
            self._one("Node", name)["spec"]["unschedulable"] = False

    def change_labelnodes(self, change: LabelNodes) -> None:
        """Label the nodes."""
        for name in change.nodes:
            self._one("Node", name)["metadata"]["labels"][change.key] = change.value

    def change_tolerate(self, change: Tolerate) -> None:
        """Add a toleration to each waiting pod."""
        taint = change.taint
        made = {"key": taint.key, "value": taint.value, "effect": str(taint.effect)}
        for pod in self._waiting:
            pod["spec"]["tolerations"] = [*pod["spec"].get("tolerations", []), made]

    def change_withoutselector(self, change: WithoutSelector) -> None:
        """Drop an entry of each nodeSelector."""
        for pod in self._waiting:
            selector = dict(pod["spec"].get("nodeSelector", {}))
            selector.pop(change.key, None)
            pod["spec"]["nodeSelector"] = selector

    def change_honortaints(self, _: HonorTaints) -> None:
        """Leave nodes with other taints out of topology spread."""
        for pod in self._waiting:
            for each in pod["spec"].get("topologySpreadConstraints", []):
                each["nodeTaintsPolicy"] = "Honor"

    def change_maypreempt(self, _: MayPreempt) -> None:
        """Let pods be evicted for the waiting ones."""
        for pod in self._waiting:
            pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority"

    def change_withoutnodeaffinity(self, _: WithoutNodeAffinity) -> None:
        """Drop the required node affinity."""
        for pod in self._waiting:
            affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
            affinity.pop("requiredDuringSchedulingIgnoredDuringExecution", None)


def bound_claim(namespace: str, name: str) -> list[Document]:
    """A claim and its volume, which all nodes can use."""
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{name}"},
        "spec": {
            **spec,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": namespace, "name": name},
        },
        "status": {"phase": "Bound"},
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {**spec, "volumeName": f"volume-{name}"},
        "status": {"phase": "Bound"},
    }
    return [volume, claim]


def _shrink(
    documents: list[Document],
    job: str,
    waiting: Iterable[Document],
    change: SmallerRequest,
) -> None:
    before = after = 0
    for pod in waiting:
        requests = pod["spec"]["containers"][0]["resources"]["requests"]
        if change.resource in requests:
            amount = quantities.parse(change.resource, requests[change.resource])
            before, after = before + amount, after + min(amount, change.after)
            _set(requests, change.resource, min(amount, change.after))
    least = _one(documents, "PodGroup", job)["spec"].get("minResources", {})
    if change.resource in least:
        amount = quantities.parse(change.resource, least[change.resource])
        _set(least, change.resource, -(-amount * after // before))


def _set(amounts: dict[str, str], name: str, amount: int) -> None:
    amounts[name] = f"{amount}m" if name == "cpu" else str(amount)


def _one(documents: Iterable[Document], kind: str, key: str) -> Document:
    return next(
        document for document in documents if (document["kind"], _key(document)) == (kind, key)
    )


def _pods(documents: Iterable[Document], job: str) -> list[Document]:
    namespace, _, name = job.partition("/")
    return [
        document
        for document in documents
        if document["kind"] == "Pod"
        and document["metadata"]["namespace"] == namespace
        and document["metadata"]["annotations"].get(manifests.GROUP) == name
    ]


def smaller(change: Change) -> list[Change]:
    """All smaller changes of the same kind, on its grid; those by one step first."""
    match change:
        case SmallerRequest(before=before, after=after, step=step):
            return [replace(change, after=each) for each in range(after + step, before, step)]
        case MoreNodes(count=count) | LargerNodes(count=count):
            return [replace(change, count=each) for each in reversed(range(1, count))]
        case RemoveTaint() | Uncordon() | LabelNodes():
            some = combinations(change.nodes, len(change.nodes) - 1)
            return [replace(change, nodes=each) for each in some if each]
        case QueueAmounts() | QuotaAmounts():
            return [each for each in _one_step_less(change) if each.after != each.before]
        case (
            FewerPods(before=before, after=after)
            | QueueWeight(before=before, after=after)
            | MoreDisruptions(before=before, after=after)
        ):
            step = 1 if after < before else -1
            return [replace(change, after=each) for each in range(after + step, before, step)]
    return []


def _one_step_less(change: Raised) -> Iterator[Raised]:
    before, steps = dict(change.before), dict(change.steps)
    for at, (name, amount) in enumerate(change.after):
        less = (name, max(before[name], amount - steps[name]))
        yield replace(change, after=(*change.after[:at], less, *change.after[at + 1 :]))


def is_monotone(change: Change) -> bool:
    """Whether a smaller change of this kind can't be expected to help where a larger one doesn't.

    More nodes, and more weight, can let other jobs start instead.
    """
    return not isinstance(change, MoreNodes | LargerNodes | QueueWeight)
